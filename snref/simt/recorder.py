"""What the code generated for `profile` calls: notes of a run, settled warp by warp."""

# mypy: ignore-errors

from numba import njit, types
from numba.extending import overload

SECTOR, BANKS, WARP = 32, 32, 32  # bytes; columns of 4 bytes; threads
LOAD, STORE, SHARED, BRANCH = 0, 1, 2, 3  # what a site is
ROUNDS = 64  # times a thread may come to a place in one run; later ones count alone


@njit(forceinline=True)
def note(where, seen, site, t, place):
    """Note that thread t accesses this element at this site."""
    time = seen[site, t]
    if time < ROUNDS:
        where[site, time, t] = place + 1  # 0: not here
    seen[site, t] = time + 1
    return place


@njit(forceinline=True)
def branch(where, seen, site, t, taken):
    """Note which way thread t goes."""
    note(where, seen, site, t, 1 if taken else 0)
    return taken


def flop(value, counts, line, times):
    """The value; counts as an operation if it is a floating-point number."""
    raise NotImplementedError("compiled code only")


@overload(flop)
def _flop(value, counts, line, times):
    if isinstance(value, types.Float):

        def count(value, counts, line, times):
            counts[line] += times
            return value

        return count
    if isinstance(value, types.Array) and isinstance(value.dtype, types.Float):

        def count_each(value, counts, line, times):
            counts[line] += times * value.size
            return value

        return count_each
    return lambda value, counts, line, times: value


@njit
def settle(where, seen, kinds, sizes, counts, first, last):
    """Count what was noted at these sites, and forget it."""
    threads = seen.shape[1]
    for site in range(first, last):
        for start in range(0, threads, WARP):
            end = min(start + WARP, threads)
            rounds = 0
            for t in range(start, end):
                rounds = max(rounds, seen[site, t])
                counts[site, 0] += max(seen[site, t] - ROUNDS, 0)
                counts[site, 1] += max(seen[site, t] - ROUNDS, 0)
                seen[site, t] = 0
            for time in range(min(rounds, ROUNDS)):
                warp = where[site, time, start:end]
                counts[site, 0] += 1
                if kinds[site] == BRANCH:
                    counts[site, 1] += both_ways(warp)
                elif kinds[site] == SHARED:
                    counts[site, 1] += passes(warp, sizes[site])
                else:
                    counts[site, 1] += sectors(warp, sizes[site])
                warp[:] = 0


@njit
def both_ways(warp):
    """Do some of these threads branch, and some not?"""
    some, others = False, False
    for n in warp:
        some |= n == 2
        others |= n == 1
    return some and others


@njit
def new(warp, lane, size, unit):
    """Is this lane the first in its unit of bytes?"""
    if warp[lane] == 0:
        return False
    mine = (warp[lane] - 1) * size // unit
    for other in range(lane):
        if warp[other] and (warp[other] - 1) * size // unit == mine:
            return False
    return True


@njit
def sectors(warp, size):
    """How many sectors of global memory do these elements lie in?"""
    count = 0
    for lane in range(warp.size):
        count += new(warp, lane, size, SECTOR)
    return count


@njit
def passes(warp, size):
    """How often must shared memory be asked: once, and once more for each conflict.

    Elements of 8 bytes are served to half a warp at a time, of 16 bytes to a quarter.
    """
    lanes = WARP // max(size // 4, 1)
    conflicts = 0
    for first in range(0, warp.size, lanes):
        conflicts += max(most_of_one_bank(warp[first : first + lanes], size) - 1, 0)
    return 1 + conflicts


@njit
def most_of_one_bank(warp, size):
    """The most words that these lanes want of one bank."""
    most = 0
    for bank in range(BANKS):
        words = 0
        for lane in range(warp.size):
            if warp[lane] and new(warp, lane, size, max(size, 4)):
                start = (warp[lane] - 1) * size // 4
                words += (bank - start) % BANKS < max(size // 4, 1)
        most = max(most, words)
    return most
