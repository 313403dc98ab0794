"""The options of the scheduler, each with its values, and the presets.

A preset is one line of ``PRESETS``.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from numbers import Integral
from typing import Literal, TypeAlias, get_args

from snref.support.units import one_of, shortened

Overwrite: TypeAlias = Literal["never", "gradients", "activations"]
Strategy: TypeAlias = Literal["speed-centric", "memory-centric", "cost-aware"]
Transfers: TypeAlias = Literal["none", "offload", "demand", "cache"]
Algorithms: TypeAlias = Literal["none", "exact", "fastest"]

PerTensor: TypeAlias = Literal["per tensor"]
PER_TENSOR: PerTensor = "per tensor"  # decided for each tensor by planning.quickest


@dataclass(frozen=True)
class Options:
    """What the scheduler may do. None is no limit.

    liveness       free each tensor after its last use. Without it (preset "baseline")
                   every tensor is allocated throughout, and nothing can be recomputed
                   or copied
    recompute      a strategy of the paper; None for no recomputation
    transfers      "none"; "offload" (convolutions' outputs, prefetched one convolution
                   ahead); "demand" (checkpoints' outputs, fetched at first need);
                   "cache" (LRU, only if the plan does not fit otherwise)
    algorithms     of convolutions. "none": without workspaces; "exact": those of one
                   summation order, which give the same bits; "fastest": any
    overwrite      "never"; "gradients": in place where the paper's code works in place;
                   "activations": gradients over what forward left, too
    capacity       bytes that may be in use at once, workspaces included
    slab           bytes of device memory in which they lie: the highest address
    host_capacity  bytes of host memory that the copies of a plan may take
    """

    liveness: bool = True
    recompute: Strategy | PerTensor | None = "cost-aware"
    transfers: Transfers | PerTensor = "cache"
    algorithms: Algorithms = "exact"
    overwrite: Overwrite = "gradients"
    capacity: int | None = None
    slab: int | None = None
    host_capacity: int | None = None

    def __post_init__(self) -> None:
        given: dict[str, object] = asdict(self)  # types are not checked otherwise
        one_of("liveness", given["liveness"], (True, False))
        for name, allowed in {
            "recompute": (None, *get_args(Strategy)),
            "transfers": get_args(Transfers),
            "algorithms": get_args(Algorithms),
            "overwrite": get_args(Overwrite),
        }.items():
            if name in ("recompute", "transfers") and given[name] == PER_TENSOR:
                continue
            one_of(name, given[name], allowed)
        for name in "capacity", "slab", "host_capacity":
            value = given[name]
            if value is not None and not (
                isinstance(value, Integral) and int(value) >= 0
            ):
                raise ValueError(
                    f"{name} {shortened(value)}: must be None or a whole number of "
                    "bytes, >= 0"
                )
        if not self.liveness and (self.recompute, self.transfers) != (None, "none"):
            raise ValueError(
                f"recompute {self.recompute!r}, transfers {self.transfers!r}: both "
                "need liveness; without it, as in preset 'baseline', every tensor stays"
            )

    @property
    def limit(self) -> int | None:
        """The smaller of capacity and slab."""
        limits = [n for n in (self.capacity, self.slab) if n is not None]
        return min(limits, default=None)


PRESETS: Mapping[str, Options] = {
    "baseline": Options(liveness=False, recompute=None, transfers="none"),
    "liveness": Options(recompute=None, transfers="none"),
    "offload": Options(recompute=None, transfers="offload"),
    "speed-centric": Options(recompute="speed-centric", transfers="offload"),
    "memory-centric": Options(recompute="memory-centric", transfers="offload"),
    "superneurons": Options(recompute="cost-aware", transfers="offload"),
    "cache": Options(recompute="cost-aware", transfers="cache"),
    "reuse": Options(
        liveness=False, recompute=None, transfers="none", overwrite="activations"
    ),
}
