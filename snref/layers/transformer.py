"""The layers of a transformer, for planning: no kernel of theirs is written.

Values are sequences of T tokens, (N, T, D) with D numbers a token. People who compare
planners ask for a transformer beside the convolutional nets; its attention weights,
(N, heads, T, T), are to it what the first activations are to those.
"""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from snref.layers.base import Layer, Node
from snref.layers.shapes import one
from snref.plans import PLANNED, Launch, Shape, Tensor, Work


def planned(
    kernel: str,
    outputs: tuple[Tensor, ...],
    inputs: tuple[Tensor, ...],
    flops: int,
    updates: bool = False,
) -> Launch:
    """A launch of a kernel that is not written."""
    bytes_accessed = sum(tensor.nbytes for tensor in (*outputs, *inputs))
    return Launch(
        PLANNED + kernel,
        outputs,
        inputs,
        updates=updates,
        flops=flops,
        bytes_accessed=bytes_accessed,
    )


def sequence(inputs: tuple[Shape, ...]) -> Shape:
    """The shape of the only input, a batch of sequences (N, T, D)."""
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
        size = y.nbytes // 4
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
        """Tokens have no derivative. The head has left its part in dtokens already."""
        x, dy, gradients = node.x, node.dy, node.parameter_gradients
        size = dy.nbytes // 4
        dtokens, dplaces = gradients["tokens"], gradients["places"]
        return (
            planned("embedding.tokens", (dtokens,), (x, dy), size, updates=True),
            planned("embedding.places", (dplaces,), (dy,), size),
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
        x, y = node.x, node.y
        saved, parameters = tuple(node.saved.values()), node.parameters.values()
        flops = 8 * (x.nbytes // 4)
        return (planned("layernorm.forward", (y, *saved), (x, *parameters), flops),)

    def backward(self, node: Node) -> tuple[Work, ...]:
        x, dy, dx = node.x, node.dy, node.dx
        saved, gradients = node.saved.values(), node.parameter_gradients.values()
        outputs = (*gradients,) if dx is None else (dx, *gradients)
        inputs = (x, dy, *saved, node.parameters["gamma"])
        return (planned("layernorm.backward", outputs, inputs, 13 * x.nbytes // 4),)


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
        flops = 2 * prod(y.shape) * x.shape[2]
        return (planned("token_linear.forward", (y,), (x, w, b), flops),)

    def backward(self, node: Node) -> tuple[Work, ...]:
        x, dy, dx = node.x, node.dy, node.dx
        gradients, w = node.parameter_gradients, node.parameters["w"]
        flops = 2 * prod(dy.shape) * x.shape[2]
        outputs = (gradients["w"], gradients["b"])
        filter_gradient = planned("token_linear.filter", outputs, (x, dy), flops)
        if dx is None:
            return (filter_gradient,)
        return (filter_gradient, planned("token_linear.data", (dx,), (dy, w), flops))


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
        flops = prod(y.shape) * (2 * x.shape[2] // 3 // self.heads + 5)
        return (planned("attention_weights.forward", (y,), (x,), flops),)

    def backward(self, node: Node) -> tuple[Work, ...]:
        x, y, dy, dx = node.x, node.y, node.dy, node.dx
        if dx is None:
            return ()
        flops = prod(y.shape) * (4 * x.shape[2] // 3 // self.heads + 5)
        return (planned("attention_weights.backward", (dx,), (x, y, dy), flops),)


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
        flops = 2 * p.shape[2] * prod(y.shape)
        return (planned("attention_mean.forward", (y,), (p, x), flops),)

    def backward(self, node: Node) -> tuple[Work, ...]:
        p, x = node.xs
        outputs = tuple(dx for dx in node.dxs if dx is not None)
        flops = 4 * p.shape[2] * prod(node.dy.shape)
        return (planned("attention_mean.backward", outputs, (p, x, node.dy), flops),)


@dataclass(frozen=True)
class GELU(Layer):
    """y = x Phi(x), Phi the standard normal distribution;  dx = dy (Phi + x phi).

    Source: Hendrycks and Gimpel 2016, section 2.
    """

    def output_shape(self, *inputs: Shape) -> Shape:
        return one(inputs)

    def forward(self, node: Node) -> tuple[Work, ...]:
        x, y = node.x, node.y
        return (planned("gelu.forward", (y,), (x,), 8 * (x.nbytes // 4)),)

    def backward(self, node: Node) -> tuple[Work, ...]:
        x, dy, dx = node.x, node.dy, node.dx
        if dx is None:
            return ()
        return (planned("gelu.backward", (dx,), (x, dy), 13 * (x.nbytes // 4)),)


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
        flops = 2 * prod(x.shape) * self.vocabulary
        return (planned("tied_head.forward", (y,), (x, table), flops),)

    def backward(self, node: Node) -> tuple[Work, ...]:
        x, dy, dx = node.x, node.dy, node.dx
        table, dtable = node.parameters["tokens"], node.parameter_gradients["tokens"]
        flops = 2 * prod(x.shape) * self.vocabulary
        filter_gradient = planned("tied_head.filter", (dtable,), (x, dy), flops)
        if dx is None:
            return (filter_gradient,)
        return (filter_gradient, planned("tied_head.data", (dx,), (dy, table), flops))

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
        flops = 9 * prod(x.shape)
        return (planned("token_softmax.forward", (y, loss), (x, labels), flops),)

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
                flops=2 * prod(y.shape),
                bytes_accessed=2 * y.nbytes + labels.nbytes,
            ),
        )
