"""Splitting: which layers run part by part, so that a plan fits below the floor.

No plan can do with less than the largest run of its route. Where memory is less, the
largest layers run in parts of the batch (``snref/parts.py``): as few parts as fit, and
no layers that would fit as a whole. Parts cost kernels, each with its latency, and what
lies at the borders of a group is copied once more; but copies to the host are smaller,
and wait for each other less.

How a net is split in so many parts does not depend on the memory there is. Each number
of parts has its own least memory, and is only used below that of all smaller numbers.
So less memory never gives a higher peak with parts, either.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby

from snref.net import Net, backward_order, route
from snref.parts import (
    Group,
    called_as_a_part,
    cut,
    groups,
    made_by,
    route_in_parts,
    runs_in_one_go,
)
from snref.plans import Plan, Run, lower_bound
from snref.scheduler.in_place import overwrite
from snref.scheduler.options import Overwrite
from snref.support.units import shortened


@dataclass(frozen=True)
class InParts:
    """Layers that run part by part, in forward order.

    images  of each part

    >>> print(InParts(("conv1", "relu1", "pool1"), (12, 12, 10)))
    conv1 to pool1 in 3 parts of 2 x 12, 1 x 10 images
    """

    layers: tuple[str, ...]
    images: tuple[int, ...]

    def names(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each layer on each part, with that of the layer."""
        for layer in self.layers:
            for number in range(1, len(self.images) + 1):
                yield f"{layer}[{number}]", layer

    def __str__(self) -> str:
        first, last = self.layers[0], self.layers[-1]
        which = first if first == last else f"{first} to {last}"
        return f"{which} in {len(self.images)} parts of {_listed(self.images)} images"


@dataclass(frozen=True)
class Split:
    """A net of which some layers run part by part: its route, and what they are.

    least  bytes below which the route has no plan
    """

    route: Plan
    parts: tuple[InParts, ...]
    least: int


class NothingToSplit(ValueError):
    """Parts of the batch would not lower what a net needs at least."""


def split(net: Net, count: int, setting: Overwrite) -> Split:
    """Return the route of a net whose largest layers run in so many parts.

    Those are the layers that need more as a whole than any layer that must run whole,
    and more than any part of a layer would.

    setting  what may be written over, as in ``scheduler.Options``

    Raises NothingToSplit if the net needs no less in so many parts.

    >>> from snref.nets import alexnet
    >>> made = split(alexnet(200).with_options("lean"), 16, "activations")
    >>> print(*made.parts)
    conv1 to pool5 in 16 parts of 9 x 16, 7 x 8 images
    >>> made.least / 2**20
    39.720703125
    """
    whole = overwrite(route(net), setting)
    return _split(net, groups(net, count), count, setting, whole)


def _split(
    net: Net,
    can: Sequence[Group],
    count: int,
    setting: Overwrite,
    original: Plan,
) -> Split:
    """Split what is large of the groups that can be; original: the route of layers."""
    if name := called_as_a_part(net):
        raise NothingToSplit(
            f"layer {name!r} is called as parts of the batch are, which end in [N], "
            ".take or .gather: rename it, or omit parts"
        )
    whole = _own_bytes(original)
    every = [(group, cut(net, group, count)) for group in can]
    in_parts = _own_bytes(overwrite(route_in_parts(net, every), setting))
    layers = {node.name for group in can for node in group}
    parts = {name for group in _in_parts(every) for name, _ in group.names()}
    limit = max(
        [nbytes for name, nbytes in whole.items() if name not in layers]
        + [nbytes for name, nbytes in in_parts.items() if name in layers | parts]
    )
    found = []
    for group in can:
        large = [i for i, node in enumerate(group) if whole[node.name] > limit]
        if large:
            fewer = _widened(net, group, large[0], large[-1], limit)
            found.append((fewer, cut(net, fewer, count)))
    made = route_in_parts(net, found)
    least = lower_bound(overwrite(made, setting))
    if least >= max(whole.values()):
        run = max(original.runs(), key=_bytes)
        raise NothingToSplit(
            f"{net.name} needs no less memory in {count} parts than whole: "
            f"{run.layer} {run.phase} needs {_bytes(run)} bytes"
        )
    return Split(made, tuple(_in_parts(found)), least)


def _in_parts(split: Sequence[tuple[Group, tuple[int, ...]]]) -> list[InParts]:
    return [InParts(tuple(n.name for n in group), images) for group, images in split]


def check_parts(count: int, net: Net, costs: object) -> None:
    """Raise ValueError unless a net can be planned in so many parts.

    costs  measured seconds, which are of whole layers; or None
    """
    if not isinstance(count, int) or not 2 <= count <= net.batch:
        raise ValueError(
            f"parts {shortened(count)}: must be a whole number from 1 to the batch, "
            f"{net.batch}"
        )
    if net.declarations == "static":
        raise ValueError(
            "under the declarations 'static', as in preset 'reuse', every activation "
            "is held throughout, and parts of the batch make that no less: omit parts"
        )
    if costs is not None:
        raise ValueError(
            "measured costs are those of whole layers: omit parts, or omit the costs "
            "and take those of a machine's model"
        )


def splits(net: Net, setting: Overwrite) -> Iterator[Split]:
    """Yield ways to split a net: more and more parts, each needs less than all before.

    >>> from snref.nets import alexnet
    >>> net = alexnet(200).with_options("lean")
    >>> [made.least // 2**20 for made in splits(net, "activations")]
    [248, 168, 148, 79, 59, 39]
    """
    original = overwrite(route(net), setting)
    whole = _own_bytes(original)
    least = max(whole.values())
    for count in counts(net.batch):
        can = groups(net, count)
        layers = {node.name for group in can for node in group}
        if max(n for name, n in whole.items() if name not in layers) < least:
            with suppress(NothingToSplit):
                made = _split(net, can, count, setting, original)
                if made.least < least:
                    least = made.least
                    yield made


def like(net: Net, parts: Sequence[InParts]) -> Plan:
    """Return the route of a net that runs in the parts of the same net's larger batch.

    No part has more images than the largest there, so no run needs more.
    """
    nodes = {node.name: node for node in net.nodes}
    found = []
    for each in parts:
        most = max(each.images)
        full, rest = divmod(net.batch, most)
        images = (most,) * full + (rest,) * (rest > 0)
        if images[1:]:
            found.append((tuple(nodes[name] for name in each.layers), images))
    return route_in_parts(net, found)


def counts(batch: int) -> Iterator[int]:
    """Yield the numbers of parts that are tried.

    >>> [*counts(40)]
    [2, 3, 4, 6, 8, 12, 16, 24, 32, 40]
    """
    count = 2
    while count < batch:
        yield count
        if 3 * count // 2 < batch:
            yield 3 * count // 2
        count *= 2
    if batch > 1:
        yield batch


def _own_bytes(plan: Plan) -> dict[str, int]:
    """Return what the largest run of each layer needs."""
    found: dict[str, int] = {}
    for run in plan.runs():
        found[run.layer] = max(found.get(run.layer, 0), _bytes(run))
    return found


def _bytes(run: Run) -> int:
    return sum(tensor.aligned_bytes for tensor in run.working_set)


def _widened(net: Net, group: Group, first: int, last: int, limit: int) -> Group:
    """Return a group from one of its layers to another, or as much more as is needed.

    At its borders whole tensors are cut and joined, for which a run needs twice their
    bytes. If these are more than the limit, the border moves on.
    """
    while first > 0 and 2 * _entering(group[first : last + 1]) > limit:
        first -= 1
    while last + 1 < len(group) and 2 * _leaving(net, group[first : last + 1]) > limit:
        last += 1
    fewer = group[first : last + 1]
    return fewer if runs_in_one_go(backward_order(net), fewer) else group


def _entering(group: Group) -> int:
    """Return the bytes of the largest gradient that a group gives to what is before."""
    own = made_by(group)
    edges = [edge for node in group for edge in zip(node.xs, node.dxs, strict=True)]
    return max((dx.aligned_bytes for x, dx in edges if dx and x not in own), default=0)


def _leaving(net: Net, group: Group) -> int:
    """Return the bytes of the largest output of a group that others read."""
    own = {*group}
    read = {x for node in net.nodes if node not in own for x in node.xs}
    return max((y.aligned_bytes for y in made_by(group) & read), default=0)


def _listed(images: tuple[int, ...]) -> str:
    """Say how many images each part has, with equal ones together.

    >>> _listed((16, 16, 16, 16, 16, 8, 8, 8, 8))
    '5 x 16, 4 x 8'
    """
    counted = [f"{len([*same])} x {size}" for size, same in groupby(images)]
    return ", ".join(counted)
