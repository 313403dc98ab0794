"""GPT-2, for planning: its kernels are not written."""

from snref.layers import Add
from snref.layers.transformer import (
    GELU,
    AttentionMean,
    AttentionWeights,
    Embedding,
    LayerNorm,
    TiedHead,
    TokenLinear,
    TokenSoftmax,
)
from snref.net import Net, Value

VOCABULARY, CONTEXT, WIDTH, HEADS, BLOCKS = 50257, 1024, 768, 12, 12


def gpt2(batch: int, input_size: int = CONTEXT) -> Net:
    """The smallest GPT-2, 124,439,808 parameters, on input_size tokens, no dropout.

    Source: Radford et al. 2019, section 2.3.
    """
    net = Net("gpt2")
    x = net.input((batch, input_size), "tokens")
    x = net.add("embedding", Embedding(VOCABULARY, CONTEXT, WIDTH), x)
    for i in range(1, BLOCKS + 1):
        x = _attend(net, f"block{i}", x)
        x = _feed_forward(net, f"block{i}", x)
    head = TiedHead("embedding", VOCABULARY)
    net.chain(x, norm=LayerNorm(), head=head, softmax=TokenSoftmax())
    return net


def _attend(net: Net, name: str, x: Value) -> Value:
    """Add attention to x: what every token finds in those before it."""
    y = net.chain(x, f"{name}.", norm1=LayerNorm(), qkv=TokenLinear(3 * WIDTH))
    weights = net.add(f"{name}.weights", AttentionWeights(HEADS), y)
    y = net.add(f"{name}.mean", AttentionMean(), weights, y)
    y = net.add(f"{name}.out", TokenLinear(WIDTH), y)
    return net.add(f"{name}.add1", Add(), x, y)


def _feed_forward(net: Net, name: str, x: Value) -> Value:
    """Add two fully connected layers to x."""
    y = net.chain(
        x,
        f"{name}.",
        norm2=LayerNorm(),
        wide=TokenLinear(4 * WIDTH),
        gelu=GELU(),
        narrow=TokenLinear(WIDTH),
    )
    return net.add(f"{name}.add2", Add(), x, y)
