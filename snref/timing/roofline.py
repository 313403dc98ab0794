"""Modelled costs: the roofline of a machine that need not be here.

A kernel takes ``max(flops / peak, bytes / bandwidth) + latency`` (Williams, Waterman
and Patterson 2009), a copy ``bytes / link + latency``. Such seconds rank plans. They
are a model, not a measurement.

A machine is a file of ten lines under ``machines/``, or anywhere else: every number
with its source.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snref.plans import Algorithm, Choice, Part, Phase, Plan
from snref.support.files import read
from snref.support.units import shortened
from snref.timing.costs import Costs

MACHINES = Path(__file__).parent / "machines"
# What a number of a machine may be at all: 12 GB/s written as 12, or 5 us as 5, is not.
RANGE = {
    "FLOP/s": (1e6, 1e24),
    "bytes/s": (1e6, 1e24),
    "bytes": (2**20, 1e24),
    "seconds": (0, 1),
}
LEAST_SHARE = 1e-6
INTENSE = 8  # operations a byte: what does more multiplies matrices
NUMBERS = {  # of a machine's file, with their units
    "flops": "FLOP/s",
    "bandwidth": "bytes/s",
    "memory": "bytes",
    "to_host": "bytes/s",
    "to_device": "bytes/s",
    "launch_latency": "seconds",
    "copy_latency": "seconds",
}
UNSTATED = {"sliced": 1.0, "other": 1.0}  # shares of a file that does not state them
SHARES = ("direct", "tiled", "im2col", "winograd", "product", "memory", *UNSTATED)


@dataclass(frozen=True)
class Machine:
    """A GPU and its link to the host, in numbers that each have a source.

    flops        float32 operations per second, at most
    bandwidth    bytes per second of the device's memory, at most
    memory       bytes of it
    to_host, to_device   bytes per second of the link, each way
    launch_latency, copy_latency   seconds that a kernel, a copy, takes at the least
    efficiency   share of ``flops`` that kernels reach: by the name of a convolution
                 algorithm, "product" for matrix products and "other" for the rest;
                 and "memory", the share of ``bandwidth`` that all reach. "sliced" and
                 "other" are 1.0 if a file does not state them. A model.
    sources      where each of these numbers is from
    """

    name: str
    title: str
    flops: float
    bandwidth: float
    memory: float
    to_host: float
    to_device: float
    launch_latency: float
    copy_latency: float
    efficiency: Mapping[str, float]
    sources: Mapping[str, str] = field(repr=False)

    def seconds(self, kind: str, flops: int, bytes_accessed: int) -> float:
        """The roofline: seconds of a kernel of this kind of efficiency."""
        share = self.efficiency.get(kind, self.efficiency["other"])
        compute = flops / (share * self.flops)
        traffic = bytes_accessed / (self.efficiency["memory"] * self.bandwidth)
        return max(compute, traffic) + self.launch_latency

    def constants(self) -> dict[str, Any]:
        """All numbers with unit and source, for reports."""
        numbers: dict[str, Any] = {
            key: {
                "value": getattr(self, key),
                "unit": unit,
                "source": self.sources[key],
            }
            for key, unit in NUMBERS.items()
        }
        numbers["efficiency"] = {
            **self.efficiency,
            "source": self.sources["efficiency"],
        }
        return {"name": self.name, "title": self.title, **numbers}


def names() -> tuple[str, ...]:
    """Return the machines that come with snref: the files in ``machines``.

    >>> "k40c" in names()
    True
    """
    return tuple(sorted(path.stem for path in MACHINES.glob("*.toml")))


def machine(name: str) -> Machine:
    """A machine by name, "k40c" or "virtual:k40c", or from a file of one's own.

    Raises ValueError for a name that is unknown and for a file that is incomplete.

    >>> machine("k40c").bandwidth
    288000000000.0
    """
    name = name.removeprefix("virtual:")
    own = name.endswith(".toml")
    if not own and name not in names():
        raise ValueError(
            f"no machine {name!r}: {', '.join(names())}, or a file that ends in .toml"
        )
    path = Path(name) if own else MACHINES / f"{name}.toml"
    text = read(str(path))
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from None
    return _machine(path, table)


def _machine(path: Path, table: dict[str, Any]) -> Machine:
    """Check a machine's file, number by number."""
    _check_keys(f"{path}", table, ("title", *NUMBERS, "efficiency"))
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for key, unit in NUMBERS.items():
        values[key], sources[key] = _number(path, key, unit, table.get(key))
    given = table.get("efficiency")
    if not isinstance(given, dict) or not isinstance(given.get("source"), str):
        raise ValueError(
            f"{path}: 'efficiency' must be a table of shares and their source"
        )
    shares = {**UNSTATED, **given}
    sources["efficiency"] = shares.pop("source")
    _check_keys(f"{path}: efficiency", shares, SHARES)
    for key in SHARES:
        if key not in shares:
            raise ValueError(f"{path}: efficiency {key!r} is missing")
        if not _is_within(shares[key], LEAST_SHARE, 1):
            raise ValueError(
                f"{path}: efficiency {key!r} must be {LEAST_SHARE} to 1, not "
                f"{shortened(shares[key])}"
            )
    title = str(table.get("title", path.stem))
    return Machine(path.stem, title, **values, efficiency=shares, sources=sources)


def _check_keys(where: str, table: Mapping[Any, Any], allowed: Sequence[str]) -> None:
    """Raise ValueError if a table has a key that means nothing, as a misspelled one."""
    for key in table:
        if key not in allowed:
            raise ValueError(
                f"{where}: unknown key {shortened(key)}; the keys are "
                f"{', '.join(allowed)}"
            )


def _number(path: Path, key: str, unit: str, given: object) -> tuple[float, str]:
    """Return a number of a machine's file and its source, or say what is wrong."""
    least, most = RANGE[unit]
    wanted = f"{key} = {{ value = (in {unit}), source = (where it is from) }}"
    match given:
        case {"value": value, "source": str(source), **others}:
            _check_keys(f"{path}: {key!r}", others, ("value", "source"))
            if not _is_within(value, least, most):
                raise ValueError(
                    f"{path}: {key!r} must be a number from {least:g} to {most:g} in "
                    f"{unit}, not {shortened(value)}"
                )
            number: float = value
            return number, source
        case {"value": _}:
            wrong = "needs a source in quotes"
        case {"source": _}:
            wrong = "has no value"
        case None:
            wrong = "is missing"
        case _:
            wrong = f"must be a table, not {shortened(given)}"
    raise ValueError(f"{path}: {key!r} {wrong}; write {wanted}")


def _is_within(value: object, least: float, most: float) -> bool:
    """Whether it is a number, and not one that is too large, nor NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return least <= value <= most


def costs(plan: Plan, machine: Machine) -> Costs:
    """The roofline's seconds for every run of a plan, and every algorithm it may use.

    >>> from snref.plans import Launch, Plan, Run, Tensor
    >>> x, y = Tensor("x", (72, 1000)), Tensor("y", (72, 1000))
    >>> work = Launch("relu.forward", (y,), (x,), bytes_accessed=2 * x.nbytes)
    >>> plan = Plan((Run("relu1", "forward", (work,)),))
    >>> model = costs(plan, machine("k40c"))
    >>> f"{1e6 * model.runs['relu1', 'forward']:.2f} microseconds"
    '7.86 microseconds'
    """
    runs: dict[tuple[str, Phase], float] = {}
    algorithms: dict[tuple[str, Part, str], float] = {}
    known: dict[Algorithm, float] = {}  # layers of equal shapes share algorithms
    for run in plan.runs():
        if (run.layer, run.phase) in runs:
            continue  # a recomputation
        total = 0.0
        for piece in run.work:
            if isinstance(piece, Choice):
                for way in piece.algorithms:
                    if way not in known:
                        known[way] = machine.seconds(
                            way.name, way.flops, way.bytes_accessed
                        )
                    algorithms[run.layer, piece.part, way.name] = known[way]
            else:
                dense = piece.flops > INTENSE * piece.bytes_accessed
                kind = "product" if dense else "other"
                total += machine.seconds(kind, piece.flops, piece.bytes_accessed)
        runs[run.layer, run.phase] = total
    return Costs(
        f"virtual:{machine.name}",
        runs,
        algorithms,
        machine.to_host,
        machine.to_device,
        machine.copy_latency,
    )
