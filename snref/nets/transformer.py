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
        x = _think(net, f"block{i}", x)
    x = net.add("norm", LayerNorm(), x)
    x = net.add("head", TiedHead("embedding", VOCABULARY), x)
    net.add("softmax", TokenSoftmax(), x)
    return net


def _attend(net: Net, name: str, x: Value) -> Value:
    """x, and what every token found in those before it."""
    y = net.add(f"{name}.norm1", LayerNorm(), x)
    y = net.add(f"{name}.qkv", TokenLinear(3 * WIDTH), y)
    weights = net.add(f"{name}.weights", AttentionWeights(HEADS), y)
    y = net.add(f"{name}.mean", AttentionMean(), weights, y)
    y = net.add(f"{name}.out", TokenLinear(WIDTH), y)
    return net.add(f"{name}.add1", Add(), x, y)


def _think(net: Net, name: str, x: Value) -> Value:
    """x, and two fully connected layers of it."""
    y = net.add(f"{name}.norm2", LayerNorm(), x)
    y = net.add(f"{name}.wide", TokenLinear(4 * WIDTH), y)
    y = net.add(f"{name}.gelu", GELU(), y)
    y = net.add(f"{name}.narrow", TokenLinear(WIDTH), y)
    return net.add(f"{name}.add2", Add(), x, y)
