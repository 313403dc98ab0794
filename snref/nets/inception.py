"""Inception-v4: modules of several branches that are concatenated."""

from dataclasses import dataclass

from snref.layers import (
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
from snref.layers.shapes import Padding, Pair
from snref.net import Net, Value


def inception_v4(batch: int, input_size: int = 299, original: bool = False) -> Net:
    """Inception-v4: 513 layers, of which 149 are convolutions.

    original: batch normalization after the first convolution only, as in the code
    that the SuperNeurons authors released: 365 layers.

    Source: Szegedy et al. 2017, figures 3 to 9.
    """
    net = Net("inception_v4_original" if original else "inception_v4")
    add = _Builder(net, not original)
    x = net.input((batch, 3, input_size, input_size))
    x = _stem(add, x)
    for i in range(1, 5):
        x = _a(add, f"a{i}", x)
    x = _reduction_a(add, "reduction_a", x)
    for i in range(1, 8):
        x = _b(add, f"b{i}", x)
    x = _reduction_b(add, "reduction_b", x)
    for i in range(1, 4):
        x = _c(add, f"c{i}", x)
    net.chain(
        x, pool=AveragePool(), drop=Dropout(0.2), fc=Linear(1000), softmax=Softmax()
    )
    return net


def inception_v4_original(batch: int, input_size: int = 299) -> Net:
    """Inception-v4 as in the code of the SuperNeurons authors; see ``inception_v4``."""
    return inception_v4(batch, input_size, original=True)


@dataclass(frozen=True)
class _Builder:
    """Adds the pieces that all modules are made of."""

    net: Net
    batch_norm: bool  # after every convolution, or only after the first

    def conv(
        self,
        name: str,
        x: Value,
        filters: int,
        kernel: Pair = 1,
        stride: int = 1,
        padding: Padding = 0,
    ) -> Value:
        """Add a convolution, batch normalization and ReLU."""
        normalized = self.batch_norm or name == "stem.1"
        settings = Conv(filters, kernel, stride, padding, bias=not normalized)
        x = self.net.add(f"{name}.conv", settings, x)
        if normalized:
            x = self.net.add(f"{name}.bn", BatchNorm(), x)
        return self.net.add(f"{name}.relu", ReLU(), x)

    def wide(self, name: str, x: Value, filters: int, width: int) -> Value:
        """Add a 1 x width convolution that keeps the size of the image."""
        return self.conv(name, x, filters, (1, width), padding=(0, width // 2))

    def high(self, name: str, x: Value, filters: int, height: int) -> Value:
        """Add a height x 1 convolution that keeps the size of the image."""
        return self.conv(name, x, filters, (height, 1), padding=(height // 2, 0))

    def mean(self, name: str, x: Value) -> Value:
        """Add the mean of every 3 x 3 neighbourhood."""
        return self.net.add(name, AveragePool(3, stride=1, padding=1), x)

    def halve(self, name: str, x: Value) -> Value:
        """Add the maximum of every second 3 x 3 window."""
        return self.net.add(name, MaxPool(3, stride=2), x)

    def concat(self, name: str, *branches: Value) -> Value:
        return self.net.add(name, Concat(), *branches)


def _stem(add: _Builder, x: Value) -> Value:
    """From 3 x 299 x 299 to 384 x 35 x 35 (figure 3)."""
    x = add.conv("stem.1", x, 32, 3, stride=2)
    x = add.conv("stem.2", x, 32, 3)
    x = add.conv("stem.3", x, 64, 3, padding=1)
    # The convolution first: the order of a fork's branches decides which backward
    # runs while the other's gradient waits, 568.91 MiB or 589.73.
    left = add.conv("stem.4", x, 96, 3, stride=2)
    right = add.halve("stem.4.pool", x)
    x = add.concat("stem.4.concat", left, right)
    left = add.conv("stem.5a1", x, 64)
    left = add.conv("stem.5a2", left, 96, 3)
    right = add.conv("stem.5b1", x, 64)
    right = add.high("stem.5b2", right, 64, 7)
    right = add.wide("stem.5b3", right, 64, 7)
    right = add.conv("stem.5b4", right, 96, 3)
    x = add.concat("stem.5.concat", left, right)
    left = add.conv("stem.6", x, 192, 3, stride=2)
    right = add.halve("stem.6.pool", x)
    return add.concat("stem.6.concat", left, right)


def _a(add: _Builder, name: str, x: Value) -> Value:
    """384 x 35 x 35 (figure 4)."""
    a = add.mean(f"{name}.1.pool", x)
    a = add.conv(f"{name}.1", a, 96)
    b = add.conv(f"{name}.2", x, 96)
    c = add.conv(f"{name}.3a", x, 64)
    c = add.conv(f"{name}.3b", c, 96, 3, padding=1)
    d = add.conv(f"{name}.4a", x, 64)
    d = add.conv(f"{name}.4b", d, 96, 3, padding=1)
    d = add.conv(f"{name}.4c", d, 96, 3, padding=1)
    return add.concat(f"{name}.concat", a, b, c, d)


def _reduction_a(add: _Builder, name: str, x: Value) -> Value:
    """From 384 x 35 x 35 to 1024 x 17 x 17 (figure 7)."""
    a = add.halve(f"{name}.1.pool", x)
    b = add.conv(f"{name}.2", x, 384, 3, stride=2)
    c = add.conv(f"{name}.3a", x, 192)
    c = add.conv(f"{name}.3b", c, 224, 3, padding=1)
    c = add.conv(f"{name}.3c", c, 256, 3, stride=2)
    return add.concat(f"{name}.concat", a, b, c)


def _b(add: _Builder, name: str, x: Value) -> Value:
    """1024 x 17 x 17 (figure 5)."""
    a = add.mean(f"{name}.1.pool", x)
    a = add.conv(f"{name}.1", a, 128)
    b = add.conv(f"{name}.2", x, 384)
    c = add.conv(f"{name}.3a", x, 192)
    c = add.wide(f"{name}.3b", c, 224, 7)
    c = add.high(f"{name}.3c", c, 256, 7)
    d = add.conv(f"{name}.4a", x, 192)
    d = add.wide(f"{name}.4b", d, 192, 7)
    d = add.high(f"{name}.4c", d, 224, 7)
    d = add.wide(f"{name}.4d", d, 224, 7)
    d = add.high(f"{name}.4e", d, 256, 7)
    return add.concat(f"{name}.concat", a, b, c, d)


def _reduction_b(add: _Builder, name: str, x: Value) -> Value:
    """From 1024 x 17 x 17 to 1536 x 8 x 8 (figure 8)."""
    a = add.halve(f"{name}.1.pool", x)
    b = add.conv(f"{name}.2a", x, 192)
    b = add.conv(f"{name}.2b", b, 192, 3, stride=2)
    c = add.conv(f"{name}.3a", x, 256)
    c = add.wide(f"{name}.3b", c, 256, 7)
    c = add.high(f"{name}.3c", c, 320, 7)
    c = add.conv(f"{name}.3d", c, 320, 3, stride=2)
    return add.concat(f"{name}.concat", a, b, c)


def _c(add: _Builder, name: str, x: Value) -> Value:
    """1536 x 8 x 8; two branches fork once more (figure 6)."""
    a = add.mean(f"{name}.1.pool", x)
    a = add.conv(f"{name}.1", a, 256)
    b = add.conv(f"{name}.2", x, 256)
    c = add.conv(f"{name}.3a", x, 384)
    c1 = add.wide(f"{name}.3b", c, 256, 3)
    c2 = add.high(f"{name}.3c", c, 256, 3)
    d = add.conv(f"{name}.4a", x, 384)
    d = add.wide(f"{name}.4b", d, 448, 3)
    d = add.high(f"{name}.4c", d, 512, 3)
    d1 = add.high(f"{name}.4d", d, 256, 3)
    d2 = add.wide(f"{name}.4e", d, 256, 3)
    return add.concat(f"{name}.concat", a, b, c1, c2, d1, d2)
