"""What time costs, as plain data: seconds for every run, bytes a second for copies.

Filled by a machine's roofline (``roofline.py``) or by measurement (``snref
profile``), and read by the scheduler, which so knows no device.

The file has the columns ``what,layer,phase,part,algorithm,value``:

    what       value                              and in the columns between
    source     where the numbers are from
    run        seconds of a layer's run           layer; phase: forward, prepare,
                                                  backward, update
    algorithm  seconds of a convolution's part    layer; part: forward, data, filter;
                                                  algorithm: its name
    to_host    bytes per second, device to host
    to_device  bytes per second, host to device
    latency    seconds before a copy begins

A run's seconds are without those of its convolution's parts, which are counted by
the algorithm that the plan chose.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from snref.plans import Part, Phase, Run
from snref.support.files import read, write
from snref.support.units import shortened

COLUMNS = ("what", "layer", "phase", "part", "algorithm", "value")
LEAST_SPEED = 1e-3  # bytes per second
MOST = 1e100  # of any number: sums and quotients of such are still numbers
LINK = ("to_host", "to_device", "latency")


@dataclass(frozen=True)
class Costs:
    """Seconds of every run, of every way to compute a convolution, and of copies.

    source      what the numbers are from: "virtual:k40c", or a file's name
    runs        (layer, phase) -> seconds, without the parts of a convolution
    algorithms  (layer, part, algorithm's name) -> seconds
    to_host, to_device   bytes per second of the link, each way
    latency     seconds from the start of a copy to its first byte

    >>> costs = Costs("by hand", {("relu1", "forward"): 0.5}, {}, 100.0, 200.0, 1.0)
    >>> costs.copy_out(300), costs.copy_in(300)
    (4.0, 2.5)
    """

    source: str
    runs: Mapping[tuple[str, Phase], float] = field(repr=False)
    algorithms: Mapping[tuple[str, Part, str], float] = field(repr=False)
    to_host: float
    to_device: float
    latency: float = 0.0

    def seconds(self, run: Run) -> float:
        """Seconds of a run, its convolution by the algorithms that were chosen.

        Raises ValueError if the run, or a chosen algorithm, has no seconds.
        """
        try:
            total = self.runs[run.layer, run.phase]
        except KeyError:
            raise ValueError(
                f"{self.source} has no seconds for {run.layer}.{run.phase}"
            ) from None
        for choice in run.choices:
            total += self.algorithm(run.layer, choice.part, choice.chosen.name)
        return total

    def algorithm(self, layer: str, part: Part, name: str) -> float:
        """Seconds of one way to compute a part of a layer's convolution."""
        try:
            return self.algorithms[layer, part, name]
        except KeyError:
            raise ValueError(
                f"{self.source} has no seconds for {layer}.{part} by {name}"
            ) from None

    def copy_out(self, nbytes: int) -> float:
        """Seconds of a copy to the host."""
        return self.latency + nbytes / self.to_host

    def copy_in(self, nbytes: int) -> float:
        """Seconds of a copy to the device."""
        return self.latency + nbytes / self.to_device

    def to_csv(self, path: str) -> None:
        """Write the file that ``from_csv`` reads; "-" is standard output."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(COLUMNS)
        rows.writerow(("source", "", "", "", "", self.source))
        for name in LINK:
            rows.writerow((name, "", "", "", "", getattr(self, name)))
        for (layer, phase), seconds in self.runs.items():
            rows.writerow(("run", layer, phase, "", "", seconds))
        for (layer, part, algorithm), seconds in self.algorithms.items():
            rows.writerow(("algorithm", layer, "", part, algorithm, seconds))
        write(path, text.getvalue())

    @classmethod
    def from_csv(cls, path: str) -> "Costs":
        """Read a file of costs. Raises ValueError that names the file and the line."""
        source = path
        runs: dict[tuple[str, Phase], float] = {}
        algorithms: dict[tuple[str, Part, str], float] = {}
        link: dict[str, float] = {}
        seen: set[tuple[str, ...]] = set()
        for where, row in _rows(path):
            what, layer, value = row["what"], row["layer"], row["value"]
            key = tuple(row[column] for column in COLUMNS[:-1])
            if key in seen:
                raise ValueError(f"{where}: a second value of {' '.join(key).strip()}")
            seen.add(key)
            match what:
                case "source":
                    source = value
                case "run":
                    phase: Phase = _one_of(row["phase"], get_args(Phase), where)
                    runs[layer, phase] = _number(value, where)
                case "algorithm":
                    part: Part = _one_of(row["part"], get_args(Part), where)
                    algorithms[layer, part, row["algorithm"]] = _number(value, where)
                case "to_host" | "to_device" | "latency":
                    link[what] = _number(value, where, above_zero=what != "latency")
                case _:
                    known = ("source", *LINK, "run", "algorithm")
                    _one_of(what, known, where)
        for name in ("to_host", "to_device"):
            if name not in link:
                raise ValueError(f"{path}: no row {name!r}, bytes per second of copies")
        return cls(source, runs, algorithms, **link)


def _rows(path: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Each row with where it stands, for messages."""
    rows = csv.reader(io.StringIO(read(path), newline=""))
    try:
        if tuple(next(rows, ())) != COLUMNS:
            raise ValueError(f"the columns must be {','.join(COLUMNS)}")
        for row in rows:
            if row and len(row) != len(COLUMNS):
                raise ValueError(f"{len(row)} columns, there must be {len(COLUMNS)}")
            if row:
                where = f"{path}, line {rows.line_num}"
                yield where, dict(zip(COLUMNS, row, strict=True))
    except (csv.Error, ValueError) as error:
        line = max(1, rows.line_num)
        raise ValueError(f"{path}, line {line}: {error}") from None


def _one_of(word: str, allowed: tuple[str, ...], where: str) -> Any:
    if word not in allowed:
        raise ValueError(f"{where}: {word!r} must be one of {', '.join(allowed)}")
    return word


def _number(text: str, where: str, above_zero: bool = False) -> float:
    """A finite number that is not negative, or above zero."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= MOST or (above_zero and number < LEAST_SPEED):
        allowed = f"{LEAST_SPEED:g}" if above_zero else "0"
        raise ValueError(
            f"{where}: the value must be a number from {allowed} to {MOST:g}, "
            f"not {shortened(text)}"
        )
    return number
