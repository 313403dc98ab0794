"""The check of a layer, phase by phase."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import combinations
from typing import get_args

import numpy as np

from snref.checking.batches import check_parts
from snref.checking.declarations import (
    Phase,
    check_flow,
    described,
    launches_of,
    node_of,
    phases,
)
from snref.checking.differences import differentiate
from snref.checking.launching import run
from snref.checking.values import Arrays, LayerError, Values, bits, element, same_bits
from snref.layers.base import Declarations, Layer, Node
from snref.plans import Choice, Launch, Shape, Tensor, Work


def check_layer(layer: Layer, *shapes: Shape, seed: int = 0) -> None:
    """Check what a layer declares, for inputs of these shapes.

    Under each of the declarations, with random values drawn from seed:

    - forward, backward, inference and update write what they must and read only what
      is there; backward works, too, where the gradient of an input is not wanted;
    - no launch accesses an array out of bounds, races, adds up floats by atomics, or
      changes an input, and every element of its outputs is written;
    - every input of every launch matters to what the launch writes;
    - forward writes the same bits twice, and so does a launch in place where
      ``may_overwrite`` allows it, and every algorithm of one summation order;
    - on parts of the batch, if ``part_images`` allows any, forward and backward write
      the bits that they write for all of it;
    - backward writes the gradients that differences of forward give, also for inputs
      that have equal elements, as where a maximum is there twice.

    A loss is differentiated itself; other outputs are multiplied by random gradients
    dy and summed. Choose small shapes whose sizes differ: at most 150 elements of a
    tensor are compared. Raises LayerError at the first mistake.

    >>> from snref.layers import Add
    >>> check_layer(Add(), (2, 3, 5, 7), (2, 3, 5, 7))
    """
    done = []
    for declarations in get_args(Declarations):
        with _blamed(layer, f"under {declarations} declarations"):
            node = node_of(layer, shapes, declarations)
            work = dict(phases(node))
        for phase, pieces in work.items():
            with _blamed(layer, phase):
                check_flow(node, phase, pieces)
        launched = [(phase, described(pieces)) for phase, pieces in work.items()]
        if launched not in done:  # lean mostly launches the same as original
            _check_numbers(node, work, Values(node, seed))
        done.append(launched)
    for i in range(len(shapes)):
        with _blamed(layer, f"backward without the gradient of input {i}"):
            node = node_of(layer, shapes, unwanted=i)
            for phase, pieces in phases(node):
                check_flow(node, phase, pieces)


@contextmanager
def _blamed(layer: Layer, phase: str) -> Iterator[None]:
    """Say of an error in which layer and phase it is."""
    try:
        yield
    except (ValueError, NotImplementedError) as error:
        name = type(layer).__name__
        raise LayerError(f"{name} {phase}: {error}") from error.__cause__


def _check_numbers(
    node: Node, work: dict[Phase, tuple[Work, ...]], values: Values
) -> None:
    """Run every phase, and compare gradients with differences of forward."""
    drawn, layer = values.draw(), node.layer
    forward = launches_of(work["forward"])
    for phase, pieces in work.items():
        with _blamed(layer, phase):
            launches = launches_of(pieces)
            given, found = _run_strictly(phase, launches, forward, drawn, values)
            _check_repeats(launches, given, found)
            _check_in_place(launches, given, found)
            _check_algorithms(pieces, given, found)
            if phase == "backward":
                check_parts(node, given, found)
    if "backward" in work:
        with _blamed(layer, "backward, for inputs with equal elements"):
            given = run(forward, values.draw(ties=True))
            found = run(launches_of(work["backward"]), given)
            random = values.random
            for each in differentiate(node, forward, given, random, parameters=False):
                each.compare(found)


def _run_strictly(
    phase: Phase,
    launches: Sequence[Launch],
    forward: Sequence[Launch],
    drawn: Arrays,
    values: Values,
) -> tuple[Arrays, Arrays]:
    """Run a phase; return what it was given and what it computed.

    Of backward, also compare the gradients. Raises LayerError, which says which
    arguments of a launch are swapped, if that is all that is wrong.
    """

    def attempt(
        launches: Sequence[Launch], forward: Sequence[Launch]
    ) -> tuple[Arrays, Arrays]:
        given = run(forward, drawn) if phase in ("backward", "update") else drawn
        found = run(launches, given, strict=values)
        if phase == "backward":
            for each in differentiate(values.node, forward, given, values.random):
                each.compare(found)
        return given, found

    try:
        return attempt(launches, forward)
    except LayerError as error:
        trials = [(trial, forward, swap) for trial, swap in _swapped(launches)]
        if phase == "backward":
            trials += [(launches, trial, swap) for trial, swap in _swapped(forward)]
        for trial, before, swap in trials:
            with suppress(LayerError):
                attempt(trial, before)
                raise ValueError(f"{error}; it is right with {swap}") from None
        raise


def _swapped(launches: Sequence[Launch]) -> Iterator[tuple[Sequence[Launch], str]]:
    """Yield the launches with two inputs, scalars or outputs swapped, and which."""
    for i, launch in enumerate(launches):
        for what in "inputs", "scalars", "outputs":
            arguments = getattr(launch, what)
            for a, b in combinations(range(len(arguments)), 2):
                swapped = list(arguments)
                swapped[a], swapped[b] = swapped[b], swapped[a]
                changed: dict[str, object] = {what: tuple(swapped)}
                trial = [*launches]
                trial[i] = replace(launch, **changed)  # type: ignore[arg-type]
                first, second = (
                    getattr(arguments[j], "name", arguments[j]) for j in (a, b)
                )
                yield (
                    trial,
                    f"{first} and {second} swapped among the {what} of kernel "
                    f"{launch.kernel_name}",
                )


def _check_repeats(launches: Sequence[Launch], given: Arrays, found: Arrays) -> None:
    again = run(launches, given)
    for tensor in (output for launch in launches for output in launch.outputs):
        if not same_bits(again[tensor], found[tensor]):
            raise LayerError(f"{tensor.name} has other bits in a second run")


def _check_in_place(launches: Sequence[Launch], given: Arrays, found: Arrays) -> None:
    """Check that every output that may lie on an input gets the same bits there."""
    for output, target, _ in (o for launch in launches for o in launch.may_overwrite):
        where = f"{output.name} may not lie on {target.name}"
        try:
            there = run(launches, given, over={output: target})
        except LayerError as error:
            raise LayerError(f"{where}: {error}") from None
        for tensor in (t for launch in launches for t in launch.outputs):
            for place in np.flatnonzero(bits(there[tensor]) != bits(found[tensor])):
                here, right = (a[tensor].reshape(-1)[place] for a in (there, found))
                raise LayerError(
                    f"{where}: then {element(tensor, place)} is {here:.6g}, and not "
                    f"{right:.6g}"
                )


def _check_algorithms(work: tuple[Work, ...], given: Arrays, found: Arrays) -> None:
    """Check that all algorithms of a choice agree: of one order, to the bit."""
    for choice in (piece for piece in work if isinstance(piece, Choice)):
        for way in choice.algorithms:
            scratch = None
            if way.workspace:
                scratch = Tensor("scratch", (-(-way.workspace // 4),), "workspace")
            other = replace(choice, chosen=way, workspace=scratch)
            pieces = [other if piece is choice else piece for piece in work]
            there = run(launches_of(pieces), given)[choice.output]
            here = found[choice.output]
            if way.order == choice.chosen.order:
                agrees = same_bits(there, here)
            else:
                size = float(np.sqrt(np.mean(np.square(here))))
                agrees = np.allclose(there, here, rtol=1e-4, atol=1e-4 * size)
            if not agrees:
                raise LayerError(
                    f"algorithm {way.name} computes another {choice.output.name} than "
                    f"{choice.chosen.name}"
                )
