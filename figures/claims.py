"""What a paper says, beside what was measured here."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from snref.support.units import one_of

Kind: TypeAlias = Literal["exact", "at most", "at least", "hardware", "unexplained"]
VERDICTS: dict[Kind, str] = {  # of a claim that does not fail
    "exact": "every digit",
    "at most": "at most that",
    "at least": "at least that",
    "hardware": "their machine",
    "unexplained": "not explained, not fitted",
}


@dataclass(frozen=True)
class Claim:
    """A number of a paper.

    kind   "exact": bytes and counts that follow from shapes, compared in all digits
           that the paper prints; "at most", "at least": here it must be no more, or no
           less, than the paper's number; "hardware": of the authors' machine, shown
           beside and never compared; "unexplained": as it is remembered, not reproduced
           and not fitted
    """

    what: str
    paper: float
    here: float
    kind: Kind
    digits: int = 3  # after the point, as the paper prints it

    def __post_init__(self) -> None:
        one_of(f"claim {self.what!r}, kind", self.kind, get_args(Kind))

    @property
    def fails(self) -> bool:
        """Whether the number here is not as the paper claims."""
        match self.kind:
            case "exact":
                return f"{self.here:.{self.digits}f}" != f"{self.paper:.{self.digits}f}"
            case "at most":
                return not self.here <= self.paper
            case "at least":
                return not self.here >= self.paper
            case "hardware" | "unexplained":
                return False

    @property
    def verdict(self) -> str:
        return "DIFFERS" if self.fails else VERDICTS[self.kind]


def table(claims: Sequence[Claim]) -> str:
    """The claims as text."""
    head = f"{'what':48} {'paper':>10} {'here':>10}  verdict"
    rows = (
        f"{c.what:48} {c.paper:10.{c.digits}f} {c.here:10.{c.digits}f}  {c.verdict}"
        for c in claims
    )
    return "\n".join([head, *rows])
