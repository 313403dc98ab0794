"""What the code generated for check mode calls: looks at the shadow words of elements.

Plain functions of shadow words and numbers, so that Numba compiles each of them once
and not for every type of array. Generated code reads an element of a checked array as

    s_flat[saw(s_shadow, inside2(y, x, 16, 16, report), me, first, int64(7), report)]

`first` is the first word of the running block, so a smaller one is of another block
(or of none). `array` is the number of the array, twice, plus 1 if it is the block's own
and so empty when the block begins. int64(7) and not 7: Numba would compile a function
anew for every constant.
"""

# mypy: ignore-errors

from numba import int64, njit

from snref.simt.runtime import u

SITE, EPOCH, BLOCK = 12, 22, 44  # the lowest bit of each field; below them:
THREAD, ATOMIC, MANY = 1023, 1024, 2048  # its number; it is atomic; several threads
OTHERS = 1 << 62  # of a read word: another block has read it, too
GIVEN, NEVER = 0, -1  # instead of a write word: by the host; not at all
BOUNDS, UNSET, RAW, WAW, WAR = 1, 2, 3, 4, 5
KIND, ME, OTHER, ARRAY, INDEX = 0, 1, 2, 3, 4  # places in a report


@njit(forceinline=True)
def inside1(i, n, report):
    """The number of element [i] of an array of n; -1 if there is none."""
    if 0 <= i < n:
        return i
    return outside(report, i, i, i, i, i)


@njit(forceinline=True)
def inside2(i, j, n, m, report):
    if 0 <= i < n and 0 <= j < m:
        return i * m + j
    return outside(report, i, j, i, i, i)


@njit(forceinline=True)
def inside3(i, j, k, n, m, p, report):
    if 0 <= i < n and 0 <= j < m and 0 <= k < p:
        return (i * m + j) * p + k
    return outside(report, i, j, k, i, i)


@njit(forceinline=True)
def inside4(i, j, k, h, n, m, p, q, report):
    if 0 <= i < n and 0 <= j < m and 0 <= k < p and 0 <= h < q:
        return ((i * m + j) * p + k) * q + h
    return outside(report, i, j, k, h, i)


@njit(forceinline=True)
def inside5(i, j, k, h, g, n, m, p, q, r, report):
    if 0 <= i < n and 0 <= j < m and 0 <= k < p and 0 <= h < q and 0 <= g < r:
        return (((i * m + j) * p + k) * q + h) * r + g
    return outside(report, i, j, k, h, g)


@njit
def outside(report, i, j, k, h, g):
    """Keep the index for the report."""
    if report[KIND] == 0:
        report[INDEX], report[INDEX + 1], report[INDEX + 2] = i, j, k
        report[INDEX + 3], report[INDEX + 4] = h, g
    return -1


@njit
def note(report, kind, me, other, array, at):
    """Keep the first problem, with the number of the element.

    A read of nothing whose element another thread then writes before the next barrier
    is a race: what is missing is the barrier, not the write.
    """
    unset = report[KIND] == UNSET and kind == WAR
    raced = unset and report[ARRAY] == array and report[INDEX] == at
    if report[KIND] == 0 or raced:
        if at < 0:
            kind = BOUNDS
        else:
            report[INDEX] = at
        report[KIND], report[ME], report[OTHER], report[ARRAY] = kind, me, other, array


@njit(forceinline=True)
def clash(was, me):
    """Are these accesses of different threads of a block in one epoch?"""
    apart = was ^ me
    return (apart >> EPOCH == 0) & (apart & (THREAD | MANY) != 0)


@njit(forceinline=True)
def saw(cells, at, me, first, array, report):
    """Check and note a read; the number of the element."""
    if at < 0:
        note(report, int64(BOUNDS), me, me, array, at)
        return int64(0)
    private = array & 1 == 1
    was = cells[u(at), 0]
    foreign = (was < first) & (private | (was != GIVEN))
    if foreign | clash(was, me):
        unset = foreign & (private | (was == NEVER))
        note(report, int64(UNSET if unset else RAW), me, was, array, at)
    before = cells[u(at), 1]
    last = before & ~OTHERS
    now = me | MANY if clash(last, me) else me
    if not private:
        others = (before > last) | ((last > 0) & (last < first))
        now = now | OTHERS if others else now
    cells[u(at), 1] = now
    return at


@njit(forceinline=True)
def wrote(cells, at, me, first, array, report):
    """Check and note a write; the number of the element, or -1."""
    if at < 0:
        note(report, int64(BOUNDS), me, me, array, at)
        return int64(-1)
    private = array & 1 == 1
    was, before = cells[u(at), 0], cells[u(at), 1]
    last = before & ~OTHERS
    foreign = (not private) & ((before > last) | ((last > 0) & (last < first)))
    if foreign | clash(last, me):
        note(report, int64(WAR), me, last, array, at)
    foreign = (not private) & (was > 0) & (was < first)
    if (foreign | clash(was, me)) and was & me & ATOMIC == 0:
        note(report, int64(WAW), me, was, array, at)
    cells[u(at), 0] = me
    return at


@njit
def changed(cells, at, me, first, array, report):
    """Check and note an atomic operation; may it take place?

    The word it leaves is that of the access which clashes with more: the thread's own
    plain write stays, and atomics of others make it one of several threads.
    """
    me = me | ATOMIC
    if at < 0:
        return wrote(cells, at, me, first, array, report) >= 0
    private = array & 1 == 1
    was = cells[at, 0]
    if was == NEVER or (private and was < first):
        note(report, int64(UNSET), me, me, array, at)
    wrote(cells, at, me, first, array, report)
    if (was ^ me) >> EPOCH == 0:  # since the last barrier of this block
        if was & ATOMIC == 0:
            cells[at, 0] = was
        elif clash(was, me):
            cells[at, 0] = me | MANY
    elif not private and was & ATOMIC and (was < first or was & MANY):
        cells[at, 0] = me | MANY  # no barrier orders other blocks
    return True
