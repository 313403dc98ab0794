"""A layer of one's own: its kernels, its declaration, its test."""

from dataclasses import dataclass

from numba import cuda

from snref import Layer, check_layer, elementwise


@cuda.jit
def forward(y, x, slope):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] if x[i] > 0 else slope * x[i]


@cuda.jit
def backward(dx, x, dy, slope):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        dx[i] = dy[i] if x[i] > 0 else slope * dy[i]


@dataclass(frozen=True)
class LeakyReLU(Layer):
    """y = x where x > 0, else slope x (Maas et al. 2013, section 2)."""

    slope: float = 0.01

    def forward(self, node):
        return elementwise(forward, node.y, node.x, scalars=(self.slope,))

    def backward(self, node):
        inputs, slope = (node.x, node.dy), (self.slope,)
        return elementwise(backward, node.dx, *inputs, scalars=slope)


def test_leaky_relu():
    check_layer(LeakyReLU(0.1), (3, 5))
