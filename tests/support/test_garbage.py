"""Garbage collection pauses for as long as anybody needs it, and no longer."""

import gc
import threading

import pytest

from snref.support.garbage import no_garbage_collection


@pytest.fixture(autouse=True)
def collecting():
    gc.enable()
    yield
    gc.enable()


def test_pauses_may_be_nested():
    with no_garbage_collection():
        with no_garbage_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_who_had_none_gets_none():
    gc.disable()
    with no_garbage_collection():
        pass
    assert not gc.isenabled()


def test_pauses_of_two_threads_may_overlap():
    entered, leave = threading.Event(), threading.Event()

    def other():
        with no_garbage_collection():
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=other)
    with no_garbage_collection():
        thread.start()
        assert entered.wait(60)
    assert not gc.isenabled()  # the other's is still under way
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_a_failure_ends_the_pause():
    with pytest.raises(ValueError), no_garbage_collection():
        raise ValueError
    assert gc.isenabled()


def test_what_a_pause_left_is_not_looked_at_before_the_next_full_collection():
    with no_garbage_collection():
        kept = [[] for _ in range(10_000)]
    young = {id(thing) for thing in (*gc.get_objects(0), *gc.get_objects(1))}
    assert not any(id(thing) in young for thing in kept)


def test_objects_that_a_program_froze_stay_frozen():
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with no_garbage_collection():
            pass
        assert gc.get_freeze_count() == frozen > 0
    finally:
        gc.unfreeze()
