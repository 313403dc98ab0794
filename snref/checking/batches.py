"""A layer on parts of the batch: what it computes there is what the whole computes."""

from functools import cache

import numpy as np

from snref.checking.declarations import launches_of
from snref.checking.launching import run
from snref.checking.values import Arrays, LayerError, bits, element
from snref.layers.base import Node, Part
from snref.parts import on_part
from snref.plans import Tensor


def check_parts(node: Node, given: Arrays, found: Arrays) -> None:
    """Check a layer that says ``part_images`` on two parts of the batch.

    given, found  what backward was given for the whole batch, and what it computed

    Raises LayerError for the first tensor of which an element has other bits.
    """
    batch = node.x.shape[0]
    images = node.layer.part_images(*(x.shape for x in node.xs))
    if images is None or images >= batch:
        return
    sums: Arrays = {}
    for part in Part(0, 0, images, batch), Part(1, images, batch - images, batch):
        rows = slice(part.first, part.first + part.images)

        @cache
        def of(whole: Tensor, part: Part = part) -> Tensor:
            shape = part.images, *whole.shape[1:]
            return Tensor(whole.name, shape, whole.kind, whole.dtype)

        mine = on_part(node, part, of)
        whole = {*node.xs, *node.dys, *node.parameters.values()}
        cut = {t: a for t, a in given.items() if t in whole and t.kind == "parameter"}
        cut |= {of(t): given[t][rows] for t in (*node.xs, *node.dys) if t in given}
        there = run(launches_of(mine.layer.forward(mine)), cut)
        _compare(node.ys, mine.ys, given, there, rows)
        there = run(launches_of(mine.layer.backward(mine)), there | sums)
        sums = {dw: there[dw] for dw in node.parameter_gradients.values()}
        _compare(node.dxs, mine.dxs, found, there, rows)
    gradients = tuple(node.parameter_gradients.values())
    _compare(gradients, gradients, found, sums, slice(None))


def _compare(
    whole: tuple[Tensor | None, ...],
    parts: tuple[Tensor | None, ...],
    found: Arrays,
    there: Arrays,
    rows: slice,
) -> None:
    """Compare what is computed on a part with the same images of the whole."""
    for tensor, part in zip(whole, parts, strict=True):
        if tensor is None or part is None:
            continue
        right, here = found[tensor][rows], there[part]
        for place in np.flatnonzero(bits(here) != bits(np.ascontiguousarray(right))):
            raise LayerError(
                f"on a part of the batch, {element(part, place)} is "
                f"{here.reshape(-1)[place]:.9g}, and not "
                f"{right.reshape(-1)[place]:.9g} as on all of it: part_images is "
                "None for a layer that needs the whole batch"
            )
