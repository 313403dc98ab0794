"""Stochastic gradient descent with momentum and weight decay (Sutskever et al. 2013).

As Krizhevsky et al. 2012, section 5, but with the learning rate outside the momentum.
"""

from numba import cuda


@cuda.jit
def update(w, v, dw, learning_rate, momentum, weight_decay):
    """v[i] = momentum v[i] + dw[i] + weight_decay w[i];  w[i] -= learning_rate v[i]."""
    for i in range(cuda.grid(1), w.size, cuda.gridsize(1)):
        value = w[i]
        velocity = momentum * v[i] + (dw[i] + weight_decay * value)
        v[i] = velocity
        w[i] = value - learning_rate * velocity
