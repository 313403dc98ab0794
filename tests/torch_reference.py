"""A net of ours as PyTorch computes it: its loss, and the gradients by its parameters.

The reference of the tests of whole nets; where PyTorch is not installed they are
skipped. Layer by layer, from the settings that our own layers were declared with.

Rounding decides which of two nearly equal numbers is the larger, and so which way a
ReLU or a maximum takes; from there on gradients differ by more than rounding. The
reference therefore goes the ways that ours went.
"""

from math import prod

import numpy as np
import pytest

from snref.device.cpu import CPU
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
from snref.layers.fork import Fork
from snref.layers.shapes import pair, sides
from snref.plans import Launch, Tensor, grid_of


def torch_gradients(net, parameters, images, labels, taken, seed, double):
    """The loss, and the gradient by each parameter's name.

    parameters  arrays by name
    taken       our activations by tensor, whose ways ReLU and maxima go
    seed        of dropout, in the first iteration
    double      in float64
    """
    torch = pytest.importorskip("torch")
    dtype = torch.float64 if double else torch.float32

    def given(array):
        return torch.from_numpy(np.array(array)).to(dtype)

    weights = {
        name: given(array).requires_grad_() for name, array in parameters.items()
    }
    values = {net.nodes[0].x: given(images)}
    loss = None
    for node in net.nodes:
        xs = [values[tensor] for tensor in node.xs]
        if isinstance(node.layer, Fork):
            values |= dict.fromkeys(node.ys, xs[0])
        elif isinstance(node.layer, Softmax):
            marks = torch.from_numpy(labels.astype(np.int64))
            loss = torch.nn.functional.cross_entropy(xs[0].flatten(1), marks)
        else:
            own = {key: weights[t.name] for key, t in node.parameters.items()}
            values[node.y] = _layer(torch, node, xs, own, given, taken, seed)
    loss.backward()
    gradients = {name: weight.grad.numpy() for name, weight in weights.items()}
    return float(loss.detach()), gradients


def _layer(torch, node, xs, own, given, taken, seed):
    """The output of a layer."""
    F = torch.nn.functional
    layer, (x, *_) = node.layer, xs

    def padded(x, padding, value=0.0):
        top, bottom, left, right = sides(padding)
        return F.pad(x, (left, right, top, bottom), value=value)

    match layer:
        case Conv():
            return F.conv2d(
                padded(x, layer.padding),
                own["w"],
                own.get("b"),
                pair(layer.stride),
                groups=layer.groups,
            )
        case Linear():
            return F.linear(x.flatten(1), own["w"], own.get("b"))
        case ReLU():
            return x * given(taken[node.y] > 0)
        case LRN():
            return F.local_response_norm(
                x, layer.size, layer.alpha, layer.beta, layer.k
            )
        case BatchNorm():
            epsilon = layer.epsilon
            return F.batch_norm(
                x, None, None, own["gamma"], own["beta"], True, 0.0, epsilon
            )
        case MaxPool():
            window = pair(layer.kernel)
            stride = pair(layer.stride or layer.kernel)
            least = -float("inf")
            ours = padded(given(taken[node.x]), layer.padding, least)
            y, at = F.max_pool2d(ours, window, stride, return_indices=True)
            theirs = padded(x, layer.padding, least).flatten(2)
            return theirs.gather(2, at.flatten(2)).reshape(y.shape)
        case AveragePool():
            window = pair(layer.kernel or x.shape[2:])
            stride = pair(layer.stride or window)
            mean = F.avg_pool2d(padded(x, layer.padding), window, stride)
            if layer.count_padding:
                return mean
            x = torch.ones_like(x)  # what padded() pads from here on
            return mean / F.avg_pool2d(padded(x, layer.padding), window, stride)
        case Dropout():
            return x * given(_mask(node, seed))
        case Add():
            return sum(xs[1:], x)
        case Concat():
            return torch.cat(xs, 1)
    raise TypeError(f"no reference for {type(layer).__name__}")


def _mask(node, seed):
    """What dropout multiplies with: its own kernel, of ones."""
    x = Tensor("x", node.x.shape)
    y = Tensor("y", node.x.shape)
    device = CPU(0)
    ones = device.resident(np.ones(x.shape, np.float32))
    mask = device.resident(np.zeros(x.shape, np.float32))
    launch = Launch(
        "dropout.forward",
        (y,),
        (x,),
        (seed, node.number, 0, node.layer.ratio),
        view="flat",
        grid=grid_of(prod(x.shape)),
    )
    device.launch(launch, (mask, ones))({})
    return device.read(mask)


def worst_error(gradients, reference):
    """The largest relative error in norm of a parameter's gradient, and whose it is.

    A gradient that is zero but for rounding, as a bias's before batch normalization,
    is measured by the others: by 1e-4 of the largest norm.
    """
    norms = {name: np.linalg.norm(exact) for name, exact in reference.items()}
    least = 1e-4 * max(norms.values())
    return max(
        (float(np.linalg.norm(gradients[name] - exact) / max(norms[name], least)), name)
        for name, exact in reference.items()
    )
