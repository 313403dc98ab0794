"""How fast the kernels are on the CPU device, beside PyTorch and NumPy in the same run.

Every launch of a layer as its net would run it, on one thread and on two; PyTorch and
NumPy on one (for a convolution, NumPy's BLAS does a product of as many multiply-adds).
Multiply-adds or bytes a second (10^9, the bytes as the layer declares them: more than
the machine's memory gives where a cache holds them), the best of several rounds in
which all take turns. Two cores can be more than twice one: they have two caches.
Where a kernel has simple versions (``snref/kernels/versions.py``), they are measured,
too: the algorithms called after them show what each step towards the fast one buys.
Nothing here is a test: a rate is a fact about a machine.

python -m figures kernels --measure long   everything, as CSV and picture, if the CSV
                                           is not there
python -m figures.kernels              the table of that CSV
python -m figures.kernels pool LRN     only operations with such a word, measured now
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from math import prod
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

import llvmlite.binding as llvm
import numba
import numpy as np
from matplotlib.figure import Figure

from snref import simt
from snref.device.views import number, viewed
from snref.kernels import find
from snref.kernels.versions import VERSIONS, grid_and_block
from snref.layers import (
    LRN,
    Add,
    AveragePool,
    BatchNorm,
    Concat,
    Conv,
    Dropout,
    Linear,
    MaxPool,
    ReLU,
    Softmax,
)
from snref.layers.base import Layer, Node
from snref.plans import ALIGNMENT, Choice, Launch, Shape, Tensor, Work
from snref.views import BLUE, GREEN, GREY, PAGE

Array: TypeAlias = "np.ndarray[Any, Any]"
Call: TypeAlias = Callable[[], Any]

ROUNDS = 40
AT_LEAST = 0.002  # seconds that a round of one contestant lasts: most are undisturbed
SLAB = 1 << 30  # bytes for the arrays of a case; untouched ones cost nothing
LADDERS = "conv 3x3, 64 channels", "linear 512"  # operations, forward
COLOURS = {"GMAC/s": BLUE, "GB/s": GREEN}
AT_MOST = 0.5  # seconds after which a contestant has no more rounds


@dataclass(frozen=True)
class Case:
    """A layer on inputs of given shapes, and the same operation in PyTorch.

    pytorch is called with torch.nn.functional, the inputs and the parameters; numpy,
    where there is one, with the inputs, and computes forward.
    """

    name: str
    layer: Layer
    shapes: tuple[Shape, ...]
    pytorch: Callable[..., Any]
    numpy: Callable[..., Array] | None = None


def convolution(
    name: str, x: Shape, filters: int, kernel: int, stride: int = 1, padding: int = 0
) -> Case:
    layer = Conv(filters, kernel, stride, padding, bias=False)
    return Case(
        name, layer, (x,), lambda f, x, w: f.conv2d(x, w, None, stride, padding)
    )


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(1, keepdims=True))
    probabilities: Array = powers / powers.sum(1, keepdims=True)
    return probabilities


ALEXNET1 = (16, 96, 55, 55)
CASES = (
    convolution("conv 3x3, 64 channels", (8, 64, 32, 32), 64, 3, 1, 1),
    convolution("conv 11x11/4, AlexNet 1", (4, 3, 227, 227), 96, 11, 4),
    convolution("conv 5x5, AlexNet 2", (2, 96, 27, 27), 256, 5, 1, 2),
    convolution("conv 1x1, ResNet", (2, 64, 56, 56), 256, 1),
    convolution("conv 7x7/2, ResNet", (2, 3, 224, 224), 64, 7, 2, 3),
    Case(
        "linear 512",
        Linear(512, bias=False),
        ((512, 512),),
        lambda f, x, w: f.linear(x, w),
    ),
    Case(
        "max pool 3x3/2, AlexNet 1",
        MaxPool(3, 2),
        (ALEXNET1,),
        lambda f, x: f.max_pool2d(x, 3, 2),
    ),
    Case(
        "max pool 3x3/2, AlexNet 5",
        MaxPool(3, 2),
        ((32, 256, 13, 13),),
        lambda f, x: f.max_pool2d(x, 3, 2),
    ),
    Case(
        "max pool 2x2, VGG 2",
        MaxPool(2),
        ((4, 128, 112, 112),),
        lambda f, x: f.max_pool2d(x, 2),
    ),
    Case(
        "average pool 3x3, Inception",
        AveragePool(3, 1, 1),
        ((8, 192, 35, 35),),
        lambda f, x: f.avg_pool2d(x, 3, 1, 1, count_include_pad=False),
    ),
    Case(
        "average pool 2x2, DenseNet",
        AveragePool(2),
        ((8, 128, 56, 56),),
        lambda f, x: f.avg_pool2d(x, 2),
    ),
    Case(
        "average pool 7x7, ResNet",
        AveragePool(),
        ((16, 2048, 7, 7),),
        lambda f, x: f.avg_pool2d(x, 7),
    ),
    Case(
        "LRN, AlexNet 2",
        LRN(),
        ((8, 256, 27, 27),),
        lambda f, x: f.local_response_norm(x, 5, 5e-4, 0.75, 2.0),
    ),
    Case(
        "ReLU",
        ReLU(),
        (ALEXNET1,),
        lambda f, x: f.relu(x),
        lambda x: np.maximum(x, 0),
    ),
    Case("add", Add(), (ALEXNET1, ALEXNET1), lambda f, a, b: a + b, np.add),
    Case(
        "concat",
        Concat(),
        (ALEXNET1, ALEXNET1),
        lambda f, *xs: f.torch.cat(xs, 1),
        lambda *xs: np.concatenate(xs, 1),
    ),
    Case(
        "batch norm, ResNet",
        BatchNorm(),
        ((16, 64, 56, 56),),
        lambda f, x, gamma, beta: f.batch_norm(x, None, None, gamma, beta, True),
    ),
    Case(
        "batch norm 7x7, ResNet",
        BatchNorm(),
        ((16, 512, 7, 7),),
        lambda f, x, gamma, beta: f.batch_norm(x, None, None, gamma, beta, True),
    ),
    Case("dropout", Dropout(0.5), ((256, 4096),), lambda f, x: f.dropout(x, 0.5)),
    Case(
        "softmax, 1000 classes",
        Softmax(),
        ((256, 1000),),
        # forward is both the probabilities and the loss
        lambda f, x: (f.softmax(x, 1), f.cross_entropy(x, x.new_zeros(256).long())),
        softmax,
    ),
)


# What is run


def node_of(case: Case) -> Node:
    """The layer between tensors of its own."""
    layer, shapes = case.layer, case.shapes
    y = layer.output_shape(*shapes)
    parameters = layer.parameter_shapes(*shapes)
    saved = dict(layer.saved_shapes(*shapes))
    tensors = {name: Tensor(name, shape, "state") for name, shape in saved.items()}
    if layer.loss:
        labels = layer.labels_shape(*shapes)
        tensors["labels"] = Tensor("labels", labels, "input", "int32")
    return Node(
        name=case.name,
        number=1,
        layer=layer,
        xs=tuple(Tensor(f"x{i}", shape) for i, shape in enumerate(shapes)),
        ys=(Tensor("y", y),),
        dxs=tuple(Tensor(f"dx{i}", s, "gradient") for i, s in enumerate(shapes)),
        dys=(Tensor("dy", y, "gradient"),),
        parameters={k: Tensor(k, s, "parameter") for k, s in parameters.items()},
        parameter_gradients={k: Tensor(f"d{k}", s) for k, s in parameters.items()},
        momenta={},
        saved=tensors,
        declarations="lean",
    )


class Values:
    """The arrays of a node's tensors, made when they are first asked for.

    They lie in one slab, as on a device: what the machine makes of a large piece of
    memory (huge pages) then holds for all of them, and for every run alike.
    """

    def __init__(self) -> None:
        self.arrays: dict[Tensor, Array] = {}
        self.slab = np.empty(SLAB, np.uint8)
        self.used = -self.slab.ctypes.data % ALIGNMENT
        self.random = np.random.default_rng(2018)

    def __getitem__(self, tensor: Tensor) -> Array:
        if tensor not in self.arrays:
            made = self.place(tensor)
            if tensor.dtype == "int32":
                made[...] = 0
            else:
                self.random.random(out=made, dtype=np.float32)
                centred = tensor.name.startswith(("x", "d"))
                made -= np.float32(0.5 if centred else -0.5)
            self.arrays[tensor] = made
        return self.arrays[tensor]

    def place(self, tensor: Tensor) -> Array:
        """The next bytes of the slab."""
        first = self.used
        self.used += tensor.aligned_bytes
        assert self.used <= SLAB, f"{tensor} finds no room: SLAB is too small"
        array = self.slab[first : first + tensor.nbytes].view(tensor.dtype)
        return array.reshape(tensor.shape)


def runnable(launches: Sequence[Launch], values: Values, threads: int) -> Call:
    """The launches, with their arrays, as one call."""
    scalars = {"seed": 1, "iteration": 2}
    calls = []
    for launch in launches:
        kernel = simt.compile(find(launch.kernel), threads=threads)
        arrays = [
            values[tensor].reshape(viewed(tensor.shape, launch.view))
            for tensor in (*launch.outputs, *launch.inputs)
        ]
        numbers = [
            number(scalars[s] if isinstance(s, str) else s) for s in launch.scalars
        ]
        calls.append(partial(kernel[launch.grid, launch.block], *arrays, *numbers))
    return lambda: [call() for call in calls]


@dataclass(frozen=True)
class Entry:
    """One row before it is measured: kernels, and what they compete with."""

    part: str
    algorithm: str
    launches: tuple[Launch, ...]
    pytorch: Call | None
    numpy: Call | None


def entries(case: Case, values: Values, torch: Any) -> Iterator[Entry]:
    """Forward and backward of a layer; a convolution's parts by every algorithm."""
    node = node_of(case)
    for phase in ("forward", "backward"):
        work = getattr(node.layer, phase)(node)
        for choice in (piece for piece in work if isinstance(piece, Choice)):
            other = torch and convolution_in(torch, case, choice.part, node, values)
            blas = product_like(choice, values)
            for way in choice.algorithms:
                size = (-(-way.workspace // 4),)
                scratch = Tensor("scratch", size, "workspace") if size[0] else None
                launches = way.launches(choice.output, *choice.inputs, scratch)
                yield Entry(choice.part, way.name, launches, other, blas)
                if way.name == "direct":
                    for name, launch in versions(launches[0]):
                        yield Entry(choice.part, name, (launch,), other, blas)
        if launches := tuple(plain(work)):
            other = torch and layer_in(torch, case, phase, node, values)
            numpy = None
            if case.numpy and phase == "forward":
                numpy = partial(case.numpy, *(values[x] for x in node.xs))
            yield Entry(phase, "", launches, other, numpy)
            for name, launch in versions(launches[0]):
                yield Entry(phase, name, (launch,), other, numpy)


def versions(launch: Launch) -> Iterator[tuple[str, Launch]]:
    """The simple versions of a launch's kernel, by name, on the same tensors."""
    y = launch.outputs[0].shape
    assert isinstance(launch.kernel, str), "our own kernels have names"
    for names in VERSIONS.values():
        for name in names if launch.kernel in names else ():
            if name.startswith("versions."):
                convolution = launch.kernel.startswith("conv.")
                groups = int(launch.scalars[-1]) if convolution else 1
                grid, block = grid_and_block(name, y, groups)
                simple = replace(
                    launch, kernel=name, grid=grid, block=block, view="shape"
                )
                yield name.removeprefix("versions."), simple


def plain(work: Sequence[Work]) -> Iterator[Launch]:
    """The launches that are not a choice of algorithms."""
    for piece in work:
        if isinstance(piece, Launch) and piece.kernel != "softmax.mean":
            yield piece


def product_like(choice: Choice, values: Values) -> Call:
    """A matrix product of as many multiply-adds, in NumPy's BLAS."""
    rows = choice.output.shape[1 if choice.part != "filter" else 0]
    columns = prod(choice.output.shape) // rows
    depth = choice.flops // 2 // rows // columns
    a, b = (np.ones(shape, np.float32) for shape in ((rows, depth), (depth, columns)))
    out = np.empty((rows, columns), np.float32)
    return partial(np.matmul, a, b, out=out)


def convolution_in(
    torch: Any, case: Case, part: str, node: Node, values: Values
) -> Call:
    """A part of a convolution, as PyTorch computes it."""
    x, w, dy = (
        torch.from_numpy(values[t]) for t in (node.x, node.parameters["w"], node.dy)
    )
    if part == "forward":
        return partial(case.pytorch, torch.nn.functional, x, w)
    layer: Any = node.layer
    wanted = [part == "data", part == "filter", False]
    stride, padding = [layer.stride] * 2, [layer.padding] * 2
    # dy, x, w, bias, stride, padding, dilation, transposed, output padding, groups
    settings = (dy, x, w, None, stride, padding, [1, 1], False, [0, 0], 1)
    return partial(torch.ops.aten.convolution_backward, *settings, wanted)


def layer_in(
    torch: Any, case: Case, phase: str, node: Node, values: Values
) -> Call | None:
    """Forward or backward of a layer, as PyTorch computes it; None if it need not."""
    tensors = (*node.xs, *node.parameters.values())
    given = [torch.from_numpy(values[tensor]) for tensor in tensors]
    if phase == "forward":
        return partial(case.pytorch, torch.nn.functional, *given)
    if isinstance(case.layer, Add | Concat):
        return None  # autograd hands out dy itself, or views of it
    given = [tensor.clone().requires_grad_() for tensor in given]
    if isinstance(case.layer, Softmax):
        labels = torch.zeros(len(given[0]), dtype=torch.int64)
        loss = torch.nn.functional.cross_entropy(given[0], labels)
        return partial(torch.autograd.grad, loss, given, retain_graph=True)
    y = case.pytorch(torch.nn.functional, *given)
    dy = torch.from_numpy(values[node.dy])
    return partial(torch.autograd.grad, y, given, dy, retain_graph=True)


# Measuring it


def seconds(calls: Sequence[Call | None]) -> list[float | None]:
    """The best time of each call, in rounds that all of them take part in."""
    counts, spent = [0] * len(calls), [0.0] * len(calls)
    best: list[float | None] = [None] * len(calls)
    for turn in range(ROUNDS):
        for i, call in enumerate(calls):
            if call is None or spent[i] > AT_MOST:
                continue
            if turn == 0:
                call()  # compiles
            took = timed(call, counts[i] or 1)
            spent[i] += took * (counts[i] or 1)
            counts[i] = counts[i] or 1 + int(AT_LEAST / took)
            best[i] = min(best[i] or took, took)
    return best


def timed(call: Call, times: int) -> float:
    """Seconds a call."""
    start = perf_counter()
    for _ in range(times):
        call()
    return (perf_counter() - start) / times


def machine() -> dict[str, float]:
    """What one core does at most: multiply-adds in BLAS, bytes in a copy; 10^9/s."""
    a = np.ones((1024, 1024), np.float32)
    out = np.empty_like(a)
    source = np.ones(1 << 24, np.float32)
    target = np.empty_like(source)
    product, copy = seconds(
        [partial(np.matmul, a, a, out=out), partial(np.copyto, target, source)]
    )
    assert product is not None and copy is not None
    return {"GMAC/s": 1024**3 / product / 1e9, "GB/s": 8 * (1 << 24) / copy / 1e9}


def described(torch: Any) -> str:
    """The machine, the versions and the day of a measurement."""
    versions = {"numba": numba.__version__, "numpy": np.__version__}
    if torch:
        versions["torch"] = torch.__version__
    packages = " ".join(f"{name} {version}" for name, version in versions.items())
    cores, features = os.cpu_count(), llvm.get_host_cpu_name()
    return f"{cores} cores of {features}; {packages}; {date.today()}"


def measure_here(words: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The rows of operations that hold one of the words, measured in this process."""
    try:
        import torch
    except ImportError:
        torch = None
    else:
        torch.set_num_threads(1)
    most = machine()
    where = described(torch)
    rows = []
    for case in CASES:
        if words and not any(word in case.name for word in words):
            continue
        values = Values()
        for entry in entries(case, values, torch):
            spent, two, pytorch, numpy = seconds(
                [
                    runnable(entry.launches, values, 1),
                    runnable(entry.launches, values, 2),
                    entry.pytorch,
                    entry.numpy,
                ]
            )
            assert spent is not None and two is not None
            flops = sum(launch.flops for launch in entry.launches)
            bytes_accessed = sum(launch.bytes_accessed for launch in entry.launches)
            arithmetic = isinstance(case.layer, (Conv, Linear))
            work = (flops / 2 if arithmetic else bytes_accessed) / 1e9
            unit = "GMAC/s" if arithmetic else "GB/s"
            rows.append(
                {
                    "operation": case.name,
                    "part": entry.part,
                    "algorithm": entry.algorithm,
                    "shapes": " ".join("x".join(map(str, s)) for s in case.shapes),
                    "milliseconds": round(spent * 1e3, 4),
                    "unit": unit,
                    "one_core": round(work / spent, 3),
                    "two_cores": round(work / two, 3),
                    "pytorch": round(work / pytorch, 3) if pytorch else "",
                    "numpy": round(work / numpy, 3) if numpy else "",
                    "to_pytorch": round(pytorch / spent, 3) if pytorch else "",
                    "two_to_one": round(spent / two, 3),
                    "of_machine": round(work / spent / most[unit], 3),
                    "where": where,
                }
            )
    return rows


def search(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Measure all in one run, or nothing if there are rows: they would not compare."""
    if not rows:
        yield from measured()


def measured(words: Sequence[str] = ()) -> list[dict[str, Any]]:
    """A row for every part of every layer, in a process with one thread for BLAS."""
    one = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
    )
    code = (
        "import json, sys; from figures.kernels import measure_here\n"
        "print(json.dumps(measure_here(sys.argv[1:])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**os.environ, **one},
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


# Showing it


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as text."""
    head = (
        f"{'operation':28} {'part':9} {'algorithm':17} {'1 core':>8} {'2 cores':>8} "
        f"{'PyTorch':>8} {'NumPy':>8}  {'unit':7} {'to PyTorch':>10} {'of machine':>10}"
    )
    lines = [head]
    for row in rows:
        numbers = " ".join(
            f"{row[key]:>8.1f}" if row[key] != "" else f"{'':>8}"
            for key in ("one_core", "two_cores", "pytorch", "numpy")
        )
        ratio = (
            f"{row['to_pytorch']:>10.2f}" if row["to_pytorch"] != "" else f"{'':>10}"
        )
        lines.append(
            f"{row['operation']:28} {row['part']:9} {row['algorithm']:17} {numbers}  "
            f"{row['unit']:7} {ratio} {row['of_machine']:>10.2f}"
        )
    return "\n".join(lines)


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw the best algorithm of each operation beside PyTorch, and two ladders.

    A ladder is what each version of a kernel reaches, from the simplest to the fastest.
    """
    figure = Figure(figsize=(PAGE, 6.6))
    parts = figure.subplot_mosaic([["best", name] for name in LADDERS])
    best = _best(rows)
    axes = parts["best"]
    for place, row in enumerate(best):
        ratio, colour = row["to_pytorch"], COLOURS[row["unit"]]
        axes.plot([1, ratio], [place, place], color="#cccccc", linewidth=0.8, zorder=1)
        axes.plot([ratio], [place], "o", color=colour)
    axes.axvline(1, color="#777777", linewidth=0.8)
    labels = [f"{row['operation']}, {row['part']}" for row in best]
    axes.set_yticks(range(len(best)), labels, fontsize=5.5)
    axes.set_ylim(len(best) - 0.5, -0.5)
    axes.set_xscale("log")
    ticks = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("times PyTorch's speed, one thread each")
    axes.set_title("the best algorithm of each operation")
    for name in LADDERS:
        axes = parts[name]
        shown = sorted(_forward(rows, name), key=lambda row: float(row["one_core"]))
        if not shown:  # these rows are of other operations
            axes.set_axis_off()
            continue
        names = [row["algorithm"] or "the layer's" for row in shown]
        speeds = [row["one_core"] for row in shown]
        others = {"PyTorch": shown[-1]["pytorch"], "NumPy": shown[-1]["numpy"]}
        beside = {who: speed for who, speed in others.items() if speed != ""}
        bars = axes.barh(
            [*names, *beside],
            [*speeds, *beside.values()],
            color=[COLOURS["GMAC/s"]] * len(names) + [GREY] * len(beside),
            height=0.65,
        )
        axes.bar_label(bars, fmt="%.1f", padding=2, fontsize=6.5)
        axes.set_xlim(0, 1.15 * max(*speeds, *beside.values()))
        axes.set_xlabel("GMAC/s, one thread")
        axes.set_title(f"{name}, forward")
    return figure


def _best(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each part of each operation the row of the fastest algorithm."""
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        key = row["operation"], row["part"]
        if row["to_pytorch"] != "":
            other = best.get(key, row)
            best[key] = max(other, row, key=lambda r: float(r["to_pytorch"]))
    return [*best.values()]


def _forward(rows: Sequence[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [r for r in rows if (r["operation"], r["part"]) == (name, "forward")]


def caption(rows: Sequence[dict[str, Any]]) -> str:
    best = _best(rows)
    ratios = sorted(float(row["to_pytorch"]) for row in best)
    rungs = [float(row["one_core"]) for row in _forward(rows, LADDERS[0])]
    return (
        f"Kernels on the CPU device beside PyTorch on one thread ({rows[0]['where']}): "
        f"{sum(ratio >= 1 for ratio in ratios)} of {len(ratios)} operations are at "
        f"least as fast, the median is {ratios[len(ratios) // 2]:.2f} times. From the "
        f"simplest to the fastest, {LADDERS[0]} gains a factor of "
        f"{max(rungs) / min(rungs):.0f}."
    )


if __name__ == "__main__":
    from figures.__main__ import HERE, read

    asked = sys.argv[1:]
    if asked and not any(word in case.name for word in asked for case in CASES):
        known = "; ".join(case.name for case in CASES)
        sys.exit(f"no operation has such a word; there are: {known}")
    print(table(measured(asked) if asked else read(HERE / "data" / "kernels.csv")))
