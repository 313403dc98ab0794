"""The layers of a transformer, for planning: their kernels are not written.

Values are sequences of T tokens, (N, T, D), where each token has D numbers. The
attention weights, (N, heads, T, T), take the most memory, as the first activations do
in a convolutional net.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from snref.layers.base import Layer, Node
from snref.layers.shapes import one
from snref.plans import PLANNED, Launch, Shape, Tensor, Work


def planned(
    kernel: str,
    outputs: Iterable[Tensor | None],
    inputs: Iterable[Tensor],
    flops: int,
    updates: bool = False,
) -> tuple[Launch, ...]:
    """Launch a kernel that is not written, unless none of its outputs is wanted."""
    reads = tuple(inputs)
    writes = tuple(output for output in outputs if output is not None)
    if not writes:
        return ()
    return (
        Launch(
            PLANNED + kernel,
            writes,
            reads,
            updates=updates,
            flops=flops,
            bytes_accessed=sum(tensor.nbytes for tensor in writes + reads),
        ),
    )


def sequence(inputs: tuple[Shape, ...]) -> Shape:
    """Return the shape of the only input, a batch of sequences (N, T, D)."""
    shape = one(inputs)
    if len(shape) != 3:
        raise ValueError(f"an input of shape {shape}: it must be (N, T, D)")
    return shape


@dataclass(frozen=True)
class Embedding(Layer):
    """y[n,t] = tokens[token[n,t]] + places[t], from a table of each.

    Source: Radford et al. 2018, section 3.1.
    """

    vocabulary: int
    context: int
    width: int

    checkpoint: ClassVar[bool] = True

    def output_shape(self, *inputs: Shape) -> Shape:
        shape = one(inputs)
        if len(shape) != 2 or shape[1] > self.context:
            raise ValueError(
                f"an input of shape {shape}: it must be (N, T), T <= {self.context}"
            )
        return (*shape, self.width)

    def parameter_shapes(self, *inputs: Shape) -> dict[str, Shape]:
        return {
            "tokens": (self.vocabulary, self.width),
            "places": (self.context, self.width),
        }

    def forward(self, node: Node) -> tuple[Work, ...]:
        x, y, tables = node.x, node.y, node.parameters
        size = y.size
        # Reads a row a token of the tables, not the tables: as much as it writes.
        return (
            Launch(
                f"{PLANNED}embedding.forward",
                (y,),
                (x, tables["tokens"], tables["places"]),
                flops=size,
                bytes_accessed=3 * y.nbytes + x.nbytes,
            ),
        )

    def backward(self, node: Node) -> tuple[Work, ...]:
        """Add to dtokens, which has the part of the head. Tokens have no gradient."""
        x, dy, gradients = node.x, node.dy, node.parameter_gradients
        size = dy.size
        dtokens, dplaces = gradients["tokens"], gradients["places"]
        return (
            *planned("embedding.tokens", (dtokens,), (x, dy), size, updates=True),
            *planned("embedding.places", (dplaces,), (dy,), size),
        )


@dataclass(frozen=True)
class LayerNorm(Layer):
    """y = gamma z + beta, z the token's numbers brought to mean 0 and variance 1.

    Source: Ba et al. 2016, section 3.
    """

    def output_shape(self, *inputs: Shape) -> Shape:
        return sequence(inputs)

    def parameter_shapes(self, *inputs: Shape) -> dict[str, Shape]:
        return {"gamma": inputs[0][2:], "beta": inputs[0][2:]}

    def saved_shapes(self, *inputs: Shape) -> dict[str, Shape]:
        return {"mean": inputs[0][:2], "variance": inputs[0][:2]}

    def forward(self, node: Node) -> tuple[Work, ...]:
        x, outputs = node.x, (node.y, *node.saved.values())
        inputs = x, *node.parameters.values()
        return planned("layernorm.forward", outputs, inputs, 8 * x.size)

    def backward(self, node: Node) -> tuple[Work, ...]:
        x, outputs = node.x, (node.dx, *node.parameter_gradients.values())
        inputs = x, node.dy, *node.saved.values(), node.parameters["gamma"]
        return planned("layernorm.backward", outputs, inputs, 13 * x.size)


@dataclass(frozen=True)
class TokenLinear(Layer):
    """The same fully connected layer for every token: y[n,t] = b + w x[n,t].

    Source: Vaswani et al. 2017, section 3.3.
    """

    outputs: int

    checkpoint: ClassVar[bool] = True

    def output_shape(self, *inputs: Shape) -> Shape:
        return (*sequence(inputs)[:2], self.outputs)

    def parameter_shapes(self, *inputs: Shape) -> dict[str, Shape]:
        return {"w": (self.outputs, inputs[0][2]), "b": (self.outputs,)}

    def forward(self, node: Node) -> tuple[Work, ...]:
        x, y, w, b = node.x, node.y, node.parameters["w"], node.parameters["b"]
        flops = 2 * y.size * x.shape[2]
        return planned("token_linear.forward", (y,), (x, w, b), flops)

    def backward(self, node: Node) -> tuple[Work, ...]:
        x, dy, w = node.x, node.dy, node.parameters["w"]
        flops, gradients = 2 * dy.size * x.shape[2], node.parameter_gradients
        return (
            *planned("token_linear.filter", gradients.values(), (x, dy), flops),
            *planned("token_linear.data", (node.dx,), (dy, w), flops),
        )


@dataclass(frozen=True)
class AttentionWeights(Layer):
    """p[n,h,t,:] = softmax(q[n,t,h] k[n,s,h] / sqrt(D / heads)) over the s <= t.

    Its input holds queries, keys and values of all heads, (N, T, 3 D).

    Source: Vaswani et al. 2017, section 3.2.1, masked as in section 3.2.3.
    """

    heads: int

    def output_shape(self, *inputs: Shape) -> Shape:
        n, t, _ = sequence(inputs)
        return (n, self.heads, t, t)

    def forward(self, node: Node) -> tuple[Work, ...]:
        x, y = node.x, node.y
        flops = y.size * (2 * x.shape[2] // 3 // self.heads + 5)
        return planned("attention_weights.forward", (y,), (x,), flops)

    def backward(self, node: Node) -> tuple[Work, ...]:
        x, y = node.x, node.y
        flops = y.size * (4 * x.shape[2] // 3 // self.heads + 5)
        inputs = x, y, node.dy
        return planned("attention_weights.backward", (node.dx,), inputs, flops)


@dataclass(frozen=True)
class AttentionMean(Layer):
    """y[n,t,h] = sum_s p[n,h,t,s] v[n,s,h]: values, averaged by attention weights.

    Its inputs are the weights p, (N, heads, T, T), and what they were made from.

    Source: Vaswani et al. 2017, section 3.2.1.
    """

    checkpoint: ClassVar[bool] = True

    def output_shape(self, *inputs: Shape) -> Shape:
        _, (n, t, width) = inputs
        return (n, t, width // 3)

    def forward(self, node: Node) -> tuple[Work, ...]:
        (p, x), y = node.xs, node.y
        flops = 2 * p.shape[2] * y.size
        return planned("attention_mean.forward", (y,), (p, x), flops)

    def backward(self, node: Node) -> tuple[Work, ...]:
        inputs, dy = (*node.xs, node.dy), node.dy
        flops = 4 * node.x.shape[2] * dy.size
        return planned("attention_mean.backward", node.dxs, inputs, flops)


@dataclass(frozen=True)
class GELU(Layer):
    """y = x Phi(x), Phi the standard normal distribution;  dx = dy (Phi + x phi).

    Source: Hendrycks and Gimpel 2016, section 2.
    """

    def forward(self, node: Node) -> tuple[Work, ...]:
        return planned("gelu.forward", (node.y,), (node.x,), 8 * node.x.size)

    def backward(self, node: Node) -> tuple[Work, ...]:
        inputs = node.x, node.dy
        return planned("gelu.backward", (node.dx,), inputs, 13 * node.x.size)


@dataclass(frozen=True)
class TiedHead(Layer):
    """A score for every token that may follow: y[n,t,v] = tokens[v] x[n,t].

    The table is the embedding's own, which updates it. In backward this layer comes
    first and writes dtokens; the embedding adds to it.

    Source: Press and Wolf 2017, section 3; Radford et al. 2018, section 3.1.
    """

    embedding: str
    vocabulary: int

    checkpoint: ClassVar[bool] = True

    def output_shape(self, *inputs: Shape) -> Shape:
        return (*sequence(inputs)[:2], self.vocabulary)

    def shared_parameters(self) -> dict[str, tuple[str, str]]:
        return {"tokens": (self.embedding, "tokens")}

    def forward(self, node: Node) -> tuple[Work, ...]:
        x, y, table = node.x, node.y, node.parameters["tokens"]
        flops = 2 * x.size * self.vocabulary
        return planned("tied_head.forward", (y,), (x, table), flops)

    def backward(self, node: Node) -> tuple[Work, ...]:
        x, dy, table = node.x, node.dy, node.parameters["tokens"]
        gradients, flops = node.parameter_gradients, 2 * x.size * self.vocabulary
        return (
            *planned("tied_head.filter", gradients.values(), (x, dy), flops),
            *planned("tied_head.data", (node.dx,), (dy, table), flops),
        )

    def update(self, node: Node) -> tuple[Work, ...]:
        return ()


@dataclass(frozen=True)
class TokenSoftmax(Layer):
    """Softmax over the vocabulary, and the mean cross-entropy with the next tokens.

    x (N, T, vocabulary), labels (N, T); the equations are those of ``Softmax`` for
    every token.

    Source: Radford et al. 2018, section 3.1.
    """

    checkpoint: ClassVar[bool] = True
    loss: ClassVar[bool] = True

    def output_shape(self, *inputs: Shape) -> Shape:
        return sequence(inputs)

    def labels_shape(self, *inputs: Shape) -> Shape:
        return inputs[0][:2]

    def saved_shapes(self, *inputs: Shape) -> dict[str, Shape]:
        return {"loss": (1,)}

    def forward(self, node: Node) -> tuple[Work, ...]:
        x, y, labels, loss = node.x, node.y, node.saved["labels"], node.saved["loss"]
        inputs = x, labels
        return planned("token_softmax.forward", (y, loss), inputs, 9 * x.size)

    def backward(self, node: Node) -> tuple[Work, ...]:
        y, labels, dx = node.y, node.saved["labels"], node.dx
        if dx is None:
            return ()
        return (
            Launch(
                f"{PLANNED}token_softmax.backward",
                (dx,),
                (y, labels),
                may_overwrite=((dx, y, "gradients"),),
                flops=2 * y.size,
                bytes_accessed=2 * y.nbytes + labels.nbytes,
            ),
        )
