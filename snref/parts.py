"""Parts of the batch: the route of a net of which some layers run part by part.

A layer that treats each image by itself can run on some images of the batch alone: then
it is the same layer, with a smaller batch, and its tensors are parts. So no run needs
more than two parts of the largest activation, where a whole layer needs two of the
whole (TSPLIT, ICDE 2022, splits tensors to the same end).

group    consecutive layers that run part by part: each part goes through all of them
         before the next. What the group reads from outside is cut into parts first
         (``take``), what others read of it is joined at the end (``gather``)
part     whole slices of every sum over the batch (``layers/slices.py``). The gradient
         of a parameter is the sum of the parts before until the last part is added, and
         that is the sum of the whole batch, to the bit. Then the parameter is updated
name     the third part of conv1 is the layer "conv1[3]", of its output "conv1.y[3]"

A group ends before batch normalization, whose mean is that of all images, at the loss,
and where two layers share a parameter.

>>> from snref.nets import alexnet
>>> net = alexnet(batch=200)
>>> first, *_ = groups(net, 16)
>>> [node.name for node in first][:3], first[-1].name
(['conv1', 'relu1', 'lrn1'], 'pool5')
>>> print(cut(net, first, 16))
(16, 16, 16, 16, 16, 16, 16, 16, 16, 8, 8, 8, 8, 8, 8, 8)
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from typing import TypeAlias

from snref.layers.base import Node, Part
from snref.net import Net, backward_order, backward_runs, forward_run, with_updates
from snref.plans import Launch, Phase, Plan, Run, Tensor, grid_of

Group: TypeAlias = tuple[Node, ...]

_NAME_OF_A_PART = re.compile(r"(\[\d+\]|\.take|\.gather)$")


def groups(net: Net, count: int) -> list[Group]:
    """Return the groups of layers that can run in so many parts, in forward order.

    A layer whose sums have fewer slices is in none. Under the declarations "static"
    no layer is, since every tensor is held throughout.
    """
    if net.declarations == "static":
        return []
    found: list[list[Node]] = [[]]
    for node in net.nodes:
        if _slices(net, [node]) < count:
            found.append([])
            continue
        if not _owned(found[-1]).isdisjoint(node.parameters.values()):
            found.append([])
        found[-1].append(node)
    order = backward_order(net)
    return [tuple(group) for group in found if group and runs_in_one_go(order, group)]


def called_as_a_part(net: Net) -> str | None:
    """Return the name of a layer that a part, or a copy of parts, could have, too."""
    names = [node.name for node in net.nodes]
    return next((name for name in names if _NAME_OF_A_PART.search(name)), None)


def _images(group: Sequence[Node]) -> int | None:
    """Return of how many images the slices of a group are; None if it has no parts."""
    found = []
    for node in group:
        least = node.layer.part_images(*(x.shape for x in node.xs))
        if least is None or node.layer.loss:
            return None
        found.append(least)
    return max(found)


def _slices(net: Net, group: Sequence[Node]) -> int:
    """Return in how many parts a group can run at most."""
    images = _images(group)
    return -(-net.batch // images) if images else 1


def _owned(group: Sequence[Node]) -> set[Tensor]:
    return {w for node in group for w in node.parameters.values()}


def runs_in_one_go(order: Sequence[Node], group: Sequence[Node]) -> bool:
    """Return whether no other layer comes between those of a group in backward.

    A layer before everything that is trained has no backward.
    """
    own = {*group}
    places = [i for i, node in enumerate(order) if node in own]
    return bool(places) and places[-1] - places[0] + 1 == len(places)


def made_by(group: Sequence[Node]) -> set[Tensor]:
    """Return what layers compute in forward: a fork that shares computes nothing."""
    return {y for node in group for y in node.ys if y not in node.xs}


def cut(net: Net, group: Group, count: int) -> tuple[int, ...]:
    """Return how many images each part of a group has: as equal as its slices allow."""
    images, slices = _images(group) or net.batch, _slices(net, group)
    each, more = divmod(slices, count)
    sizes = [images * (each + (i < more)) for i in range(count)]
    sizes[-1] += net.batch - sum(sizes)
    return tuple(sizes)


def route_in_parts(net: Net, split: Sequence[tuple[Group, tuple[int, ...]]]) -> Plan:
    """Return the route of a net (``net.route``) of which some groups run in parts.

    split  groups, none of which share a layer, with the number of images of each part

    >>> from snref.layers import Linear, ReLU, Softmax
    >>> net = Net("tiny", declarations="lean")
    >>> x = net.chain(net.input((64, 8)), fc1=Linear(3), relu1=ReLU(), fc2=Linear(2))
    >>> loss = net.add("softmax", Softmax(), x)
    >>> print(route_in_parts(net, [(net.nodes[:2], (32, 32))]))
    forward   data.take[1]  -> data[1]
    forward   fc1[1]  data[1] -> fc1.y[1]
    forward   relu1[1]  fc1.y[1] -> relu1.y[1]
    forward   data.take[2]  -> data[2]
    forward   fc1[2]  data[2] -> fc1.y[2]
    forward   relu1[2]  fc1.y[2] -> relu1.y[2]
    forward   relu1.y.gather  relu1.y[1] relu1.y[2] -> relu1.y
    forward   fc2  relu1.y -> fc2.y
    forward   softmax  fc2.y -> softmax.y
    backward  softmax  softmax.y -> fc2.dy
    backward  fc2  relu1.y fc2.dy -> relu1.dy
    backward  relu1.dy.take[1]  relu1.dy -> relu1.dy[1]
    backward  relu1.dy.take[2]  relu1.dy -> relu1.dy[2]
    backward  relu1[1]  relu1.y[1] relu1.dy[1] -> fc1.dy[1]
    backward  fc1[1]  data[1] fc1.dy[1] ->
    backward  relu1[2]  relu1.y[2] relu1.dy[2] -> fc1.dy[2]
    backward  fc1[2]  data[2] fc1.dy[2] ->
    update    fc1
    update    fc2
    """
    made: list[_Parts] = []
    for group, sizes in split:
        others = {whole for parts in made for whole in parts.tensors[0]}
        made.append(_Parts(net, group, sizes, others))
    of = {node: parts for parts in made for node in parts.group}
    forward: list[Run] = []
    for node in net.nodes:
        if node not in of:
            forward.append(forward_run(node))
        elif node is of[node].group[0]:
            forward += of[node].forward()
    order = backward_order(net)
    whole = backward_runs([node for node in order if node not in of])
    backward: list[Run] = []
    begun: set[_Parts] = set()
    for node in order:
        if node not in of:
            backward += whole[node]
        elif of[node] not in begun:
            begun.add(of[node])
            backward += of[node].backward(order)
    return with_updates(net, forward, backward)


def on_part(node: Node, part: Part, of: Callable[[Tensor], Tensor]) -> Node:
    """Return a layer's node on a part of the batch; parameters and momenta are shared.

    of  returns the part of a tensor that has a row for each image
    """
    name, xs = _named(node.name, part), tuple(map(of, node.xs))
    scratch = node.layer.scratch_shapes(*(x.shape for x in xs))
    return replace(
        node,
        name=name,
        xs=xs,
        ys=tuple(map(of, node.ys)),
        dxs=tuple(None if dx is None else of(dx) for dx in node.dxs),
        dys=tuple(map(of, node.dys)),
        saved={key: of(t) for key, t in node.saved.items()},
        scratch={
            key: Tensor(f"{name}.{key}", scratch[key], t.kind, t.dtype)
            for key, t in node.scratch.items()
        },
        part=part,
    )


class _Parts:
    """A group in parts: its nodes on each of them, and what lies at its borders.

    others  tensors that other groups have in parts, too: their parts have other names
    """

    def __init__(
        self, net: Net, group: Group, sizes: tuple[int, ...], others: set[Tensor]
    ) -> None:
        self.group, self.others = group, others
        starts = (0, *accumulate(sizes[:-1]))
        self.parts = tuple(
            Part(i, first, images, net.batch)
            for i, (first, images) in enumerate(zip(starts, sizes, strict=True))
        )
        self.tensors: list[dict[Tensor, Tensor]] = [{} for _ in self.parts]
        own = made_by(group)
        outside = [node for node in net.nodes if node not in group]
        read = {x for node in outside for x in node.xs}
        asked = {dy for node in outside for dy in node.dys}
        mine = {dx for node in group for dx in node.dxs if dx is not None}
        self.entries = _distinct(x for n in group for x in n.xs if x not in own)
        self.exits = _distinct(y for n in group for y in n.ys if y in own & read)
        self.dy_entries = _distinct(dy for n in group for dy in n.dys if dy not in mine)
        self.dx_exits = _distinct(dx for dx in mine if dx in asked)
        self.nodes = [self._nodes(part) for part in self.parts]

    def _nodes(self, part: Part) -> dict[Node, Node]:
        """Return the nodes of the group's layers on a part."""

        def of(whole: Tensor) -> Tensor:
            return self._of(whole, part)

        return {node: on_part(node, part, of) for node in self.group}

    def forward(self) -> Iterator[Run]:
        """Yield the forward runs, part by part."""
        scheduled = [x for x in self.entries if x.scheduled]
        for part in self.parts:
            yield from (self._take(x, part, "forward") for x in scheduled)
        for part in self.parts:
            for x in self.entries:
                if not x.scheduled:
                    yield self._take(x, part, "forward")
            for node in self.group:
                yield forward_run(self.nodes[part.index][node])
        yield from (self._gather(y, "forward") for y in self.exits)

    def backward(self, order: Sequence[Node]) -> Iterator[Run]:
        """Yield the backward runs, part by part, so that sums go on in their order."""
        for part in self.parts:
            yield from (self._take(dy, part, "backward") for dy in self.dy_entries)
        for part in self.parts:
            nodes = self.nodes[part.index]
            own = backward_runs([nodes[node] for node in order if node in nodes])
            yield from chain(*own.values())
        yield from (self._gather(dx, "backward") for dx in self.dx_exits)

    def _of(self, tensor: Tensor, part: Part) -> Tensor:
        """Return the part of a tensor that has a row for each image."""
        known = self.tensors[part.index]
        if tensor not in known:
            kind = "activation" if tensor.kind == "input" else tensor.kind
            shape = part.images, *tensor.shape[1:]
            name = _named(self._label(tensor), part)
            known[tensor] = Tensor(name, shape, kind, tensor.dtype)
        return known[tensor]

    def _label(self, tensor: Tensor) -> str:
        """Return the name by which the group's parts of a tensor are called."""
        first = self.group[0].name
        return f"{tensor.name}.{first}" if tensor in self.others else tensor.name

    def _take(self, whole: Tensor, part: Part, phase: Phase) -> Run:
        """Copy a part out of a tensor."""
        mine = self._of(whole, part)
        launch = _copy("joins.take", mine, whole, mine, part)
        return Run(_named(f"{self._label(whole)}.take", part), phase, (launch,))

    def _gather(self, whole: Tensor, phase: Phase) -> Run:
        """Join the parts of a tensor."""
        count = len(self.parts)
        work = tuple(
            _copy(
                "joins.put", whole, self._of(whole, part), self._of(whole, part), part
            )
            for part in self.parts
        )
        work = tuple(replace(w, portion=(i, count)) for i, w in enumerate(work))
        return Run(f"{whole.name}.gather", phase, work, checkpoint=phase == "forward")


def _copy(
    kernel: str, output: Tensor, source: Tensor, smaller: Tensor, part: Part
) -> Launch:
    """Launch a copy of a part to or from its place in a whole tensor."""
    return Launch(
        kernel,
        (output,),
        (source,),
        (part.first * (smaller.size // part.images),),
        view="flat",
        grid=grid_of(smaller.size),
        bytes_accessed=2 * smaller.nbytes,
    )


def _named(name: str, part: Part) -> str:
    return f"{name}[{part.index + 1}]"


def _distinct(tensors: Iterator[Tensor]) -> tuple[Tensor, ...]:
    return tuple(dict.fromkeys(tensors))
