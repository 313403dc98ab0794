"""The pool: addresses that never overlap, first fit, holes that merge."""

import random

import pytest

from snref.scheduler.slab import Fit, Pool


def test_first_fit_takes_the_lowest_hole_and_last_fit_the_highest() -> None:
    def with_holes() -> Pool:
        pool = Pool(slab=10 * 1024)
        offsets = [pool.allocate(blocks * 1024) for blocks in (3, 1, 1, 1, 4)]
        assert offsets == [0, 3072, 4096, 5120, 6144]
        pool.free(0)  # a hole of three blocks, then one of one
        pool.free(4096)
        return pool

    assert with_holes().allocate(1024) == 0
    assert with_holes().allocate(1024, fit="last") == 4096
    assert with_holes().allocate(1025, fit="last") == 1024
    assert with_holes().allocate(4096) is None


def test_sizes_are_rounded_up_to_whole_blocks_and_an_odd_slab_down() -> None:
    pool = Pool(slab=1000, block=256)
    assert [pool.allocate(n) for n in (1, 257, 1)] == [0, 256, None]
    assert pool.largest_hole == 0


def test_neighbouring_holes_become_one_in_whatever_order_they_are_freed() -> None:
    for seed in range(20):
        pool = Pool(slab=64 * 256, block=256)
        offsets = [pool.allocate(256) for _ in range(64)]
        random.Random(seed).shuffle(offsets)
        for offset in offsets:
            assert offset is not None
            pool.free(offset)
        assert pool.largest_hole == 64 * 256


def test_what_is_not_allocated_cannot_be_freed() -> None:
    pool = Pool(slab=4096)
    pool.allocate(1024)
    pool.free(0)
    for offset in (0, 512, 1024):
        with pytest.raises(ValueError, match=f"offset {offset}"):
            pool.free(offset)


def test_a_pool_of_nonsense_is_refused() -> None:
    for slab, block in ((-1, 1024), (4096, 0)):
        with pytest.raises(ValueError, match=f"{slab} bytes in blocks of {block}"):
            Pool(slab, block)


def test_the_least_sizes_that_mean_something_are_taken() -> None:
    assert Pool(slab=0).allocate(0) is None
    pool = Pool(slab=1024)
    with pytest.raises(ValueError, match="-1 bytes"):
        pool.allocate(-1)
    assert pool.allocate(0) == 0  # a block, so that its address is its own
    assert pool.largest_hole == 0


def test_take_gets_exactly_the_place_it_names() -> None:
    pool = Pool(slab=4 * 256, block=256)
    assert pool.take(256, 256)
    assert not pool.take(0, 512)  # runs into what was taken
    assert not pool.take(256, 256)
    assert not pool.take(768, 512)  # runs over the end
    assert [pool.allocate(n) for n in (512, 256, 256)] == [512, 0, None]
    pool.free(256)
    assert pool.take(256, 256)


@pytest.mark.parametrize("slab", [None, 1 << 20])
@pytest.mark.parametrize("block", [256, 1024])
def test_random_use_agrees_with_an_obvious_pool(slab: int | None, block: int) -> None:
    """The obvious pool looks for the gaps between what is allocated, every time."""
    draw = random.Random(f"{slab} {block}")
    pool = Pool(slab, block)
    there: dict[int, int] = {}  # offset -> bytes, in whole blocks
    refused = 0
    for _ in range(1500):
        if there and draw.random() < 0.45:
            offset = draw.choice(list(there))
            pool.free(offset)
            del there[offset]
        else:
            nbytes = draw.randint(1, 40_000)
            size = -(-nbytes // block) * block
            fit: Fit = "first" if slab is None else draw.choice(FITS)
            found = pool.allocate(nbytes, fit)
            assert found == choose(gaps(there, slab or 1 << 40), size, fit)
            if found is None:
                refused += 1
                continue
            there[found] = size
        if slab is not None:
            sizes = [end - start for start, end in gaps(there, slab)]
            assert pool.largest_hole == max(sizes, default=0)
    assert (refused > 0) == (slab is not None)


FITS: list[Fit] = ["first", "last"]


def gaps(there: dict[int, int], slab: int) -> list[tuple[int, int]]:
    """(start, end) of what is not allocated, in address order."""
    starts = sorted(there)
    ends = [0] + [start + there[start] for start in starts]
    return [(e, s) for e, s in zip(ends, [*starts, slab], strict=True) if e < s]


def choose(holes: list[tuple[int, int]], size: int, fit: Fit) -> int | None:
    """The address that each kind of fit is documented to give."""
    fitting = [(start, end) for start, end in holes if end - start >= size]
    if not fitting:
        return None
    match fit:
        case "first":
            return min(start for start, _ in fitting)
        case "last":
            return max(end for _, end in fitting) - size


def test_what_a_pool_cannot_do_is_refused() -> None:
    with pytest.raises(ValueError, match="-5 bytes: must be >= 0"):
        Pool(4096).allocate(-5)
    with pytest.raises(ValueError, match="needs a slab with an end"):
        Pool(None).allocate(5, "last")
    with pytest.raises(ValueError, match="offset 5: must be a multiple of 1024"):
        Pool(4096).take(5, 5)
