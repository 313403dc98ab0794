"""verify accepts plans that were made by hand, with nothing of the scheduler."""

import pytest

from snref.net import route as route_of
from snref.nets import find
from snref.plans import InvalidPlan, Plan, Run, memory
from snref.plans.verification import verify

from . import symbolic
from .planners import PLANNERS, belady, keep_all, largest_working_set, recompute_all

SMALL = "lenet", "random:3", "random:8"  # in memory: the second judge goes through it
NETS = (*SMALL, "alexnet", "vgg16", "resnet:2,2,2,2", "unet", "gpt2")
DEEP = "densenet121", "inception_v4"


def route(name, declarations):
    return route_of(find(name, batch=1).with_options(declarations))


def check(name, planner, declarations):
    whole = route(name, declarations)
    plan = PLANNERS[planner](whole)
    verify(plan, whole)
    assert max(memory(plan)) <= max(memory(keep_all(whole)))
    if name in SMALL:
        assert symbolic.objection(plan, whole) is None


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("declarations", ["original", "lean"])
def test_a_plan_made_by_hand_is_accepted(name, planner, declarations):
    check(name, planner, declarations)


@pytest.mark.slow
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("name", DEEP)
def test_so_is_one_for_a_deep_net(name, planner):
    check(name, planner, "lean")


@pytest.mark.parametrize("name", NETS)
def test_the_planners_do_what_they_are_called(name):
    whole = route(name, "lean")
    assert max(memory(belady(whole))) <= largest_working_set(whole)
    runs = [step for step in recompute_all(whole).steps if isinstance(step, Run)]
    assert len(runs) > len(whole.steps)


def test_a_plan_by_hand_that_forgets_a_recomputation_is_refused():
    whole = route("random:3", "lean")
    steps = recompute_all(whole).steps
    again = next(
        i for i, step in enumerate(steps) if isinstance(step, Run) and step in steps[:i]
    )
    with pytest.raises(InvalidPlan, match="reads"):
        verify(Plan((*steps[:again], *steps[again + 1 :])), whole)
