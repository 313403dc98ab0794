"""``snref fit``: does a net fit, with which plan, and how large may its batch be?"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, get_args

import snref
from snref.commands import arguments as shared
from snref.commands.progress import elapsed
from snref.commands.tables import Table, put
from snref.net import Net
from snref.nets import find
from snref.planning.fit import (
    LEAST_TIME,
    STATE,
    Counting,
    Fit,
    Format,
    fitted,
    largest,
    largest_of,
    unsaved,
)
from snref.planning.planned import JOINT, PRESET_NAMES, options_of, prepared
from snref.plans import OutOfMemory, extent
from snref.policies import POLICIES
from snref.support.units import mebibytes

EXAMPLE = "snref fit resnet50 --memory 12GB --optimizer adam"

DEEPER = (6, 32, 6)  # blocks of a ResNet's other stages, as SuperNeurons deepens it
HALVINGS = 2  # of the largest batch, to find the one of best throughput
HURRY = 0.03  # the effort for these
LARGEST_BATCH, DEEPEST = 2**16, 2**14  # where the search ends, however much memory

NOT_COUNTED = (
    "the CUDA context and the code of the kernels (some hundred MiB)",
    "what a framework's allocator keeps beside the tensors",
    "copies of data that a loader holds on the device ahead of use",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_net(parser)
    shared.add_memory(parser)
    planner = parser.add_mutually_exclusive_group()
    planner.add_argument(
        "--preset", choices=PRESET_NAMES, help="plan by a preset; default: least time"
    )
    planner.add_argument(
        "--policy",
        metavar="POLICY",
        help=f"plan by a policy: {', '.join(POLICIES)}, or your own MODULE:FUNCTION",
    )
    parser.add_argument(
        "--optimizer",
        choices=list(STATE),
        default="momentum",
        help="counts the numbers that it keeps for each parameter: sgd 0, momentum 1 "
        "(default), adam and adamw 2",
    )
    parser.add_argument(
        "--dtype",
        choices=get_args(Format),
        default="fp32",
        help="amp: activations and gradients in half precision, except the loss; "
        "parameters in both formats; default: fp32",
    )
    parser.add_argument(
        "--deeper",
        action="store_true",
        help="find the deepest ResNet instead of the largest batch: the N of "
        "resnet:6,32,N,6",
    )
    shared.add_machine(parser)
    shared.add_tables(parser, "the table")


@dataclass(frozen=True)
class _Answer:
    """What was asked, and what was found; None at ``best`` if nothing fits.

    trained  the net as ``snref train`` runs it, without the gradient of the images;
             None if that is what was asked
    unsaved  bytes of the net if every tensor is held
    limit    the batch, or the depth, up to which the search goes
    largest  the largest of them that fits
    fastest  of the largest batch and its halves the one with most images a second
    """

    net: Net
    asked: Fit | OutOfMemory
    trained: Fit | OutOfMemory | None
    unsaved: int
    limit: int
    largest: int
    best: Fit | OutOfMemory | None
    fastest: Fit | None


def run(arguments: argparse.Namespace) -> int:
    if arguments.memory is None:
        raise ValueError("--memory SIZE is missing: the device's memory, such as 12GB")
    if arguments.deeper and not arguments.net.startswith("resnet"):
        raise ValueError(f"--deeper is for a ResNet, not for {arguments.net}")
    with elapsed("fit"):
        answer = _answer(arguments)
    rows = list(_rows(answer.asked)) if isinstance(answer.asked, Fit) else []
    text = "\n".join(_lines(arguments, answer))
    put(arguments, text, Table(("what", "bytes"), rows), _report(arguments, answer))
    return 0 if isinstance(answer.asked, Fit) else 1


def _answer(arguments: argparse.Namespace) -> _Answer:
    net = prepared(shared.net_of(arguments), arguments.preset)
    memory, host_memory = arguments.memory, arguments.host_memory
    counting = Counting(arguments.optimizer, arguments.dtype)
    costs = shared.costs_of(arguments)

    def fit(net: Net, effort: float = 1.0) -> Fit | OutOfMemory:
        try:
            return fitted(
                net,
                memory,
                preset=arguments.preset,
                policy=arguments.policy,
                effort=effort,
                host_memory=host_memory,
                counting=counting,
                device=arguments.device,
                costs=costs,
            )
        except OutOfMemory as error:
            return error

    def other(size: int) -> Net:
        """The net with another batch, or another depth."""
        if not arguments.deeper:
            return net.with_batch(size)
        first, second, last = DEEPER
        name = f"resnet:{first},{second},{size},{last}"
        deep = find(name, net.batch, arguments.input_size)
        return prepared(shared.with_options(deep, arguments), arguments.preset)

    limit = DEEPEST if arguments.deeper else LARGEST_BATCH
    # The lower bound has a quickest plan. No planner has one below it.
    options = options_of(arguments.preset)
    most = largest(lambda size: counting.least(other(size), options) <= memory, limit)
    if arguments.preset in (None, JOINT) and arguments.policy is None:
        if host_memory is not None:  # too large a net is refused slowly: begin at 1
            most = largest(lambda size: isinstance(fit(other(size)), Fit), most)
        best = fit(other(most)) if most else None
    else:
        fixed = sum(counting.resident(other(1)).values())
        most, best = largest_of(lambda n: fit(other(n)), most, memory, fixed)
    trained = net.with_options(image_gradient=False)
    asked = fit(net)
    hint = arguments.preset != JOINT and host_memory is None
    if isinstance(asked, OutOfMemory) and hint:
        joint = prepared(net, JOINT)
        asked = asked.unless_joint(counting.least(joint, options_of(JOINT)))
    return _Answer(
        net,
        asked,
        fit(trained) if net.has_image_gradient else None,
        unsaved(net, counting),
        limit,
        most,
        best,
        None if arguments.deeper else _fastest(lambda n: fit(other(n), HURRY), best),
    )


def _fastest(
    attempt: Callable[[int], Fit | OutOfMemory], best: Fit | OutOfMemory | None
) -> Fit | None:
    """The plan of most images a second, of the largest batch and of its halves."""
    if not isinstance(best, Fit):
        return None
    batch = best.net.batch
    smaller = {batch >> i for i in range(1, HALVINGS + 1)} - {0}
    found = [best, *map(attempt, sorted(smaller, reverse=True))]
    plans = [plan for plan in found if isinstance(plan, Fit)]
    return max(plans, key=lambda plan: plan.images_per_second)


def _rows(fit: Fit) -> Iterator[tuple[str, int]]:
    """Yield what a plan needs, in bytes."""
    for kind, nbytes in fit.resident.items():
        yield kind.replace("_", " "), nbytes
    yield "activations, gradients, workspace: the slab", extent(fit.plan)
    yield "total", fit.total_bytes
    yield "kept on the host at once", fit.host_bytes


def _plan(fit: Fit) -> str:
    """Describe a plan in one line."""
    options = fit.options
    how = f"recompute {options.recompute or 'off'}, transfers {options.transfers}"
    if fit.planner not in (LEAST_TIME, *PRESET_NAMES):
        how = f"policy {fit.planner}"
    return (
        f"{how}; {fit.seconds:.4g} s an iteration, {fit.images_per_second:.4g} images "
        f"a second on {fit.costs.source}"
    )


def _lines(arguments: argparse.Namespace, answer: _Answer) -> Iterator[str]:
    net, asked, best = answer.net, answer.asked, answer.best
    shape = " x ".join(map(str, net.input_shape))
    verdict = "fits" if isinstance(asked, Fit) else "does not fit"
    limits = f"{arguments.memory:,} bytes ({mebibytes(arguments.memory)} MiB)"
    if arguments.host_memory is not None:
        limits += f" and {arguments.host_memory:,} bytes of the host"
    yield (
        f"{net.name}, input {shape}, optimizer {arguments.optimizer}, "
        f"{arguments.dtype}: {verdict} in {limits}"
    )
    if isinstance(asked, Fit):
        yield ""
        for name, nbytes in _rows(asked):
            yield f"  {name:44} {nbytes:>16,} {mebibytes(nbytes):>12}"
        yield f"  {_plan(asked)}"
    else:
        yield f"{shared.least_that_works(asked)} ({asked.step})"
    if isinstance(answer.trained, Fit):
        yield (
            "  without the gradient of the images, which snref train does not compute, "
            f"the total is {answer.trained.total_bytes:,}"
        )
    held = "fits, too" if answer.unsaved <= arguments.memory else "would not fit"
    yield (
        f"  with no saving at all, every tensor held and none in place, it {held}: "
        f"{answer.unsaved:,} bytes"
    )
    yield ""
    what = "N of the deepest resnet:6,32,N,6" if arguments.deeper else "largest batch"
    more = " or more" if answer.largest == answer.limit else ""
    yield f"{what}: {answer.largest or 'none'}{more}"
    if arguments.preset in (None, JOINT) and arguments.policy is None:
        yield (
            "  with all layers whole; in parts of the batch, which snref plan takes "
            "where nothing else fits, more may fit"
        )
    if isinstance(best, Fit):
        if arguments.deeper:
            layers = 3 * (sum(DEEPER) + answer.largest) + 2
            yield f"  of {layers:,} convolutions and products in a row"
        yield (
            f"  {best.total_bytes:,} bytes in all, {best.host_bytes:,} on the host; "
            f"{_plan(best)}"
        )
    if answer.fastest is not None:
        yield (
            f"most images a second, of this batch and its halves: batch "
            f"{answer.fastest.net.batch}, {answer.fastest.images_per_second:.4g}"
        )
    yield ""
    yield f"not counted: {'; '.join(NOT_COUNTED)}"


def _report(arguments: argparse.Namespace, answer: _Answer) -> dict[str, Any]:
    def entry(fit: Fit | OutOfMemory | None) -> dict[str, Any] | None:
        match fit:
            case None:
                return None
            case OutOfMemory():
                return {"fits": False, "step": fit.step, "least_bytes": fit.least}
        return {
            "fits": True,
            "resident": fit.resident,
            "extent_bytes": extent(fit.plan),
            "total_bytes": fit.total_bytes,
            "host_bytes": fit.host_bytes,
            "batch": fit.net.batch,
            "images_per_second": fit.images_per_second,
            "planner": fit.planner,
            "recompute": fit.options.recompute,
            "transfers": fit.options.transfers,
            "modelled": {"device": fit.costs.source, "seconds": fit.seconds},
        }

    net = answer.net
    return {
        "schema": "snref.fit/1",
        "snref_version": snref.__version__,
        "net": net.name,
        "batch": net.batch,
        "input": net.input_shape,
        "memory_bytes": arguments.memory,
        "host_memory_bytes": arguments.host_memory,
        "optimizer": arguments.optimizer,
        "dtype": arguments.dtype,
        "image_gradient": net.has_image_gradient,
        "unit": "bytes",
        "counts": "all device memory of a plan: resident tensors and its slab",
        "not_counted": NOT_COUNTED,
        "asked": entry(answer.asked),
        "without_saving": {
            "fits": answer.unsaved <= arguments.memory,
            "total_bytes": answer.unsaved,
        },
        "without_image_gradient": entry(answer.trained),
        "searched": "depth" if arguments.deeper else "batch",
        "searched_up_to": answer.limit,
        "largest": answer.largest,
        "at_largest": entry(answer.best),
        "at_best_throughput": entry(answer.fastest),
    }
