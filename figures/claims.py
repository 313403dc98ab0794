"""What a paper says, beside what was measured here."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Claim:
    """A number of a paper.

    kind   "exact": bytes and counts that follow from shapes, tested; "order": an
           inequality; "hardware": of the authors' machine, shown beside and never
           tested; "unexplained": as it is remembered, not reproduced and not fitted
    """

    what: str
    paper: float
    here: float
    kind: Literal["exact", "order", "hardware", "unexplained"]
    digits: int = 3  # after the point, as the paper prints it

    @property
    def fails(self) -> bool:
        """Whether an exact number is not the paper's, in all digits it prints."""
        off = abs(self.paper - self.here)
        return self.kind == "exact" and off > 10.0**-self.digits

    @property
    def verdict(self) -> str:
        if self.kind == "exact":
            return "DIFFERS" if self.fails else "every digit"
        return {"order": "order", "hardware": "their machine"}.get(
            self.kind, "not explained, not fitted"
        )


def table(claims: Sequence[Claim]) -> str:
    """The claims as text."""
    head = f"{'what':48} {'paper':>10} {'here':>10}  verdict"
    rows = (
        f"{c.what:48} {c.paper:10.{c.digits}f} {c.here:10.{c.digits}f}  {c.verdict}"
        for c in claims
    )
    return "\n".join([head, *rows])
