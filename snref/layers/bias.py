"""The bias of a convolution or a fully connected layer.

y[n,k,i] = y[n,k,i] + b[k];  db[k] = sum_ni dy[n,k,i]
"""

from math import prod

from snref.layers.base import Node
from snref.layers.shapes import rows
from snref.layers.slices import images_of_slice
from snref.plans import Launch, Shape, grid_of

BLOCK = 128


def weights(w: Shape, outputs: int, bias: bool) -> dict[str, Shape]:
    """Return the shapes of the parameters: w and, if there is one, the bias."""
    return {"w": w, "b": (outputs,)} if bias else {"w": w}


def add_bias(node: Node) -> tuple[Launch, ...]:
    """Add the layer's bias to its output, if it has one."""
    b, y = node.parameters.get("b"), node.y
    if b is None:
        return ()
    matrix = len(y.shape) == 2
    n, k, *pixels = y.shape
    down, across = (n, k) if matrix else (n * k, prod(pixels))
    return (
        Launch(
            "bias.forward_rows" if matrix else "bias.forward",
            (y,),
            (b,),
            view="rows" if matrix else "channels",
            updates=True,
            grid=(*grid_of(across, BLOCK), rows(down)),
            block=(BLOCK,),
            flops=y.size,
        ),
    )


def bias_gradient(node: Node) -> tuple[Launch, ...]:
    """Compute the gradient of the layer's bias, if it has one."""
    db, dy = node.parameter_gradients.get("b"), node.dy
    if db is None:
        return ()
    matrix = len(dy.shape) == 2
    return (
        Launch(
            "bias.backward_rows" if matrix else "bias.backward",
            (db,),
            (dy,),
            (images_of_slice(prod(dy.shape[2:])), int(node.resumes)),
            view="rows" if matrix else "channels",
            updates=node.resumes,
            grid=grid_of(db.size, BLOCK) if matrix else db.shape,
            block=(BLOCK,),
            flops=dy.size,
        ),
    )
