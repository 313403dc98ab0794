"""The claims of the papers as one table; their numbers are in ``snref/papers``."""

from collections.abc import Iterator, Sequence

from snref.papers import LIST, Claim, Kind, numbers

__all__ = ["Claim", "Kind", "legend", "recalled", "table"]


def table(claims: Sequence[Claim]) -> str:
    """Return the claims as text."""

    def line(claim: Claim) -> str:
        ratio = "" if claim.ratio is None else f"{claim.ratio:.3f}"
        order = "order" if claim.kind.startswith("at ") else claim.kind
        return (
            f"{claim.what:56} {claim.paper:10.{claim.digits}f} "
            f"{claim.here:10.{claim.digits}f} {ratio:>7}  {order:8}  "
            f"{claim.confirmed:9}  {claim.verdict}"
        )

    head = (
        f"{'what':56} {'paper':>10} {'here':>10} {'ratio':>7}  {'kind':8}  "
        f"{'confirmed':9}  verdict"
    )
    return "\n".join([head, *map(line, claims)])


def legend() -> str:
    """Say what the columns of the table mean."""
    return """\
kind: how ours is held to the paper's number
  exact      bytes and counts that follow from shapes: every digit that the paper prints
  order      ours must be at most that, or at least that, as the verdict says
  hardware   of their machine, or of what the paper leaves open: shown, not compared
confirmed: how surely the paper's number is known
  yes        read in a public source
  derived    recalled, and by hand from shapes every digit is the same
  recalled   recalled only: never a reason to fail
deepest resnet: the paper says 1920 layers; a ResNet of bottlenecks has 3 n + 2, and
ours is held to the nearest such depth below, 1919"""


def recalled() -> str:
    """List the numbers that nobody has confirmed, and say how to confirm them."""

    def lines() -> Iterator[str]:
        yield (
            f"Recalled, and not confirmed. Who has the papers writes yes in the column "
            f"confirmed of {LIST.parent.parent.name}/{LIST.parent.name}/{LIST.name}:"
        )
        for number in numbers(confirmed="recalled"):
            yield f"  {number.item:22} {number.name:52} {number.printed:>9}"

    return "\n".join(lines())
