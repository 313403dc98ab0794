"""Random nets: small enough to run, irregular enough to find faults in a planner."""

from dataclasses import dataclass
from random import Random

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
from snref.layers.base import Layer
from snref.net import Net, Value

DEEPEST = 3  # forks within forks
TAIL = 8  # layers that may follow the body
WIDE = 64  # channels from which on the next layer is a convolution


def random_net(seed: int, batch: int = 2) -> Net:
    """Make a net of 5 to 60 layers, always the same for a seed.

    Forks are nested up to three deep, a tensor is read by up to five layers, joins
    add or concatenate two to four, and the largest tensor is often a hundred times
    the smallest.
    """
    random = Random(seed)
    net = Net(f"random:{seed}")
    height, width = random.randint(4, 12), random.randint(4, 12)
    x = net.input((batch, random.randint(1, 4), height, width))
    builder = _Builder(net, random, max(3, random.randint(5, 60) - TAIL))
    while builder.left > 0:
        x = builder.piece(x, 0)
    builder.tail(x)
    return net


@dataclass
class _Builder:
    """Adds pieces to a net until no layers are left to add, forks counted."""

    net: Net
    random: Random
    left: int
    added: int = 0

    def piece(self, x: Value, depth: int) -> Value:
        """Add a layer, or a fork with its branches and joins."""
        readers = self.random.randint(2, 5)
        room = self.left >= 2 * readers  # the fork, a layer a branch, the joins
        if depth < DEEPEST and room and self.random.random() < 0.35:
            return self.fork(x, readers, depth + 1)
        return self.layer(x)

    def fork(self, x: Value, readers: int, depth: int) -> Value:
        """Add branches of x, then joins of two to four until one value is left."""
        self.left -= 2 * readers
        outermost = depth == 1  # an inner fork's join may meet branches of x's size
        halve = outermost and min(x.shape[2:]) > 2 and self.random.random() < 0.4
        values = [self.branch(x, halve, depth) for _ in range(readers)]
        self.left += values.count(x)  # a shortcut is no layer
        self.left += readers - 1
        while len(values) > 1:
            count = self.random.randint(2, min(4, len(values)))
            values = [self.join(values[:count]), *values[count:]]
            self.left -= 1
        return values[0]

    def branch(self, x: Value, halve: bool, depth: int) -> Value:
        """Add pieces. All branches of a fork keep height and width, or halve them."""
        if halve:
            x = self.add(self.halving(), x)
        elif self.random.random() < 0.2:
            return x  # a shortcut
        else:
            x = self.add(self.keeping(x), x)
        while self.left > 0 and self.random.random() < 0.5:
            x = self.piece(x, depth)
        return x

    def join(self, values: list[Value]) -> Value:
        same = all(value.shape == values[0].shape for value in values)
        if same and self.random.random() < 0.7:
            return self.add(Add(), *values)
        return self.add(Concat(), *values)

    def layer(self, x: Value) -> Value:
        self.left -= 1
        return self.add(self.keeping(x), x)

    def add(self, layer: Layer, *inputs: Value) -> Value:
        self.added += 1
        return self.net.add(
            f"{type(layer).__name__.lower()}{self.added}", layer, *inputs
        )

    def tail(self, x: Value) -> None:
        """Add at most TAIL layers: classes, sometimes a sum of two, and the loss."""
        classes = Linear(self.random.randint(2, 10))
        if self.random.random() < 0.5:
            x = self.add(AveragePool(), x)
        if self.random.random() < 0.5:
            x = self.add(Linear(self.random.choice((8, 32))), x)
            x = self.add(ReLU(), x)
        if self.random.random() < 0.3:
            x = self.add(Add(), self.add(classes, x), self.add(classes, x))
        else:
            x = self.add(classes, x)
        self.add(Softmax(), x)

    def keeping(self, x: Value) -> Layer:
        """Draw a layer that keeps height and width."""
        if x.shape[1] > WIDE:
            return self.convolution(x.shape[1])
        match self.random.choice(
            ("conv", "conv", "relu", "relu", "lrn", "batchnorm", "dropout", "pool")
        ):
            case "conv":
                return self.convolution(x.shape[1])
            case "relu":
                return ReLU()
            case "lrn":
                return LRN(self.random.choice((3, 5)))
            case "batchnorm":
                return BatchNorm()
            case "dropout":
                return Dropout(self.random.choice((0.2, 0.5)))
            case _:
                pool = self.random.choice((MaxPool, AveragePool))
                return pool(3, stride=1, padding=1)

    def convolution(self, channels: int) -> Layer:
        """Draw a convolution that keeps height and width, sometimes in groups."""
        r, s = self.random.choice(((1, 1), (3, 3), (3, 3), (5, 5), (1, 7), (5, 1)))
        filters = self.random.choice((1, 2, 4, 8, 16, 32))
        groups = 2 if channels % 2 == 0 and filters % 2 == 0 else 1
        return Conv(
            filters,
            (r, s),
            padding=(r // 2, s // 2),
            groups=groups if self.random.random() < 0.3 else 1,
            bias=self.random.random() < 0.7,
        )

    def halving(self) -> Layer:
        """Draw a layer that halves height and width, rounding up."""
        match self.random.randrange(3):
            case 0:
                return MaxPool(3, stride=2, padding=1)
            case 1:
                return AveragePool(3, stride=2, padding=1, count_padding=True)
            case _:
                return Conv(self.random.choice((2, 8, 24)), 3, stride=2, padding=1)
