"""The ways to compute a convolution: kernels, grids, workspaces (``kernels/conv``).

Each of the three parts, forward, data gradient and filter gradient, has a menu of
algorithms. They differ in speed, in workspace, and in the order they sum in; those of
one order give the same bits. The plan chooses (``scheduler/algorithms.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TypeAlias

from snref.layers.shapes import MOST_ROWS, rows
from snref.layers.slices import images_of_slice, pixels_of_block
from snref.plans import Algorithm, Launch, Part, Scalar, Shape, Tensor, View, grid_of

# The scalars of a launch: strides down and across, padding of top and left, groups.
Window: TypeAlias = tuple[int, int, int, int, int]

SIDE = 16  # a block of a product is 16 x 16 threads ...
TILE = 64  # ... and computes 64 x 64 outputs, unless its kernel's name says otherwise
MOST_BLOCKS = 4096  # enough to fill a GPU, for a kernel that loops over rows

# (rows, columns) of the outputs that a block computes: filters or channels by pixels;
# filter gradient: a filter's weights by filters. Kernels are made for these only.
FORWARD = {"32x8": (32, 128), "16x16": (16, 256)}
FORWARD_STRIDED = {"strided_96x4": (96, 64), "strided_32x8": (32, 128)}
DATA = {"32x8": (32, 128), "4x16": (4, 256)}
FILTER = {"64x64": (64, 64), "32x32": (32, 32)}
FILTER_STRIDED = {"strided_64x96": (64, 96), "strided_80x64": (80, 64)}

MENUS = 4096  # of the latest shapes are kept: more than any net has

# What copying an element into a tile costs, in multiply-adds of the tile's product: on
# the CPU device some 1.5 cycles, in which it could do 16 multiply-adds each.
COPY = 24


@lru_cache(MENUS)
def algorithms(
    part: Part,
    output: Shape,
    a: Shape,
    b: Shape,
    window: Window,
    resumes: bool = False,
) -> tuple[Algorithm, ...]:
    """Return the ways to compute a part of a convolution; the first needs no workspace.

    The shapes are those of the part's output and two inputs: (y, x, w) for forward,
    (dx, dy, w) for data and (dw, x, dy) for filter.

    resumes  of a filter gradient: whether it adds to the sum that the output holds

    >>> images, filters = (8, 64, 32, 32), (64, 64, 3, 3)
    >>> for way in algorithms("data", images, images, filters, (1, 1, 1, 1, 1)):
    ...     print(way.name, way.order, way.workspace)
    tiled taps 0
    direct taps 0
    im2col taps 18874368
    winograd winograd 17039360
    """
    x, w, y = {
        "forward": (a, b, output),
        "data": (output, b, a),
        "filter": (a, output, b),
    }[part]
    conv = _Convolution(part, x, w, y, window, resumes)
    menu = [_tiled(conv), _direct(conv)]
    if w[0] // conv.groups < 4:  # too few filters to share a tile of pixels
        menu.reverse()
    if part == "filter" and conv.slices > 1:
        menu.append(_sliced(conv))
    menu.append(_im2col(conv))
    if part != "filter" and w[2:] == (3, 3) and window[:2] == (1, 1):
        menu.append(_winograd(conv))
    return tuple(menu)


@dataclass(frozen=True)
class _Convolution:
    """A part of a convolution, with its shapes."""

    part: Part
    x: Shape
    w: Shape
    y: Shape
    window: Window
    resumes: bool

    @property
    def groups(self) -> int:
        return self.window[4]

    @property
    def flops(self) -> int:
        return 2 * prod(self.y) * prod(self.w[1:])

    @property
    def bytes_accessed(self) -> int:
        weights = prod(self.w) * (1 + self.resumes)
        return 4 * (prod(self.x) + weights + prod(self.y))

    @property
    def images(self) -> int:
        """Return the number of images of a slice of a filter gradient."""
        return images_of_slice(prod(self.y[2:]))

    @property
    def block(self) -> int:
        """Return the output pixels of a block: rows, as `tiled` sees them."""
        return pixels_of_block(_sizes(self)[3])

    @property
    def slices(self) -> int:
        return _ceil(self.x[0], self.images)

    @property
    def phases(self) -> int:
        """Return the number of sets of pixels that use the same filter taps."""
        return self.window[0] * self.window[1]

    @property
    def phase(self) -> tuple[int, int]:
        """Return rows and columns of the largest of these sets."""
        down, across = self.window[:2]
        return _ceil(self.x[2], down), _ceil(self.x[3], across)

    def algorithm(
        self,
        name: str,
        launches: Sequence["_Launch"],
        workspace: int = 0,
        order: str = "taps",
    ) -> Algorithm:
        """Make an algorithm of launches; workspace counts elements."""

        def bound(
            output: Tensor, a: Tensor, b: Tensor, scratch: Tensor | None
        ) -> tuple[Launch, ...]:
            tensors = {"output": output, "a": a, "b": b}
            if scratch is not None:
                tensors["workspace"] = scratch
            return tuple(launch.on(tensors) for launch in launches)

        flops = sum(launch.flops for launch in launches)
        bytes_accessed = sum(launch.bytes_accessed for launch in launches)
        return Algorithm(name, order, 4 * workspace, flops, bytes_accessed, bound)


@dataclass(frozen=True)
class _Launch:
    """A launch whose tensors are named by role: "output", "a", "b" and "workspace"."""

    kernel: str
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    scalars: tuple[Scalar, ...]
    grid: tuple[int, ...]
    flops: int
    bytes_accessed: int
    block: tuple[int, ...] = (SIDE, SIDE)
    view: View = "rows"
    updates: bool = False

    def on(self, tensors: dict[str, Tensor]) -> Launch:
        return Launch(
            f"conv.{self.kernel}",
            tuple(tensors[role] for role in self.outputs),
            tuple(tensors[role] for role in self.inputs),
            self.scalars,
            view=self.view,
            updates=self.updates,
            grid=self.grid,
            block=self.block,
            flops=self.flops,
            bytes_accessed=self.bytes_accessed,
        )


def _direct(conv: _Convolution) -> Algorithm:
    """Compute each output with a thread of its own.

    A row of blocks has the pixels of a channel, or the weights of a filter.
    """
    if conv.part == "filter":
        across, down = prod(conv.w[1:]), conv.w[0]
    else:
        image = conv.y if conv.part == "forward" else conv.x
        across, down = prod(image[2:]), image[0] * image[1]
    launch = _Launch(
        f"direct.{conv.part}",
        ("output",),
        ("a", "b"),
        (*conv.window, conv.images, conv.block, int(conv.resumes))
        if conv.part == "filter"
        else conv.window,
        (*grid_of(across), rows(down)),
        conv.flops,
        conv.bytes_accessed,
        block=(256,),
        view="shape",
        updates=conv.resumes,
    )
    return conv.algorithm("direct", (launch,))


def _tiled(conv: _Convolution) -> Algorithm:
    """Compute each tile of outputs with a block."""
    if conv.part == "filter":
        return conv.algorithm("tiled", (_tiled_filter(conv, apart=False),))
    n, k = conv.y[:2]
    c, r, s = conv.w[1:]
    h, w, p, q = _sizes(conv)
    down, across = conv.window[:2]
    if conv.part == "forward":
        tiles = FORWARD_STRIDED if across > 1 else FORWARD
        own, phases = k // conv.groups, 1
        lines, columns = n * p, q
    else:
        tiles = DATA
        own, phases = c, conv.phases
        lines, columns = n * _ceil(h, down), _ceil(w, across)
    name, (height, width) = _cheapest(tiles, own, lines * columns)
    launch = _Launch(
        f"tiled.{conv.part}_{name}",
        ("output",),
        ("a", "b"),
        (h, w, p, q, r, s, *conv.window),
        (
            _ceil(columns, SIDE) * _ceil(lines * SIDE, width),
            phases * conv.groups * _ceil(own, height),
        ),
        conv.flops,
        conv.bytes_accessed,
    )
    return conv.algorithm("tiled", (launch,))


def _sliced(conv: _Convolution) -> Algorithm:
    """Compute each tile of a filter gradient with a block for each slice of images."""
    size = conv.slices * prod(conv.w)
    total = _Launch(
        "tiled.sum_slices",
        ("output",),
        ("workspace",),
        (conv.slices, int(conv.resumes)),
        grid_of(prod(conv.w)),
        size,
        4 * (size + prod(conv.w)),
        block=(256,),
        view="flat",
        updates=conv.resumes,
    )
    return conv.algorithm("sliced", (_tiled_filter(conv, apart=True), total), size)


def _tiled_filter(conv: _Convolution, apart: bool) -> _Launch:
    """Launch the filter gradient, or its slices apart, in the workspace."""
    c, r, s = conv.w[1:]
    own = conv.w[0] // conv.groups
    tiles = FILTER_STRIDED if conv.window[1] > 1 else FILTER
    name, (height, width) = _cheapest(tiles, c * r * s, own)
    slices = min(conv.slices, max(MOST_ROWS // conv.groups, 1)) if apart else 1
    resumes = conv.resumes and not apart
    return _Launch(
        f"tiled.filter_{name}",
        ("workspace" if apart else "output",),
        ("a", "b"),
        (
            conv.x[0],
            *_sizes(conv),
            r,
            s,
            *conv.window,
            conv.images,
            conv.block,
            int(apart),
            int(resumes),
        ),
        (_ceil(c * r * s, height), _ceil(own, width), slices * conv.groups),
        conv.flops,
        conv.bytes_accessed + 4 * (conv.slices - 1) * apart * prod(conv.w),
        view="flat",
        updates=resumes,
    )


def _sizes(conv: _Convolution) -> tuple[int, int, int, int]:
    """Return height and width of images and outputs, as the kernel sees them."""
    h, w = conv.x[2:]
    p, q = conv.y[2:]
    if (*conv.w[2:], *conv.window[:4]) == (1, 1, 1, 1, 0, 0) and (h, w) == (p, q):
        h, w = p, q = _rows_of_pixels(h * w)
    return h, w, p, q


def _im2col(conv: _Convolution) -> Algorithm:
    """Write out the pixels for each filter tap; then multiply matrices."""
    n, k, p, q = conv.y
    c, r, s = conv.w[1:]
    h, w = conv.x[2:]
    down, across, top, left, groups = conv.window
    own = k // groups
    if conv.part == "data":
        taps, phases = k * _ceil(r, down) * _ceil(s, across), conv.phases
        height, width = conv.phase
        source, image = "gradient_columns", prod(conv.y)
    else:
        taps, phases, height, width = groups * c * r * s, 1, p, q
        source, image = "columns" if across == 1 else "columns_strided", prod(conv.x)
    size = phases * taps * n * height * width
    grid = (min(n * height, MOST_BLOCKS), _ceil(taps, SIDE), phases)
    columns = _Launch(
        f"im2col.{source}",
        ("workspace",),
        ("a",),
        (h, w, p, q, r, s, down, across, top, left),
        grid,
        0,
        4 * (image + size),
    )
    if conv.part == "forward":
        inputs: tuple[str, ...] = ("b", "workspace")
        scalars: tuple[int, ...] = (groups,)
        grid = (_ceil(n * p * q, TILE), _ceil(own, TILE), groups)
    elif conv.part == "data":
        inputs = ("b", "workspace")
        scalars = (h, w, r, s, down, across, top, left, groups)
        grid = (_ceil(n * height * width, TILE), _ceil(c, TILE), phases * groups)
    else:
        inputs = ("workspace", "b")
        scalars = (groups, conv.images, conv.block, int(conv.resumes))
        grid = (_ceil(c * r * s, TILE), _ceil(own, TILE), groups)
    product = _Launch(
        f"im2col.{conv.part}",
        ("output",),
        inputs,
        scalars,
        grid,
        conv.flops,
        conv.bytes_accessed - 4 * image + 4 * size,
        updates=conv.resumes,
    )
    return conv.algorithm("im2col", (columns, product), size)


def _winograd(conv: _Convolution) -> Algorithm:
    """Transform filters and pixels, multiply 16 pairs of matrices, transform back."""
    top, left, groups = conv.window[2:]
    if conv.part == "forward":
        source, result, filters = conv.x, conv.y, "forward_filters"
    else:
        source, result, filters = conv.y, conv.x, "data_filters"
        top, left = 2 - top, 2 - left
    n, c, h, w = source
    k, p, q = result[1:]
    height, width = _ceil(p, 2), _ceil(q, 2)
    tiles = n * height * width
    own_c, own_k = c // groups, k // groups
    us, vs, ms = 16 * k * own_c, 16 * c * tiles, 16 * k * tiles
    lines = min(n * height, MOST_BLOCKS)
    scalars = (groups,) if conv.part == "data" else ()
    launches = (
        _Launch(
            f"winograd.{filters}",
            ("workspace",),
            ("b",),
            scalars,
            (*grid_of(own_c), rows(k)),
            28 * k * own_c,
            4 * (prod(conv.w) + us),
            block=(256,),
        ),
        _Launch(
            "winograd.pixels",
            ("workspace",),
            ("a",),
            (h, w, height, width, top, left, us),
            (lines, _ceil(c, SIDE)),
            32 * c * tiles,
            4 * (prod(source) + vs),
        ),
        _Launch(
            "winograd.product",
            ("workspace",),
            (),
            (k, own_c, tiles, groups),
            (_ceil(tiles, TILE), _ceil(own_k, TILE), 16 * groups),
            2 * us * tiles,
            4 * (us + vs + ms),
            updates=True,
        ),
        _Launch(
            "winograd.outputs",
            ("output",),
            ("workspace",),
            (p, q, us + vs),
            (lines, _ceil(k, SIDE)),
            24 * k * tiles,
            4 * (ms + prod(result)),
        ),
    )
    return conv.algorithm("winograd", launches, us + vs + ms, "winograd")


def _ceil(a: int, b: int) -> int:
    return (a + b - 1) // b


def _cheapest(
    tiles: dict[str, tuple[int, int]], height: int, width: int
) -> tuple[str, tuple[int, int]]:
    """Return the tile that covers height x width outputs with least work, by name.

    >>> _cheapest(FORWARD_STRIDED, 96, 6050), _cheapest(FORWARD_STRIDED, 64, 25088)
    (('strided_96x4', (96, 64)), ('strided_32x8', (32, 128)))
    """

    def work(tile: tuple[str, tuple[int, int]]) -> int:
        a, b = tile[1]
        return _ceil(height, a) * _ceil(width, b) * (a * b + COPY * (a + b))

    return min(tiles.items(), key=work)


def _rows_of_pixels(count: int) -> tuple[int, int]:
    """Return a height and width, with this product, whose rows fill blocks of 16 best.

    A 1x1 filter with stride 1 reads no neighbours, so any width will do.

    >>> _rows_of_pixels(56 * 56), _rows_of_pixels(7 * 7)
    ((196, 16), (1, 49))
    """
    widths = [width for width in range(1, count + 1) if count % width == 0]
    width = min(widths, key=lambda width: count // width * _ceil(width, SIDE))
    return count // width, width
