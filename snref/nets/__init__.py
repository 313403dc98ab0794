"""Networks, named for their families; each is a function with a batch argument."""

from collections.abc import Callable
from functools import partial

from snref.net import Net
from snref.nets.chains import alexnet, digits, lenet, vgg
from snref.nets.dense import densenet121
from snref.nets.inception import inception_v4
from snref.nets.random_nets import random_net
from snref.nets.residual import resnet
from snref.nets.transformer import gpt2
from snref.nets.unet import unet
from snref.support.imports import blamed, imported

__all__ = [
    "NAMES",
    "alexnet",
    "densenet121",
    "digits",
    "find",
    "gpt2",
    "inception_v4",
    "lenet",
    "random_net",
    "resnet",
    "unet",
    "vgg",
]

_BY_NAME: dict[str, Callable[..., Net]] = {
    "lenet": lenet,
    "alexnet": alexnet,
    "vgg16": partial(vgg, 16),
    "vgg19": partial(vgg, 19),
    "resnet50": partial(resnet, 50),
    "resnet101": partial(resnet, 101),
    "resnet152": partial(resnet, 152),
    "inception_v4": inception_v4,
    "inception_v4_original": partial(inception_v4, original=True),
    "densenet121": densenet121,
    "unet": unet,
    "gpt2": gpt2,
    "digits": digits,
}
NAMES = (*_BY_NAME, "resnet:N1,N2,N3,N4", "random:SEED", "MODULE:FUNCTION")


def find(name: str, batch: int, input_size: int | None = None) -> Net:
    """The net of this name: one of NAMES.

    input_size is the height and width of the images (for gpt2 the number of tokens);
    None is the net's own. MODULE:FUNCTION calls a function of yours with batch and,
    if it is given, input_size. Raises ValueError that says what is allowed.

    >>> find("resnet:6,32,788,6", batch=1).name
    'resnet:6,32,788,6'
    """
    if batch < 1:
        raise ValueError(f"batch {batch}: must be >= 1")
    if input_size is not None and input_size < 1:
        raise ValueError(f"input size {input_size}: must be >= 1")
    sizes = () if input_size is None else (input_size,)
    if name in _BY_NAME:
        return _BY_NAME[name](batch, *sizes)
    family, _, rest = name.partition(":")
    if family == "resnet" and rest:
        return resnet(_numbers(name, rest, 4), batch, *sizes)
    if family == "random" and rest:
        if sizes:
            raise ValueError("a random net draws its input size: none is allowed")
        return random_net(_numbers(name, rest, 1)[0], batch)
    if rest:
        return _made(name, batch, *sizes)
    raise ValueError(f"no net is called {name!r}; there are {', '.join(NAMES)}")


def _numbers(name: str, text: str, count: int) -> tuple[int, ...]:
    """The whole numbers after the colon of a name."""
    try:
        numbers = tuple(int(number) for number in text.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) != count:
        wanted = "a whole number" if count == 1 else f"{count} whole numbers"
        raise ValueError(f"net {name!r}: after the colon must come {wanted}")
    return numbers


def _made(name: str, *sizes: int) -> Net:
    """What a function of the reader's own makes of a batch and maybe an input size."""
    make = imported(name, "net")
    with blamed(name, "net"):
        net = make(*sizes)
    if not isinstance(net, Net):
        kind = type(net).__name__
        raise ValueError(f"net {name!r}: must return a Net, returned {kind}")
    return net
