"""The numbers of both papers, and how each of them compares with a number of ours.

``numbers.csv`` is the only list of them: a row a number. The papers' text was not at
hand when it was written, so its column ``confirmed`` says how surely each is known:

    yes        read in a public source
    derived    recalled, and derived by hand from shapes: all printed digits agree
    recalled   recalled only; shown, and never the reason for a failure

Who has a paper confirms a number by writing "yes" there.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from snref.support.units import one_of

Kind: TypeAlias = Literal["exact", "at most", "at least", "hardware"]
Confirmed: TypeAlias = Literal["yes", "derived", "recalled"]
LIST = Path(__file__).parent / "numbers.csv"
HOLDS: dict[Kind, str] = {  # the verdict on a claim that holds
    "exact": "every digit",
    "at most": "at most that",
    "at least": "at least that",
    "hardware": "their machine",
}


@dataclass(frozen=True)
class Claim:
    """A number of a paper beside ours.

    kind       "exact": bytes and counts that follow from shapes, compared in all digits
               that the paper prints; "at most", "at least": ours must be no more, or no
               less; "hardware": of the authors' machine, shown beside, never compared
    digits     after the point, as the paper prints it
    confirmed  how surely the paper's number is known, see above
    """

    what: str
    paper: float
    here: float
    kind: Kind
    digits: int = 3
    confirmed: Confirmed = "yes"

    def __post_init__(self) -> None:
        one_of(f"claim {self.what!r}, kind", self.kind, get_args(Kind))
        one_of(f"claim {self.what!r}, confirmed", self.confirmed, get_args(Confirmed))

    @property
    def holds(self) -> bool:
        """Whether the number here is as the paper says."""
        match self.kind:
            case "exact":
                return f"{self.here:.{self.digits}f}" == f"{self.paper:.{self.digits}f}"
            case "at most":
                return self.here <= self.paper
            case "at least":
                return self.here >= self.paper
            case "hardware":
                return True

    @property
    def fails(self) -> bool:
        """Whether it does not hold although the paper's number is surely known."""
        return not self.holds and self.confirmed != "recalled"

    @property
    def verdict(self) -> str:
        if self.holds:
            return HOLDS[self.kind]
        return "DIFFERS" if self.fails else "not explained, not fitted"

    @property
    def ratio(self) -> float | None:
        """Ours over the paper's."""
        return self.here / self.paper if self.paper else None


@dataclass(frozen=True)
class Number:
    """A row of the list.

    item     the figure or table, by what it shows
    plan     the preset, or whose number it is
    what     what is counted
    printed  the number as the paper prints it
    """

    paper: str
    item: str
    net: str
    batch: int
    plan: str
    what: str
    unit: str
    printed: str
    kind: Kind
    confirmed: Confirmed

    @property
    def value(self) -> float:
        return float(self.printed)

    @property
    def name(self) -> str:
        """What it is, in words."""
        batch = f"b{self.batch}" if self.batch else ""
        words = (self.net, batch, self.plan, self.what, self.unit)
        return " ".join(filter(None, words))

    def beside(self, here: float) -> Claim:
        """Return the claim that ours is as this number."""
        digits = len(self.printed.partition(".")[2])
        return Claim(
            self.name, self.value, here, self.kind, digits, confirmed=self.confirmed
        )


def numbers(**columns: str | int) -> Sequence[Number]:
    """Return the numbers whose columns have these values.

    Raises ValueError if there are none.

    >>> [n.printed for n in numbers(net="resnet50", what="extra forwards")]
    ['84', '118', '85']
    """
    found = [
        number
        for number in _all()
        if all(getattr(number, column) == value for column, value in columns.items())
    ]
    if not found:
        raise ValueError(f"{LIST.name}: no number with {columns}")
    return found


@cache
def _all() -> tuple[Number, ...]:
    """Read the list, and check what its columns may say."""
    with LIST.open(newline="", encoding="utf-8") as file:
        rows = [*csv.DictReader(file)]
    return tuple(_number(line, row) for line, row in enumerate(rows, 2))


def _number(line: int, row: dict[str, str]) -> Number:
    where = f"{LIST.name}, line {line}"
    one_of(f"{where}, kind", row["kind"], get_args(Kind))
    one_of(f"{where}, confirmed", row["confirmed"], get_args(Confirmed))
    float(row["printed"])
    return Number(**{**row, "batch": int(row["batch"] or 0)})  # type: ignore[arg-type]
