"""verify: accepts what the scheduler makes, objects to every fault put into it."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from snref.net import route as route_of
from snref.nets import random_net
from snref.plans import (
    Algorithm,
    Alloc,
    Choice,
    Free,
    InvalidPlan,
    Kind,
    Launch,
    Offload,
    Plan,
    Prefetch,
    Run,
    Step,
    Tensor,
    host_memory,
    memory,
)
from snref.plans.verification import verify
from snref.scheduler import PRESETS, schedule

from .scheduled import scratch

# Plans by hand: one rule a test


def tensor(name: str, kind: Kind = "activation", items: int = 64) -> Tensor:
    return Tensor(name, (items,), kind)


x, y, z = tensor("x"), tensor("y"), tensor("z")
dx, dy, dz = (tensor(name, "gradient") for name in ("dx", "dy", "dz"))
w, dw = tensor("w", "parameter"), tensor("dw", "parameter_gradient")


def forward(layer: str, out: Tensor, *inputs: Tensor) -> Run:
    return Run(layer, "forward", (Launch(layer, (out,), inputs),))


def backward(layer: str, out: Tensor, *inputs: Tensor) -> Run:
    return Run(layer, "backward", (Launch(layer, (out,), inputs),))


def update(layer: str, parameter: Tensor, gradient: Tensor) -> Run:
    work = Launch("sgd.update", (parameter,), (gradient,), updates=True)
    return Run(layer, "update", (work,))


# x -> y -> z, and back: relu's backward reads x, which is there three times over.
CONV = forward("conv", x)
RELU = forward("relu", y, x)
LOSS = forward("loss", z, y)
LOSS_BACK = backward("loss", dy, y, z)
RELU_BACK = backward("relu", dx, x, y, dy)
ROUTE = Plan((CONV, RELU, LOSS, LOSS_BACK, RELU_BACK))


def held(*steps: Step) -> Plan:
    """The steps between an Alloc and a Free of all they touch but do not allocate."""
    own = {step.tensor for step in steps if isinstance(step, Alloc)}
    touched: dict[Tensor, None] = {}
    for step in steps:
        tensors = step.working_set if isinstance(step, Run) else (step.tensor,)
        touched |= {t: None for t in tensors if t not in own}
    return Plan((*map(Alloc, touched), *steps, *map(Free, touched)))


def objection(plan: Plan, route: Plan | None = None, **limits: int) -> str:
    with pytest.raises(InvalidPlan) as caught:
        verify(plan, route, **limits)
    return str(caught.value)


def test_a_plan_that_holds_everything_is_valid() -> None:
    verify(held(*ROUTE.steps), ROUTE)
    verify(held(*ROUTE.steps))


def test_a_tensor_gets_room_once_and_loses_it_once() -> None:
    good = held(*ROUTE.steps).steps
    assert "alloc x: is allocated already" in objection(Plan((good[0], *good)))
    assert "free dx: is not allocated" in objection(Plan((*good, good[-1])))
    assert objection(Plan(good[:-1])).startswith(
        "steps[4], alloc dx: is still allocated"
    )
    assert "forward conv: writes x, which is not allocated" in objection(Plan(good[1:]))


def test_resident_tensors_get_no_room() -> None:
    for step in Alloc(w), Free(w), Offload(w), Prefetch(w):
        assert f"{type(step).__name__.lower()} w: is a parameter" in objection(
            Plan((step,))
        )


def test_a_value_is_lost_with_its_room() -> None:
    lost = held(*ROUTE.steps[:3], Free(x), Alloc(x), *ROUTE.steps[3:])
    steps = (Alloc(x), *lost.steps, Free(x))
    assert "backward relu: reads x, which has no value" in objection(Plan(steps), ROUTE)


def test_a_value_overwritten_in_place_is_not_read_as_what_it_was() -> None:
    loss_back = backward("loss", y, y, z)  # dy is written over y, which relu reads
    relu_back = backward("relu", dx, x, y, y)
    route = Plan((*ROUTE.steps[:3], replace_overlay(LOSS_BACK, (dy, y)), RELU_BACK))
    plan = held(*ROUTE.steps[:3], loss_back, relu_back)
    found = objection(plan, route)
    assert "backward relu: reads y" in found
    narrow = backward("relu", dx, x, dy)  # which does not read y
    route = Plan((*route.steps[:4], narrow))
    verify(held(*ROUTE.steps[:3], loss_back, backward("relu", dx, x, y)), route)


def replace_overlay(run: Run, *pairs: tuple[Tensor, Tensor]) -> Run:
    (launch,) = run.launches
    overlays = tuple((*pair, "gradients") for pair in pairs)
    return run.with_work((replace(launch, may_overwrite=overlays),))  # type: ignore[arg-type]


def test_a_kernel_writes_over_an_input_only_where_its_layer_says_so() -> None:
    route = Plan((*ROUTE.steps[:4], backward("relu", dx, x, dy)))
    plan = held(*ROUTE.steps[:3], backward("loss", y, y, z), backward("relu", dx, x, y))
    assert "may not write over its input y" in objection(plan, route)
    verify(plan)  # without the route nobody can tell


def test_other_kernels_other_scalars_and_smaller_tensors_are_objected_to() -> None:
    def with_loss(work: Launch) -> Plan:
        run = Run("loss", "forward", (work,))
        return held(*ROUTE.steps[:2], run, *ROUTE.steps[3:])

    verify(with_loss(Launch("loss", (z,), (y,))), ROUTE)
    for other in (
        Launch("gain", (z,), (y,)),
        Launch("loss", (z,), (y,), (0.5,)),
        Launch("loss", (z,), (y,), view="rows"),
        Launch("loss", (z,), (y,), updates=True),
        Launch("loss", (z,), (y, x)),
    ):
        assert "forward loss: has other kernels" in objection(with_loss(other), ROUTE)
    small = tensor("small", items=32)
    loss = Run("loss", "forward", (Launch("loss", (small,), (y,), bytes_accessed=512),))
    plan = held(CONV, RELU, loss, backward("loss", dy, y, small), RELU_BACK)
    assert "uses small, float32 (32,), for z, float32 (64,)" in objection(plan, ROUTE)


def test_a_run_may_not_be_wired_differently_inside() -> None:
    a, b, c = tensor("a"), tensor("b"), tensor("c")
    first, second = Launch("f", (b,), (a,)), Launch("g", (c,), (a,))
    route = Plan((forward("in", a), Run("two", "forward", (first, second))))
    crossed = Run("two", "forward", (first, Launch("g", (c,), (b,))))
    assert "reads b, which holds b of forward two, not a of forward in" in objection(
        held(route.steps[0], crossed), route
    )
    over = Run("two", "forward", (Launch("f", (a,), (a,)), second))
    allowed = replace(first, may_overwrite=((b, a, "activations"),))
    route = Plan((route.steps[0], Run("two", "forward", (allowed, second))))
    assert "reads a, which holds b of forward two, not a of forward in" in objection(
        held(route.steps[0], over), route
    )


def test_every_run_is_there_once_and_in_order() -> None:
    *most, last = ROUTE.steps
    assert "backward relu did not run" in objection(held(*most), ROUTE)
    assert "backward relu: runs a second time" in objection(
        held(*ROUTE.steps, last), ROUTE
    )
    stranger = forward("stranger", tensor("s"))
    assert "stranger: is not in the route" in objection(
        held(*ROUTE.steps, stranger), ROUTE
    )
    other = forward("other", tensor("o"))
    route = Plan((CONV, other, *ROUTE.steps[1:]))
    assert "forward other: comes before forward conv" in objection(
        held(other, *ROUTE.steps), route
    )
    assert "the route's steps[1], forward conv: is there twice" in objection(
        held(*ROUTE.steps), Plan((CONV, *ROUTE.steps))
    )


def test_a_rerun_must_bring_a_value_that_is_read() -> None:
    def forgetting(*again: Step) -> Plan:
        lost = (*ROUTE.steps[:3], Free(x), LOSS_BACK, Alloc(x), *again, RELU_BACK)
        rest = (y, z, dy, dx)
        return Plan((*map(Alloc, (x, *rest)), *lost, *map(Free, (x, *rest))))

    verify(forgetting(CONV), ROUTE)
    assert "backward relu: reads x, which has no value" in objection(
        forgetting(), ROUTE
    )
    assert "forward conv: is useless" in objection(forgetting(CONV, CONV), ROUTE)
    assert (
        "forward relu: is useless: the value was there already, or nobody reads it: y"
        in objection(forgetting(CONV, RELU), ROUTE)
    )
    late = held(*ROUTE.steps, CONV)
    assert "forward conv: is useless" in objection(late, ROUTE)


def test_a_rerun_reads_what_the_first_run_read() -> None:
    source = tensor("source", "state")
    first = forward("conv", x, source)
    change = Run("count", "update", (Launch("add", (source,), (), updates=True),))
    route = Plan((first, *ROUTE.steps[1:], change))
    free, alloc = Free(x), Alloc(x)
    early = held(first, *ROUTE.steps[1:4], change, RELU_BACK)
    verify(early, route)
    steps = list(early.steps)
    place = steps.index(RELU_BACK)
    steps[place:place] = [free, alloc, first]
    assert "forward conv: reads source, which holds source of update count" in (
        objection(Plan(tuple(steps)), route)
    )


def test_a_copy_is_made_once_and_copied_back_for_a_reader() -> None:
    def moved(out: Iterable[Step], back: Iterable[Step]) -> Plan:
        rest = (y, z, dy, dx)
        return Plan(
            (
                *map(Alloc, (x, *rest)),
                *(CONV, RELU, *out, Free(x)),
                *(LOSS, LOSS_BACK, Alloc(x), *back, RELU_BACK),
                *map(Free, (x, *rest)),
            )
        )

    out, back = Offload(x), Prefetch(x)
    verify(moved([out], [back]), ROUTE)
    for plan, fault in (
        (moved([], [back]), "prefetch x: has no copy on the host"),
        (moved([out], []), "backward relu: reads x, which has no value"),
        (moved([out, Offload(x)], [back]), "steps[8], offload x: is useless"),
        (moved([out], [back, Prefetch(x)]), "steps[13], prefetch x: is useless"),
        (moved([out], [CONV]), "offload x: is useless"),
        (moved([out], [back, CONV]), "forward conv: is useless"),
        (moved([out], [CONV, back]), "offload x: is useless"),
        (moved([Free(x), Alloc(x), out], [back]), "offload x: has no value"),
        (moved([Free(x), out, Alloc(x)], [back]), "offload x: is not allocated"),
    ):
        assert fault in objection(plan, ROUTE)


def test_a_stale_host_copy_is_found_by_its_reader() -> None:
    change = Run("relu", "forward", (Launch("relu", (x,), (x,)),))  # y over x
    use = backward("loss", dx, x)
    route = Plan((CONV, change, use))
    kept = (Alloc(dx), Alloc(x), CONV, Offload(x), change)
    rest = (Free(x), Alloc(x), Prefetch(x), use, Free(x), Free(dx))
    found = objection(Plan((*kept, *rest)), route)
    assert "backward loss: reads x, which holds x of forward conv, by steps[7]" in found
    fresh = (Alloc(dx), Alloc(x), CONV, change, Offload(x))
    verify(Plan((*fresh, *rest)), route)


def test_a_parameter_is_not_read_after_its_update() -> None:
    # w is read by two layers; the second's gradient comes first.
    make = backward("loss", dw, y)
    late = backward("conv", dx, w, y)
    fore = (forward("conv", x, w), forward("relu", y, x, w))
    step = update("conv", w, dw)
    route = Plan((*fore, make, late, step))
    verify(held(*fore, make, late, step), route)
    for given in route, None:
        assert "backward conv: reads w after its update" in objection(
            held(*fore, make, step, late), given
        )
    elsewhere = forward("other", z, y)
    route = Plan((*fore, elsewhere, make, late, step))
    early = held(*fore, elsewhere, make, late, step)
    verify(early, route)
    # An update may come sooner than in the route, if nobody reads w any more.
    last = backward("last", dz, y)
    route = Plan((*fore, make, late, last, step))
    verify(held(*fore, make, late, step, last), route)


def test_a_gradient_reaches_its_parameter_once() -> None:
    fore, make, step = (
        forward("conv", x, w),
        backward("conv", dw, x),
        update("c", w, dw),
    )
    verify(held(fore, make, step))
    add = Run("more", "backward", (Launch("add", (dw,), (x,), updates=True),))
    verify(held(fore, make, add, step))  # a second use of w adds to its gradient
    for steps, fault in (
        ((fore, make), "backward conv: writes dw, which no update uses"),
        ((fore, make, backward("b", dw, x), step), "writes dw over one not yet used"),
        ((fore, step, make), "reads dw, which has no value"),
        ((fore, make, step, update("d", w, dw)), "uses dw, which was used already"),
        ((fore, backward("conv", dx, x)), "reads w, which is not updated"),
        ((fore, make, forward("b", w)), "changes w: only an update may"),
    ):
        assert fault in objection(held(*steps))
    again = Run("d", "update", (Launch("decay", (w,), (), updates=True),))
    assert "updates w a second time" in objection(held(fore, make, step, again))


def test_a_route_of_forward_runs_evaluates_and_updates_nothing() -> None:
    verify(held(forward("conv", x, w), forward("relu", y, x)))


def test_what_the_iteration_leaves_is_what_the_route_leaves() -> None:
    fore, make, step = (
        forward("conv", x, w),
        backward("conv", dw, x),
        update("c", w, dw),
    )
    unread = backward("first", dx, x)
    route = Plan((fore, make, unread, step))
    verify(held(*route.steps), route)
    over = held(fore, make, step, backward("first", w, x))  # dx, written over w
    assert "backward first: uses w, a parameter, for dx" in objection(over, route)


def test_a_recomputation_does_not_bring_back_an_old_statistic() -> None:
    mean = tensor("mean", "state")
    first = Run("first", "forward", (Launch("f", (x, mean)),))
    second = Run("second", "forward", (Launch("g", (y, mean), (x,)),))
    use = forward("use", z, x)
    route = Plan((first, second, use))
    verify(held(*route.steps), route)
    again = held(first, second, Free(x), Alloc(x), first, use)
    found = objection(Plan((Alloc(x), *again.steps, Free(x))), route)
    assert "the end: mean holds mean of forward first" in found


# Tensors that stand for others


def renamed(run: Run, *pairs: tuple[Tensor, Tensor]) -> Run:
    """The run with tensors replaced by others."""
    names = dict(pairs)

    def new(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(names.get(t, t) for t in tensors)

    return run.with_work(
        tuple(
            replace(
                work,
                outputs=new(work.outputs),
                inputs=new(work.inputs),
                retained=new(work.retained),
            )
            for work in run.launches
        )
    )


def test_a_resident_tensor_is_not_read_for_another() -> None:
    v, labels = tensor("v", "momentum"), tensor("labels", "input")
    fore, make = forward("conv", x, w), backward("conv", dw, x, labels)
    step = Run("conv", "update", (Launch("sgd", (w, v), (dw,), updates=True),))
    route = Plan((fore, make, step))
    verify(held(*route.steps), route)
    for wrong, kind in ((labels, "input"), (v, "momentum"), (dw, "parameter_gradient")):
        swapped = held(renamed(fore, (w, wrong)), make, step)
        assert f"uses {wrong.name}, a {kind}, for w" in objection(swapped, route)
    # Nor where the route is unknown and the wrong run is a recomputation.
    again = held(*route.steps[:2], Free(x), Alloc(x), renamed(fore, (w, v)), step)
    assert "uses v, a momentum, for w" in objection(
        Plan((Alloc(x), *again.steps, Free(x)))
    )


def test_a_tensor_stands_only_for_one_of_its_shape_and_type() -> None:
    route = Plan((CONV, RELU, forward("gain", z, y)))
    a = tensor("a")

    def through(stand_in: Tensor) -> Plan:
        make, read = renamed(RELU, (y, stand_in)), forward("gain", z, stand_in)
        return held(CONV, make, read)

    verify(through(a), route)
    verify(through(tensor("gradient", "gradient")), route)
    for other, fault in (
        (Tensor("a", (32,)), "uses a, float32 (32,), for y, float32 (64,)"),
        (Tensor("a", (128,)), "uses a, float32 (128,), for y, float32 (64,)"),
        (Tensor("a", (8, 8)), "uses a, float32 (8, 8), for y"),
        (
            Tensor("a", (64,), dtype="int32"),
            "uses a, int32 (64,), for y, float32 (64,)",
        ),
        (Tensor("a", (64,), "workspace"), "uses a, a workspace, for y"),
        (dw, "uses dw, a parameter_gradient, for y"),
        (w, "uses w, a parameter, for y"),
    ):
        assert f"forward relu: {fault}" in objection(through(other), route)


def test_two_outputs_of_a_launch_are_two_tensors() -> None:
    two = Run("two", "forward", (Launch("f", (y, z), (x,)),))
    use = backward("use", dx, y)
    route = Plan((CONV, two, use))
    verify(held(*route.steps), route)
    one = held(CONV, renamed(two, (z, y)), use)
    assert "forward two: may not write over its output y" in objection(one, route)


def test_two_launches_may_write_one_tensor_if_the_first_is_not_read_again() -> None:
    two = Run("two", "forward", (Launch("f", (y,), (x,)), Launch("g", (z,), (x,))))
    for use, valid in ((backward("use", dx, z), True), (backward("use", dx, y), False)):
        route = Plan((CONV, two, use))
        one = held(CONV, renamed(two, (z, y)), renamed(use, (z, y)))
        if valid:
            verify(one, route)
        else:
            assert "reads y, which holds z of forward two, not y" in objection(
                one, route
            )


def test_a_sum_is_not_written_over_what_is_added_to_it() -> None:
    """An output that is updated is an input, too: y += x may not become x += x."""
    add = Run("add", "forward", (Launch("add", (y,), (x,), updates=True),))
    route = Plan((CONV, RELU, add))
    verify(held(*route.steps), route)
    found = objection(held(CONV, renamed(RELU, (y, x)), renamed(add, (y, x))), route)
    assert "forward relu: may not write over its input x" in found


def test_launches_with_another_geometry_are_objected_to() -> None:
    (launch,) = LOSS.launches
    for name, value in {
        "grid": (2,),
        "block": (128,),
        "portion": (0, 2),
        "flops": 1,
        "bytes_accessed": 1,
    }.items():
        other = LOSS.with_work((replace(launch, **{name: value}),))
        plan = held(*ROUTE.steps[:2], other, *ROUTE.steps[3:])
        assert "forward loss: has other kernels" in objection(plan, ROUTE)
    one, fraction = (
        LOSS.with_work((replace(launch, scalars=scalars),))
        for scalars in ((1,), (1.0,))
    )
    route = Plan((*ROUTE.steps[:2], one, *ROUTE.steps[3:]))
    plan = held(*ROUTE.steps[:2], fraction, *ROUTE.steps[3:])
    assert "forward loss: has other kernels" in objection(plan, route)


# Tensors that are written in portions


def portion(out: Tensor, source: Tensor, index: int, count: int = 2) -> Launch:
    return Launch("concat", (out,), (source,), (index,), portion=(index, count))


BOTH = Run("join", "forward", (portion(z, x, 0), portion(z, y, 1)))


def test_the_reader_of_a_whole_tensor_needs_all_its_portions() -> None:
    use = backward("use", dx, z)
    verify(held(CONV, RELU, BOTH, use), Plan((CONV, RELU, BOTH, use)))
    for work in (
        (portion(z, x, 0),),
        (portion(z, x, 0), portion(z, y, 0)),
        (portion(z, x, 0, 3), portion(z, y, 1, 3)),
        (portion(z, x, 0, 2), portion(z, y, 1, 3)),
    ):
        route = Plan((CONV, RELU, BOTH.with_work(work), use))
        assert "the route's steps[3], backward use: reads z, of which a portion" in (
            objection(held(*route.steps), route)
        )


def test_a_portion_leaves_the_others_as_they_are() -> None:
    """Two runs write a portion each; one whose tensor is lost is not enough."""
    left = Run("left", "forward", (portion(z, x, 0),))
    right = Run("right", "forward", (portion(z, y, 1),))
    use = backward("use", dx, z)
    route = Plan((CONV, RELU, left, right, use))
    verify(held(*route.steps), route)

    def again(*runs: Run) -> Plan:
        lost = (CONV, RELU, left, right, Free(z), Alloc(z), *runs, use)
        return Plan((Alloc(z), *held(*lost).steps, Free(z)))

    verify(again(left, right), route)
    verify(again(right, left), route)
    found = objection(again(left), route)
    assert (
        "backward use: reads z, which holds portions: z of forward left, nothing"
        in (found)
    )
    # A portion written over a whole value of another time.
    stale = renamed(right, (z, x))
    assert "may not write over" not in objection(held(CONV, RELU, left, stale), route)


def test_launches_of_portions_are_not_exchanged() -> None:
    use = backward("use", dx, z)
    route = Plan((CONV, RELU, BOTH, use))
    swapped = BOTH.with_work(BOTH.work[::-1])
    assert "forward join: has other kernels" in objection(
        held(CONV, RELU, swapped, use), route
    )
    both = renamed(BOTH, (y, x))
    assert "forward join: reads x, which holds x of forward conv, not y" in objection(
        held(CONV, RELU, both, use), route
    )


# Overwritten activations, and a batch that is split: no rules of their own


def test_a_gradient_may_overwrite_an_activation_that_is_read_no_more() -> None:
    """dx over x, once dw is computed: conv's data gradient does not read x."""
    filters = backward("conv.dw", dw, x, dy)
    data = backward("conv.dx", dx, w, dy)
    use = backward("use", dz, dx)
    fore, make = forward("conv2", y, x, w), backward("loss", dy, y)
    step = update("conv2", w, dw)
    route = Plan((CONV, fore, make, filters, data, use, step))
    over, used = renamed(data, (dx, x)), renamed(use, (dx, x))
    verify(held(CONV, fore, make, filters, over, used, step), route)
    early = Plan((CONV, fore, make, data, filters, use, step))
    found = objection(held(CONV, fore, make, over, filters, used, step), early)
    assert "backward conv.dw: reads x, which holds dx of backward conv.dx" in found


def test_a_split_batch_resumes_its_sums_in_their_order() -> None:
    """Two parts of a batch: tensors of their own, a joined y, a resumed sum dw."""
    x0, x1, y0, y1, dy0, dy1 = map(tensor, ("x0", "x1", "y0", "y1", "dy0", "dy1"))

    def part(number: int, x: Tensor, y: Tensor) -> Run:
        return Run(f"conv.{number}", "forward", (Launch("conv", (y,), (x, w)),))

    def filters(number: int, x: Tensor, dy: Tensor) -> Run:
        work = Launch("filter", (dw,), (x, dy), updates=number > 0)
        return Run(f"conv.{number}", "backward", (work,))

    parts = part(0, x0, y0), part(1, x1, y1)
    join = Run("join", "forward", (portion(z, y0, 0), portion(z, y1, 1)))
    split = Run(
        "split", "backward", (Launch("s", (dy0,), (z,)), Launch("s", (dy1,), (z,)))
    )
    sums = filters(0, x0, dy0), filters(1, x1, dy1)
    images = forward("images", x0), forward("images.1", x1)
    step = update("conv", w, dw)
    route = Plan((*images, *parts, join, split, *sums, step))
    verify(held(*route.steps), route)
    # y0 is freed and computed again before the join; parts take turns in one tensor.
    again = held(
        *images, *parts, Free(y0), Alloc(y0), parts[0], join, split, *sums, step
    )
    verify(Plan((Alloc(y0), *again.steps, Free(y0))), route)
    one = renamed(split, (dy1, dy0))
    for steps, fault in (
        ((*parts, join, split, sums[1], sums[0], step), "comes before backward conv.0"),
        (
            (*parts, join, split, sums[0], step),
            "update conv: reads dw, which holds dw of",
        ),
        ((*parts, join, one, sums[0], renamed(sums[1], (dy1, dy0)), step), "reads dy0"),
        ((*parts, renamed(join, (y1, y0)), split, *sums, step), "reads y0"),
    ):
        assert fault in objection(held(*images, *steps), route)


def test_a_convolution_has_the_workspace_its_algorithm_needs() -> None:
    bare, wide = scratch(0), scratch(256)

    def conv(chosen: Algorithm, workspace: Tensor | None) -> Run:
        choice = Choice("forward", y, (x, x), (bare, wide), chosen, workspace)
        return Run("relu", "forward", (choice,))

    route = Plan((CONV, conv(bare, None)))
    room, small = tensor("room", "workspace"), tensor("small", "workspace", 63)
    verify(held(*route.steps), route)
    verify(held(CONV, Alloc(room), conv(wide, room), Free(room)), route)
    for steps, fault in (
        ((conv(wide, None),), "needs a workspace of 256 bytes"),
        ((conv(wide, room),), "uses room, which is not allocated"),
        ((Alloc(small), conv(wide, small), Free(small)), "256 bytes, small has 252"),
        ((conv(scratch(0), None),), "cannot run by scratch0"),
        ((conv(wide, x),), "forward relu: reads or writes x, which is its workspace"),
        (
            (Alloc(z), conv(wide, y), Free(z)),
            "forward relu: reads or writes y, which is its workspace",
        ),
    ):
        assert fault in objection(held(CONV, *steps), route)
    other, use = forward("other", z, x), backward("other", dx, z)
    route = Plan((CONV, other, conv(bare, None), use))
    found = objection(held(CONV, other, conv(wide, z), use), route)
    assert "backward other: reads z, which has no value" in found


def test_a_rerun_sums_in_the_order_of_the_first() -> None:
    taps, tiles = scratch(0), scratch(0, "winograd")

    def conv(chosen: Algorithm) -> Run:
        choice = Choice("forward", y, (x, x), (taps, tiles), chosen)
        return Run("conv2", "forward", (choice,))

    use = backward("loss", dx, y)
    route = Plan((CONV, conv(taps), use))

    def plan(first: Algorithm, second: Algorithm) -> Plan:
        lost = (Alloc(y), conv(first), Free(y), Alloc(y), conv(second), use, Free(y))
        return held(CONV, *lost)

    verify(plan(taps, taps), route)
    verify(plan(tiles, tiles), route)
    assert "forward conv2: sums in another order" in objection(plan(taps, tiles), route)


def test_addresses_are_aligned_in_the_slab_and_apart() -> None:
    def at(first: int | None, second: int | None) -> Plan:
        allocs = Alloc(x, first), Alloc(y, second)
        return Plan((*allocs, CONV, RELU, Free(x), Free(y)))

    verify(at(None, None))
    verify(at(0, 256), slab=512)
    verify(at(256, 0), slab=512)
    for plan, fault in (
        (at(0, 0), "alloc y: overlaps x"),
        (at(0, 128), "alloc y: at 128: not a multiple of 256"),
        (at(-256, 0), "alloc x: at -256"),
        (at(0, 512), "alloc y: ends at 768, the slab at 512"),
        (at(0, None), "alloc y: has no address"),
        (at(None, None), "alloc x: has no address"),
    ):
        assert fault in objection(plan, slab=512)
    for mixed in at(0, None), at(None, 0):  # wrong without a slab, too
        assert "has no address" in objection(mixed)
    wide = tensor("x", items=128)  # 512 bytes
    for first, second in ((0, 256), (256, 512), (256, 256)):
        make, read = forward("conv", wide), forward("relu", y, wide)
        allocs = Alloc(wide, first), Alloc(y, second)
        for pair in allocs, allocs[::-1]:
            steps = (*pair, make, read, Free(wide), Free(y))
            assert "overlaps" in objection(Plan(steps))


def test_bytes_stay_under_the_capacities() -> None:
    plan = schedule(route_of(random_net(3)), PRESETS["superneurons"])
    peak, kept = max(memory(plan, workspace=True)), max(host_memory(plan))
    assert kept > 0
    verify(plan, capacity=peak, host_capacity=kept)
    assert "bytes on the device" in objection(plan, capacity=peak - 1)
    assert "bytes on the host" in objection(plan, host_capacity=kept - 1)
    assert "0 allowed" in objection(plan, capacity=0)
    assert "0 allowed" in objection(plan, host_capacity=0)
    assert "the slab at 0" in objection(plan, slab=0)
