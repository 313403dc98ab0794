"""Networks, named for their families; each is a function with a batch argument.

A new net is one file, with a function of its name that takes batch and input_size,
and one line in ``_FILES``.
"""

from collections.abc import Callable
from importlib import import_module

from snref.net import Net
from snref.nets.chains import vgg
from snref.nets.random_nets import random_net
from snref.nets.residual import resnet
from snref.support.imports import blamed, imported
from snref.support.units import shortened

__all__ = ["NAMES", "find", "random_net", "resnet", "vgg"]

_FILES = {  # the nets, by name, and the file of each
    "lenet": "chains",
    "alexnet": "chains",
    "vgg16": "chains",
    "vgg19": "chains",
    "resnet50": "residual",
    "resnet101": "residual",
    "resnet152": "residual",
    "inception_v4": "inception",
    "inception_v4_original": "inception",
    "densenet121": "dense",
    "unet": "segmentation",
    "gpt2": "transformer",
    "digits": "chains",
}
BATCH = 32  # if none is given
NAMES = (*_FILES, "resnet:N1,N2,N3,N4", "random:SEED", "MODULE:FUNCTION")


def __getattr__(name: str) -> Callable[..., Net]:
    if name not in _FILES:
        raise AttributeError(f"module 'snref.nets' has no attribute {name!r}")
    make: Callable[..., Net] = getattr(
        import_module(f"snref.nets.{_FILES[name]}"), name
    )
    return make


def __dir__() -> list[str]:
    return sorted({*globals(), *_FILES})


def find(name: str, batch: int | None = None, input_size: int | None = None) -> Net:
    """Make the net of this name: one of NAMES. Without a batch, it is made for BATCH.

    input_size is the height and width of the images (for gpt2 the number of tokens);
    None is the net's own. MODULE:FUNCTION calls a function of yours with batch and,
    if it is given, input_size; its net must be for the batch that is given.
    Raises ValueError that says what is allowed.

    >>> find("resnet:6,32,788,6", batch=1).name
    'resnet:6,32,788,6'
    """
    if not isinstance(name, str):
        raise ValueError(f"{shortened(name)} is no name of a net, nor a Net")
    wanted, batch = batch, BATCH if batch is None else batch
    if batch < 1:
        raise ValueError(f"batch {batch}: must be >= 1")
    if input_size is not None and input_size < 1:
        raise ValueError(f"input size {input_size}: must be >= 1")
    sizes = () if input_size is None else (input_size,)
    if name in _FILES:
        return __getattr__(name)(batch, *sizes)
    family, _, rest = name.partition(":")
    if family == "resnet" and rest:
        return resnet(_numbers(name, rest, 4), batch, *sizes)
    if family == "random" and rest:
        if sizes:
            raise ValueError("a random net draws its input size: none is allowed")
        return random_net(_numbers(name, rest, 1)[0], batch)
    if rest:
        net = _made(name, batch, *sizes)
        if wanted not in (None, net.batch):
            raise ValueError(
                f"net {name!r}: called for batch {batch}, returned a net for batch "
                f"{net.batch}"
            )
        return net
    raise ValueError(f"no net is called {name!r}; there are {', '.join(NAMES)}")


def _numbers(name: str, text: str, count: int) -> tuple[int, ...]:
    """Parse the whole numbers after the colon of a name."""
    try:
        numbers = tuple(int(number) for number in text.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) != count:
        wanted = "a whole number" if count == 1 else f"{count} whole numbers"
        raise ValueError(f"net {name!r}: after the colon must come {wanted}")
    return numbers


def _made(name: str, *sizes: int) -> Net:
    """Call a function of the user's own, which returns a net."""
    make = imported(name, "net")
    with blamed(name, "net"):
        net = make(*sizes)
    if not isinstance(net, Net):
        kind = type(net).__name__
        raise ValueError(f"net {name!r}: must return a Net, returned {kind}")
    return net
