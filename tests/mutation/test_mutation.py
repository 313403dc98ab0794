"""The tests catch what is wrong with the code: 95 of 100 mutants of it."""

import ast
import os

import pytest

from .mutants import KINDS, ROOMS, ROOT, drawn, equivalents, report, run_all


def test_every_kind_of_mutant_is_drawn_from_every_room_and_parses():
    mutants = drawn(200, seed=1)
    assert len(mutants) == len({mutant.name for mutant in mutants}) == 200
    for mutant in mutants:
        text = (ROOT / mutant.path).read_text("utf-8")
        assert text[mutant.start : mutant.stop] == mutant.old
        ast.parse(text[: mutant.start] + mutant.new + text[mutant.stop :])
    assert {mutant.room for mutant in mutants} == ROOMS.keys()
    assert {mutant.kind for mutant in mutants} == {*KINDS}
    assert drawn(50, seed=2) == drawn(50, seed=2) != drawn(50, seed=3)


def test_at_most_twenty_mutants_are_argued_equivalent_each_with_a_reason():
    known = equivalents()
    assert len(known) <= 20
    assert all(len(reason) > 20 for reason in known.values())


@pytest.mark.full
def test_of_two_hundred_mutants_the_default_tests_catch_all_but_five_in_a_hundred():
    """Hours on two cores; ``python -m tests.mutation.mutants`` says which are left."""
    results = [*run_all(drawn(200, seed=1), os.cpu_count() or 1, everything=True)]
    print(report(results))
    known = equivalents()
    counted = [r for r in results if r.by or r.mutant.name not in known]
    assert sum(bool(r.by) for r in counted) >= 0.95 * len(counted)
