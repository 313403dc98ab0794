"""Networks, named for their families; each is a function with a batch argument."""

from snref.nets.chains import alexnet, lenet

__all__ = ["alexnet", "lenet"]
