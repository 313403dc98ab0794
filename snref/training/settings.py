"""How to descend: what may change from one part of a training to the next."""

from dataclasses import dataclass
from math import inf
from typing import Literal, TypeAlias, get_args

from snref.support.units import one_of

Decays: TypeAlias = Literal["all", "weights"]


@dataclass(frozen=True)
class Settings:
    """Stochastic gradient descent with momentum.

    learning_rate   multiplied by ``factor`` after every ``every`` epochs; 0: never
    weight_decay    times the parameter, is added to its gradient
    decays          which parameters: "all", or "weights" without biases and without
                    the scales and shifts of batch normalization

    Raises ValueError for a number out of range.
    """

    learning_rate: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 5e-4
    factor: float = 0.1
    every: int = 8
    decays: Decays = "all"

    def __post_init__(self) -> None:
        for name in "learning_rate", "factor":
            if not 0 < getattr(self, name) < inf:
                raise ValueError(f"{name} {getattr(self, name)}: must be > 0")
        for name in "momentum", "weight_decay":
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} {getattr(self, name)}: must be >= 0 and < 1")
        if not isinstance(self.every, int) or self.every < 0:
            raise ValueError(f"every {self.every}: must be a whole number >= 0")
        one_of("decays", self.decays, get_args(Decays))

    def rate(self, epoch: int) -> float:
        """Return the learning rate of an epoch, counted from 0.

        >>> [Settings(0.5, every=2).rate(epoch) for epoch in range(4)]
        [0.5, 0.5, 0.05, 0.05]
        """
        steps = epoch // self.every if self.every else 0
        return self.learning_rate * self.factor**steps
