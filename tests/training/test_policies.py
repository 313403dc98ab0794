"""Other systems' plans keep the contract, too: they train to the baseline's bits."""

from importlib import import_module

import pytest
from small_nets import FAMILIES

from snref.planning.planned import plan
from snref.plans import OutOfMemory, extent, lower_bound
from snref.policies import POLICIES

from .test_contract import assert_the_same_bits, ended

checkmate = import_module("snref.policies.checkmate")  # the package has its function


def check(family, policy, shares):
    """Train a policy's plans from the lower bound to what it takes without a limit."""
    net = FAMILIES[family](2)
    free = plan(net, policy=policy)
    fixed, bound = sum(free.resident.values()), lower_bound(free.plan)
    plans = {str(free.plan): free}
    for share in shares:
        budget = fixed + bound + int(share * (extent(free.plan) - bound))
        try:
            planned = plan(net, policy=policy, memory=budget)
        except OutOfMemory as error:
            planned = plan(net, policy=policy, memory=error.least)
        plans[str(planned.plan)] = planned
    baseline = ended(plan(net, preset="baseline"))
    for planned in plans.values():
        what = f"{family}, {policy} in {planned.memory} bytes"
        assert_the_same_bits(ended(planned), baseline, what)


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "checkmate"])
def test_a_policys_plans_train_to_the_bits_of_the_baseline(policy):
    check("resnet", policy, (0.3,))


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("family", FAMILIES)
def test_so_they_do_for_every_family_of_nets_and_in_less_memory(
    family, policy, monkeypatch
):
    monkeypatch.setattr(checkmate, "SECONDS", 2.0)  # any plan will do
    check(family, policy, (0.3,) if policy == "checkmate" else (0.6, 0.3, 0.0))
