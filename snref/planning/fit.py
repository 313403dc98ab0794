"""Find the plan with which a net fits in so much memory, and the largest that fits.

Optimizer and number format change what is counted, nothing else: the seconds are those
of float32 and of gradient descent with momentum.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from snref.net import Net, route
from snref.planning.planned import plan_route, prepared
from snref.planning.reports import resident
from snref.plans import (
    Launch,
    OutOfMemory,
    Plan,
    Tensor,
    Work,
    extent,
    host_peak,
    lower_bound,
)
from snref.policies import Policy
from snref.scheduler import Options
from snref.scheduler.in_place import overwrite
from snref.support.garbage import no_garbage_collection
from snref.timing import roofline
from snref.timing.costs import Costs
from snref.timing.timeline import simulate

Optimizer: TypeAlias = Literal["sgd", "momentum", "adam", "adamw"]
Format: TypeAlias = Literal["fp32", "amp"]
LEAST_TIME = "least time"
STATE: dict[Optimizer, int] = {  # numbers that an optimizer keeps a parameter
    "sgd": 0,
    "momentum": 1,
    "adam": 2,
    "adamw": 2,
}


@dataclass(frozen=True)
class Counting:
    """What is counted.

    dtype  "amp": activations and gradients in half precision, but for the loss;
           parameters in both formats
    """

    optimizer: Optimizer = "momentum"
    dtype: Format = "fp32"

    def resident(self, net: Net) -> dict[str, int]:
        """Return the bytes that stay on the device throughout, by what they are."""
        found = resident(net)
        parameters = found["parameter"]
        counted = {
            "parameters": parameters,
            "parameter_gradients": found["parameter_gradient"],
            "optimizer_state": STATE[self.optimizer] * parameters,
            "state": found["state"],
            "input": found["input"],
        }
        if self.dtype == "amp":
            counted["half_precision_parameters"] = parameters // 2
        return counted

    def route(self, net: Net) -> Plan:
        """Return the net's route, with tensors of the format."""
        whole = route(net)
        return halved(whole, net.nodes[-1].y) if self.dtype == "amp" else whole

    def least(self, net: Net, options: Options | None = None) -> int:
        """Return the fewest bytes of device memory that a plan can do with.

        options: what plans may do; default: what the quickest may
        """
        options = options or Options()
        static = not options.liveness
        bound = lower_bound(overwrite(self.route(net), options.overwrite, static))
        return bound + sum(self.resident(net).values())


@dataclass(frozen=True)
class Fit:
    """A net, and its plan in the memory there is.

    planner  the preset's or policy's name, or "least time"
    """

    net: Net
    plan: Plan
    options: Options
    resident: dict[str, int]
    costs: Costs
    planner: str = LEAST_TIME

    @property
    def total_bytes(self) -> int:
        """The device memory that the plan needs: what is resident, and the slab."""
        return sum(self.resident.values()) + extent(self.plan)

    @property
    def host_bytes(self) -> int:
        """The most that is kept on the host at once."""
        return host_peak(self.plan)

    @property
    def seconds(self) -> float:
        """The modelled time of an iteration."""
        return simulate(self.plan, self.costs).seconds

    @property
    def images_per_second(self) -> float:
        """The modelled throughput; infinity if an iteration takes no time."""
        return self.net.batch / self.seconds if self.seconds else float("inf")


def fitted(
    net: Net,
    memory: int,
    *,
    preset: str | None = None,
    policy: str | Policy | None = None,
    host_memory: int | None = None,
    counting: Counting | None = None,
    effort: float = 1.0,
    device: str = "virtual:k40c",
    costs: Costs | None = None,
) -> Fit:
    """Plan a net for so many bytes of the device, and of the host if that is limited.

    preset, policy, effort, device, costs   as for ``snref.plan``
    counting   what is counted; default: float32, and descent with momentum

    Raises OutOfMemory: in bytes of ``memory``, or of ``host_memory``.

    >>> from snref.nets import lenet
    >>> fit = fitted(lenet(batch=32), 11_000_000, counting=Counting("adam"))
    >>> fit.total_bytes <= 11_000_000, fit.resident["optimizer_state"]
    (True, 3448640)
    """
    net = prepared(net, preset)
    counting = counting or Counting()
    there = counting.resident(net)
    fixed = sum(there.values())
    with no_garbage_collection():
        costs = costs or roofline.costs(route(net), roofline.machine(device))
        try:
            name, options, plan = plan_route(
                counting.route(net),
                costs,
                preset,
                policy,
                max(0, memory - fixed),
                effort,
                {"host_capacity": host_memory},
            )
        except OutOfMemory as error:
            raise error.beside(fixed, memory) from None
    return Fit(net, plan, options, there, costs, name)


def halved(whole: Plan, loss: Tensor) -> Plan:
    """Return the route with activations and gradients in half precision.

    The loss keeps its format, so that nothing of half precision may overwrite it.

    >>> from snref.nets import lenet
    >>> net = lenet(2)
    >>> half = halved(route(net), net.nodes[-1].y)
    >>> lower_bound(half) / lower_bound(route(net))
    0.5
    """
    half = {
        tensor: Tensor(tensor.name, tensor.shape, tensor.kind, "float16")
        for run in whole.runs()
        for piece in run.work
        for tensor in piece.tensors
        if tensor.is_data and tensor.dtype == "float32" and tensor is not loss
    }

    def halve(piece: Work) -> Work:
        made = piece.renamed(half)
        if not isinstance(made, Launch):
            return made
        allowed = tuple(
            (half.get(output, output), half.get(target, target), when)
            for output, target, when in made.may_overwrite
            if (output in half) == (target in half)
        )
        return replace(made, may_overwrite=allowed)

    return Plan(
        tuple(run.with_work(tuple(map(halve, run.work))) for run in whole.runs())
    )


def unsaved(net: Net, counting: Counting) -> int:
    """Return the bytes that a net needs with no saving at all: every tensor is held."""
    held = {t for run in counting.route(net).runs() for t in run.working_set}
    return sum(t.aligned_bytes for t in held) + sum(counting.resident(net).values())


def largest_of(
    attempt: Callable[[int], Fit | OutOfMemory],
    most: int,
    memory: int,
    fixed: int,
    share: float = 0.0,
) -> tuple[int, Fit | None]:
    """Return the largest number for which there is a plan, and that plan.

    attempt  returns the plan for a batch or depth, or why there is none
    most     a number above which there is certainly none
    memory   bytes of the device
    fixed    about so many of them do not grow with the number
    share    of the largest number: the search ends when it is known up to that

    Bytes grow nearly linearly, so a guess is seldom far off. Every smaller number must
    fit, too.
    """
    low, best = 0, None
    high, guess, step = most + 1, most, 1
    while high - low > max(1, share * low):
        answer = attempt(guess)
        if isinstance(answer, Fit):
            low, best = guess, answer
            step = max(step, int(share * low))
            guess, step = low + step, 2 * step
        else:
            high = guess
            guess = (low + high) // 2
            if answer.step != "the host" and answer.least > max(fixed, memory):
                guess = high * (memory - fixed) // (answer.least - fixed)
        guess = max(low + 1, min(guess, high - 1))
    return low, best


def largest(fits: Callable[[int], bool], limit: int) -> int:
    """Return the largest number up to the limit that fits; 0 if none does.

    Every smaller number must fit, too.

    >>> largest(lambda n: n <= 1000, 4096), largest(lambda n: True, 4096)
    (1000, 4096)
    """
    low, high = 0, 1
    while high <= limit and fits(high):
        low, high = high, 2 * high
    high = min(high, limit + 1)  # does not fit, or is beyond the limit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
