"""The bias of a convolution or a fully connected layer.

y[n,k,i] = y[n,k,i] + b[k];  db[k] = sum_ni dy[n,k,i]
"""

from snref.layer import Launch, Node, grid_of


def add_bias(node: Node) -> tuple[Launch, ...]:
    """Add the layer's bias to its output, if it has one."""
    b, y = node.parameters.get("b"), node.y
    if b is None:
        return ()
    size = y.nbytes // 4
    return (
        Launch(
            "bias.forward",
            (y,),
            (b,),
            view="channels",
            updates=True,
            grid=grid_of(size),
            flops=size,
            moved=2 * y.nbytes + b.nbytes,
        ),
    )


def bias_gradient(node: Node) -> tuple[Launch, ...]:
    """The gradient of the layer's bias, if it has one: a block a channel."""
    db, dy = node.parameter_gradients.get("b"), node.dy
    if db is None:
        return ()
    return (
        Launch(
            "bias.backward",
            (db,),
            (dy,),
            view="channels",
            grid=(db.shape[0],),
            flops=dy.nbytes // 4,
            moved=dy.nbytes + db.nbytes,
        ),
    )
