"""A net: layers, forks and joins; and its route, the paper's Algorithm 1.

A net is built from values. A value that several layers read becomes a FORK, as in
the paper; a layer with several inputs is a join. Nothing is allocated here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import prod
from operator import index
from typing import Literal, TypeAlias, TypeVar, get_args

from snref.layers.base import REUSING, Declarations, Layer, Node, make_node
from snref.layers.fork import Fork
from snref.plans import ITEM_BYTES, Kind, Plan, Run, Shape, Tensor, Work
from snref.support.units import one_of, shortened

ForkMode: TypeAlias = Literal["copy", "share"]
BranchOrder: TypeAlias = Literal["original", "natural"]
Item = TypeVar("Item")

LARGEST = 2**48  # bytes of a tensor: no device has so many, and 64 bits count them all


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """What a layer of a net returns while the net is being built."""

    name: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class _Entry:
    """A layer as it was added to a net."""

    name: str
    layer: Layer
    inputs: tuple[Value, ...]
    output: Value


@dataclass
class Net:
    """A directed acyclic graph of layers from one input to one loss.

    Add the input, then layers; each ``add`` and ``chain`` returns the output, for
    layers after it to read.

    declarations  "original": each layer reads in backward what the paper's code reads
                  (all exact numbers hold with it); "lean": what the mathematics needs;
                  "reuse": the same, so that a gradient may take any activation's
                  memory; "static": that, where nothing is freed or computed again
    fork          "copy": every reader of a value gets a copy of its own, as in the
                  original; "share": all read one. None: copy under original
    branch_order  "original": a fork's first branch runs last, as in the paper's code;
                  "natural": first branch first
    image_gradient
                  whether backward computes the gradient of the input, which nothing
                  reads. None: only under original, whose exact numbers count it

    >>> from snref.layers import Linear, Softmax
    >>> net = Net("tiny")
    >>> x = net.input((2, 8))
    >>> y = net.add("fc1", Linear(3), x)
    >>> y.shape
    (2, 3)
    >>> loss = net.add("softmax", Softmax(), y)
    >>> [node.name for node in net.nodes]
    ['fc1', 'softmax']
    """

    name: str
    declarations: Declarations = "original"
    fork: ForkMode | None = None
    branch_order: BranchOrder = "original"
    image_gradient: bool | None = None
    _entries: list[_Entry] = field(default_factory=list, repr=False)
    _values: dict[str, Value] = field(default_factory=dict, repr=False)
    _input: Value | None = field(default=None, repr=False)
    _nodes: tuple[Node, ...] | None = field(default=None, repr=False)
    _tensors: tuple[Tensor, ...] = field(default=(), repr=False)  # of the nodes

    def __post_init__(self) -> None:
        one_of("declarations", self.declarations, get_args(Declarations))
        one_of("fork", self.fork, (None, *get_args(ForkMode)))
        one_of("branch_order", self.branch_order, get_args(BranchOrder))

    def input(self, shape: Sequence[int], name: str = "data") -> Value:
        """Add the input: the images of a batch, (N, C, H, W) or (N, features)."""
        if self._input is not None:
            raise ValueError(f"{self.name} has its input already: {self._input.name}")
        if len(shape) < 2:
            raise ValueError(f"an input of shape {tuple(shape)}: it has >= 2 sizes")
        _check_name("the input", name)
        _check_shape("the input", shape)
        sizes = tuple(map(index, shape))  # of NumPy, too, become Python's
        self._input = self._values[name] = Value(name, sizes)
        return self._input

    def add(self, name: str, layer: Layer, *inputs: Value) -> Value:
        """Add a layer that reads these values; return its output.

        Raises ValueError, naming the layer, if the shapes do not fit it.
        """
        _check_name("a layer", name)
        where = f"layer {name!r}"
        if name in self._values:
            raise ValueError(f"two layers are called {name!r}")
        if not isinstance(layer, Layer):
            raise ValueError(f"{where}: {layer!r} is no layer")
        if not inputs:
            raise ValueError(f"{where} has no input")
        for value in inputs:
            if not isinstance(value, Value):
                raise ValueError(f"{where}: {value!r} is no value of a net")
            if self._values.get(value.name) is not value:
                raise ValueError(f"{where}: {value.name!r} is not of this net")
        try:
            shapes = [value.shape for value in inputs]
            shape = layer.output_shape(*shapes)
            for own in layer.parameter_shapes(*shapes).values():
                _check_shape("a parameter", own)
            _check_shape("an output", shape)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        output = self._values[name] = Value(name, shape)
        self._entries.append(_Entry(name, layer, inputs, output))
        self._nodes = None
        return output

    def chain(self, x: Value, prefix: str = "", /, **layers: Layer) -> Value:
        """Add layers that each read the output of the one before, the first of them x.

        >>> from snref.layers import Linear, ReLU
        >>> net = Net("tiny")
        >>> net.chain(net.input((2, 8)), "block.", fc=Linear(3), relu=ReLU()).name
        'block.relu'
        """
        for name, layer in layers.items():
            x = self.add(prefix + name, layer, x)
        return x

    def with_options(
        self,
        declarations: Declarations | None = None,
        fork: ForkMode | None = None,
        branch_order: BranchOrder | None = None,
        image_gradient: bool | None = None,
    ) -> "Net":
        """Return the same net under other options; None keeps an option."""
        wanted = self.image_gradient if image_gradient is None else image_gradient
        return replace(
            self,
            declarations=declarations or self.declarations,
            fork=fork or self.fork,
            branch_order=branch_order or self.branch_order,
            image_gradient=wanted,
            _entries=list(self._entries),
            _values=dict(self._values),
            _nodes=None,
        )

    def with_batch(self, batch: int) -> "Net":
        """Return the same net for batches of another size."""
        net = replace(self, _entries=[], _values={}, _input=None, _nodes=None)
        shape = self.input_shape
        assert self._input is not None
        name = self._input.name
        values = {name: net.input((batch, *shape[1:]), name)}
        for entry in self._entries:
            inputs = (values[value.name] for value in entry.inputs)
            values[entry.name] = net.add(entry.name, entry.layer, *inputs)
        return net

    @property
    def forks(self) -> ForkMode:
        """Return whether forks copy or share; the declarations give the default."""
        return self.fork or ("copy" if self.declarations == "original" else "share")

    @property
    def has_image_gradient(self) -> bool:
        """Return whether backward computes the gradient of the input."""
        if self.image_gradient is None:
            return self.declarations == "original"
        return self.image_gradient

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Return the layers in forward order, forks included, with their tensors."""
        if self._nodes is None:
            self._nodes = _make_nodes(self)
            self._tensors = _distinct_tensors(self._nodes)
        return self._nodes

    @property
    def batch(self) -> int:
        return self.input_shape[0]

    @property
    def input_shape(self) -> Shape:
        if self._input is None:
            raise ValueError(f"net {self.name!r} has no input")
        return self._input.shape

    def tensors(self, *kinds: Kind) -> tuple[Tensor, ...]:
        """Return the net's distinct tensors of these kinds, in forward order."""
        _ = self.nodes  # which finds their tensors
        return tuple([tensor for tensor in self._tensors if tensor.kind in kinds])


def _check_name(what: str, name: str) -> None:
    """Raise ValueError unless a name is one line of text, as files need it."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ValueError(
            f"{what} is called {name!r}: a name is one line of text, and not empty"
        )


def _check_shape(what: str, shape: Sequence[int]) -> None:
    """Raise ValueError unless all sizes are integers >= 1, of at most LARGEST bytes."""
    if not all(hasattr(size, "__index__") and index(size) > 0 for size in shape):
        said = shortened(tuple(shape))
        raise ValueError(f"{what} of shape {said}: every size is a whole number >= 1")
    if ITEM_BYTES["float32"] * prod(map(index, shape)) > LARGEST:
        said = shortened(tuple(shape))
        raise ValueError(f"{what} of shape {said}: more than {LARGEST} bytes")


def route(net: Net) -> Plan:
    """Return forward, backward and update of every layer, in order of execution.

    The forward of a layer runs when all its inputs are computed; then the layers that
    read it follow, depth first (SuperNeurons, Algorithm 1). The backward route is built
    the same way from the loss, with readers and inputs swapped. Parameters are updated
    at the end.

    Under the declarations "reuse" and "static" a gradient takes the memory of x, which
    the last reader of x can do. For the others x may leave the device before their
    gradient has memory, so what they read of x is a run of its own, "prepare". What a
    layer reads of its output y is one, too: it comes before the backward of the last
    reader of y, which may write over y. And a parameter is updated as soon as nothing
    reads it any more, so that the memory of its gradient is free for the next one.
    """
    backward = backward_runs(backward_order(net)).values()
    return with_updates(net, map(forward_run, net.nodes), chain(*backward))


def with_updates(net: Net, forward: Iterable[Run], backward: Iterable[Run]) -> Plan:
    """Return forward and backward runs, with the net's updates at their places."""
    update = [
        Run(node.name, "update", work)
        for node in net.nodes
        if (work := node.layer.update(node))
    ]
    if net.declarations in REUSING:
        return Plan((*forward, *_updated_at_once(backward, update)))
    return Plan((*forward, *backward, *update))


def _updated_at_once(backward: Iterable[Run], update: Sequence[Run]) -> Iterator[Run]:
    """Yield backward runs, each update after the last that uses what it does."""
    backward = tuple(backward)
    last = {t: i for i, run in enumerate(backward) for t in (*run.reads, *run.writes)}
    due: dict[int, list[Run]] = {}
    for run in update:
        after = (last.get(t, -1) for t in (*run.reads, *run.writes))
        due.setdefault(max(after, default=-1), []).append(run)
    yield from due.get(-1, ())
    for i, run in enumerate(backward):
        yield run
        yield from due.get(i, ())


def forward_run(node: Node) -> Run:
    """Return the forward of a layer."""
    layer = node.layer
    work = layer.forward(node)
    return Run(node.name, "forward", work, layer.checkpoint, layer.offload)


def backward_runs(order: Sequence[Node]) -> dict[Node, list[Run]]:
    """Return the runs in the place of each layer's backward, as ``route`` says.

    order  the layers, in the order of backward
    """
    last_reader = {x: node for node in order for x in _inputs(node)}
    runs: dict[Node, list[Run]] = {node: [] for node in order}
    for node, read_later in zip(order, _read_later(order), strict=True):
        first, *rest = _backward_runs(node, read_later)
        reader = last_reader.get(node.y)
        if rest and reader and node.y in first.reads and _takes_no_dy(node, first.work):
            runs[reader].insert(0, first)
            runs[node] += rest
        else:
            runs[node] += first, *rest
    return runs


def _inputs(node: Node) -> set[Tensor]:
    """Return what a layer reads in forward: nothing if it is a fork that shares."""
    return {x for x in node.xs if x not in node.ys}


def _read_later(order: Sequence[Node]) -> list[set[Tensor]]:
    """Return, for each layer, its inputs that a layer after it reads, too."""
    later: set[Tensor] = set()
    found: list[set[Tensor]] = []
    for node in reversed(order):
        own = _inputs(node)
        found.append(own & later)
        later |= own
    return found[::-1]


def _takes_no_dy(node: Node, work: Sequence[Work]) -> bool:
    return not any(dy in piece.reads for piece in work for dy in node.dys)


def _from_output(node: Node, work: Sequence[Work]) -> int:
    """Return how many first launches read y and no dy, if no other reads y."""
    reads_y = [node.y in piece.reads for piece in work]
    count = sum(reads_y)
    return count if all(reads_y[:count]) and _takes_no_dy(node, work[:count]) else 0


def _backward_runs(node: Node, read_later: set[Tensor]) -> Iterator[Run]:
    """Yield the backward of a layer as one run or two, as ``route`` says."""
    whole = Run(node.name, "backward", node.layer.backward(node))
    if node.reuses:
        work = whole.work
        count = _from_output(node, work) or max(
            (i for i, p in enumerate(work, 1) if not read_later.isdisjoint(p.reads)),
            default=0,
        )
        if count and any(t in node.dxs for p in work[count:] for t in p.outputs):
            yield Run(node.name, "prepare", work[:count])
            whole = Run(node.name, "backward", work[count:])
    yield whole


def inference(net: Net) -> Plan:
    """Return the forward of every layer as it is when the net is evaluated."""
    return Plan(
        tuple(
            Run(n.name, "forward", n.layer.inference(n), n.layer.checkpoint)
            for n in net.nodes
        )
    )


def backward_order(net: Net) -> list[Node]:
    """Order the layers from the loss, each after all layers that read its outputs."""
    nodes, order = net.nodes, net.branch_order
    maker = {dy: node for node in nodes for dy in node.dys}
    inputs = {n.name: [maker[t] for t in n.dxs if t in maker] for n in nodes}
    readers = {node.name: len(node.dys) for node in nodes}
    loss = nodes[-1]
    return _visit(loss, lambda n: inputs[n.name], lambda n: readers[n.name], order)


def _visit(
    start: Item,
    following: Callable[[Item], Sequence[Item]],
    awaited: Callable[[Item], int],
    order: BranchOrder,
) -> list[Item]:
    """Visit depth first from start, each item when it is reached for the last time.

    awaited(item) is how often it is reached.
    """
    reached: dict[int, int] = {}
    visited, stack = [], [start]
    while stack:
        here = stack.pop()
        if awaited(here) > 1:
            reached[id(here)] = reached.get(id(here), 0) + 1
            if reached[id(here)] < awaited(here):
                continue
        visited.append(here)
        branches = following(here)
        if order == "original" and len(branches) > 1:  # the first branch last
            branches = [*branches[1:], branches[0]]
        stack += reversed(branches)
    return visited


@dataclass(slots=True, eq=False)
class _Wire:
    """A layer, connected with the layers that it reads and that read it."""

    name: str
    layer: Layer | None  # None for the input
    sources: list[tuple["_Wire", int]] = field(default_factory=list)  # and which y
    readers: list["_Wire"] = field(default_factory=list)


def _wire(net: Net) -> _Wire:
    """Connect the layers, with a fork after each value that several layers read."""
    copies = net.forks == "copy"
    assert net._input is not None
    root = _Wire(net._input.name, None)
    wires = {root.name: root}
    for entry in net._entries:
        wires[entry.name] = _Wire(entry.name, entry.layer)
    uses: dict[str, list[_Wire]] = {name: [] for name in wires}
    for entry in net._entries:
        for value in entry.inputs:
            uses[value.name].append(wires[entry.name])
    readable: dict[str, Iterator[tuple[_Wire, int]]] = {}  # a y for each reader
    for name, users in uses.items():
        wire = wires[name]
        no_gradient = wire is root and not net.has_image_gradient
        if len(users) > 1 and not (no_gradient and not copies):
            fork = Fork(len(users), copies)
            split = _Wire(f"{name}.fork", fork, [(wire, 0)], users)
            if split.name in wires:
                raise ValueError(f"two layers are called {split.name!r}, one is a fork")
            wire.readers = [split]
            readable[name] = zip([split] * len(users), range(len(users)), strict=True)
        else:
            wire.readers = users
            readable[name] = zip([wire] * len(users), [0] * len(users), strict=True)
    for entry in net._entries:
        wires[entry.name].sources = [
            next(readable[value.name]) for value in entry.inputs
        ]
    return root


def _make_nodes(net: Net) -> tuple[Node, ...]:
    """Make the nodes in forward order, with all their tensors."""
    if net._input is None or not net._entries:
        raise ValueError(f"net {net.name!r} has no layers")
    order = _visit(
        _wire(net), lambda w: w.readers, lambda w: len(w.sources), net.branch_order
    )
    root, layers = order[0], order[1:]
    ends = [wire.name for wire in layers if not wire.readers]
    if len(ends) != 1 or not layers[-1].layer or not layers[-1].layer.loss:
        raise ValueError(
            f"net {net.name!r} ends in {', '.join(ends)}: it must end in one loss"
        )
    for wire in layers:
        if wire.readers and wire.layer and wire.layer.loss:
            raise ValueError(f"the loss {wire.name!r} is read by another layer")
    image = Tensor(root.name, net.input_shape, "input")
    ys: dict[_Wire, tuple[Tensor, ...]] = {root: (image,)}
    dys: dict[_Wire, tuple[Tensor | None, ...]] = {root: (None,)}
    if net.has_image_gradient:
        dys[root] = (Tensor(f"{root.name}.dy", net.input_shape, "gradient"),)
    nodes: dict[str, Node] = {}
    # Dropout draws by the number. So an image that is shared without a fork, since it
    # has no gradient, leaves the fork's number free: all options give the same bits.
    for number, wire in enumerate(layers, 2 if len(root.readers) > 1 else 1):
        assert wire.layer is not None
        node = nodes[wire.name] = make_node(
            wire.layer,
            wire.name,
            number,
            tuple(ys[source][which] for source, which in wire.sources),
            tuple(dys[source][which] for source, which in wire.sources),
            net.declarations,
            nodes,
        )
        ys[wire], dys[wire] = node.ys, node.dys or (None,) * len(node.ys)
    return tuple(nodes.values())


def _distinct_tensors(nodes: Sequence[Node]) -> tuple[Tensor, ...]:
    """Return the tensors of a net, each once.

    Raises ValueError if two of them have one name, by which files know them.
    """
    tensors = dict.fromkeys(chain.from_iterable([node.tensors for node in nodes]))
    if len({tensor.name for tensor in tensors}) == len(tensors):
        return tuple(tensors)
    taken: dict[str, Tensor] = {}
    name, layer = next(
        (tensor.name, node.name)
        for node in nodes
        for tensor in node.tensors
        if taken.setdefault(tensor.name, tensor) is not tensor
    )
    raise ValueError(f"layer {layer!r}: two tensors are called {name!r}")
