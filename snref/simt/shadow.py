"""What the code generated for check mode calls: looks at the shadow words of elements.

Plain functions of shadow words and numbers, so that Numba compiles each of them once
and not for every type of array. Generated code reads an element of a checked array as

    s_flat[saw(s_shadow, inside2(y, x, 16, 16, report), me, begin, since, int64(7),
               fences, report)]

`begin` is the first word of the running block, so a smaller one is of another block (or
of none), and `since` the first one after its last barrier. `array` is the number of the
array, twice, plus 1 if it is the block's own and so empty when the block begins.
int64(7) and not 7: Numba would compile a function anew for every constant.
"""

# mypy: ignore-errors

from numba import int64, njit, types
from numba.extending import overload

from snref.simt.runtime import u

SITE, EPOCH, BLOCK = 13, 23, 44  # the lowest bit of each field; below them:
THREAD, ATOMIC, WARP, MANY = 1023, 1024, 2048, 4096  # its number; it is atomic; several
# threads of its warp; of several warps
OTHERS = 1 << 62  # in a read word: another block has read it, too
GIVEN, NEVER = 0, -1  # instead of a write word: by the host; not at all
BOUNDS, UNSET, RAW, WAW, WAR, UNASSIGNED, LANES, EXITED = 1, 2, 3, 4, 5, 6, 7, 8
KIND, ME, OTHER, ARRAY, INDEX = 0, 1, 2, 3, 4  # columns of a finding in the report
# Columns of its first row: findings; an index outside of its array; has the block done
# an atomic operation on global memory? may threads return before a barrier? how often
# did a mask name absent threads? which thread, plus 1, took a lock last?
COUNT, OUTSIDE, ACQUIRED, MAY_EXIT, ABSENT, HOLDER = 0, 1, 6, 7, 8, 9
ROWS, COLUMNS = 33, 10  # of the report


@njit(forceinline=True)
def wrap(i, n):
    """The place of element i of n, from the end if it is one of them."""
    return i + n if -n <= i < 0 else i


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
    report[0, OUTSIDE], report[0, OUTSIDE + 1], report[0, OUTSIDE + 2] = i, j, k
    report[0, OUTSIDE + 3], report[0, OUTSIDE + 4] = h, g
    return -1


@njit
def site(word):
    """The number of the access in the kernel's text."""
    return word >> SITE & (1 << EPOCH - SITE) - 1


@njit
def note(report, kind, me, other, array, at):
    """Add a finding, once for each pair of places in the text.

    A read of nothing (or an atomic operation on it) whose element another thread then
    writes before the next barrier is a race: what is missing is the barrier, not the
    write.
    """
    count = report[0, COUNT]
    row = count + 1
    for r in range(1, count + 1):
        same = report[r, ARRAY] == array
        late = kind in (WAR, WAW)
        if late and report[r, KIND] == UNSET and same and report[r, INDEX] == at:
            row = r
            break
        same = same and site(report[r, ME]) == site(me)
        if same and report[r, KIND] == kind and site(report[r, OTHER]) == site(other):
            return
    if row == len(report):
        return
    report[0, COUNT] = max(count, row)
    report[row, KIND], report[row, ME], report[row, OTHER] = kind, me, other
    report[row, ARRAY], report[row, INDEX] = array, at
    if at < 0:
        for d in range(5):
            report[row, INDEX + d] = report[0, OUTSIDE + d]


@njit(forceinline=True)
def warp(word):
    return (word & THREAD) >> 5


@njit(forceinline=True)
def clash(was, me, since):
    """Does nothing order these accesses of threads of a block?

    A barrier orders all of them, a barrier of the warp (which begins an epoch, too)
    those of its threads only.
    """
    if was < since:
        return False
    if was & MANY or warp(was) != warp(me):
        return True
    if was >> EPOCH < me >> EPOCH:
        return False
    return was & WARP != 0 or (was ^ me) & THREAD != 0


@njit(forceinline=True)
def together(was, me, since):
    """The word for two accesses of the same kind: it clashes with what either does."""
    if was < since:
        return me
    if was & MANY or warp(was) != warp(me):
        return me | MANY
    same_epoch = was >> EPOCH == me >> EPOCH
    return me | WARP if same_epoch and (was & WARP or (was ^ me) & THREAD) else me


@njit
def handed_over(was, fences, report):
    """Did a fence follow this access in its block, and an atomic operation tell this
    block so? Thus the last block may read what the others wrote."""
    block = (was >> BLOCK & (1 << 62 - BLOCK) - 1) - 1
    return report[0, ACQUIRED] == 1 and was <= fences[block]


@njit
def passed_on(was, me, fences, report):
    """Did a fence of its thread follow this access of the block, and has this thread
    taken a lock? Thus one that holds a lock may change what another has changed."""
    alone = not was & (MANY | WARP) and report[0, HOLDER] == (me & THREAD) + 1
    return alone and was <= fences[fences.size - 1 - (was & THREAD)]


@njit(forceinline=True)
def unordered(was, me, since, fences, report):
    """Does nothing order these accesses of threads of a block, not even a lock?"""
    return clash(was, me, since) and not passed_on(was, me, fences, report)


@njit(forceinline=True)
def saw(cells, at, me, begin, since, array, fences, report):
    """Check and note a read; the number of the element."""
    if at < 0:
        note(report, int64(BOUNDS), me, me, array, at)
        return int64(0)
    private = array & 1 == 1
    was = cells[u(at), 0]
    if was < begin:
        if private or was == NEVER:
            note(report, int64(UNSET), me, me, array, at)
        elif (
            was != GIVEN
            and not was & me & ATOMIC
            and not handed_over(was, fences, report)
        ):
            note(report, int64(RAW), me, was, array, at)
    elif unordered(was, me, since, fences, report) and not was & me & ATOMIC:
        note(report, int64(RAW), me, was, array, at)
    before = cells[u(at), 1]
    last = before & ~OTHERS
    now = me
    if unordered(last, me, since, fences, report):
        now = together(last, me, since)
    others = before > last
    if 0 < last < begin and not others:
        others = not handed_over(last, fences, report)
    if others and not private:
        now = now | OTHERS
    cells[u(at), 1] = now
    return at


@njit(forceinline=True)
def wrote(cells, at, me, begin, since, array, fences, report, same):
    """Check and note a write, of the `same` value as is there or another; the number of
    the element, or -1."""
    if at < 0:
        note(report, int64(BOUNDS), me, me, array, at)
        return int64(-1)
    private = array & 1 == 1
    was, before = cells[u(at), 0], cells[u(at), 1]
    last = before & ~OTHERS
    foreign = not private and (before > last or 0 < last < begin)
    if foreign and last < begin:
        foreign = not handed_over(last, fences, report)
    foreign = foreign or unordered(last, me, since, fences, report)
    if foreign and not last & me & ATOMIC:
        note(report, int64(WAR), me, last, array, at)
    foreign = not private and 0 < was < begin
    if foreign:
        foreign = not handed_over(was, fences, report)
    foreign = foreign or unordered(was, me, since, fences, report)
    if foreign and not was & me & ATOMIC and not same:
        note(report, int64(WAW), me, was, array, at)
    cells[u(at), 0] = together(was, me, since) if same else me
    return at


@njit
def changed(cells, at, me, begin, since, array, fences, report):
    """Check and note an atomic operation; may it take place?

    The word it leaves is that of the access which clashes with more: the thread's own
    plain write stays, and atomics of others make it one of several threads.
    """
    me = me | ATOMIC
    if at < 0:
        note(report, int64(BOUNDS), me, me, array, at)
        return False
    private = array & 1 == 1
    was = cells[at, 0]
    if was == NEVER or (private and was < begin):
        note(report, int64(UNSET), me, me, array, at)
    wrote(cells, at, me, begin, since, array, fences, report, False)
    if not private:
        report[0, ACQUIRED] = 1
    if was >= since:
        cells[at, 0] = together(was, me, since) if was & ATOMIC else was
    elif not private and was > 0 and was & ATOMIC and (was < begin or was & MANY):
        cells[at, 0] = me | MANY  # no barrier orders other blocks
    return True


@njit
def took(cells, at, me, begin, since, array, fences, report):
    """The same, of an operation that may take a lock."""
    report[0, HOLDER] = (me & THREAD) + 1
    return changed(cells, at, me, begin, since, array, fences, report)


@njit
def fence(fences, now, t):
    """Note that others see from here on what the thread and its block have done.

    `fences` has a word for each block and, from the end, for each thread of this one.
    """
    word = now | (1 << EPOCH) - 1
    fences[(now >> BLOCK) - 1] = fences[fences.size - 1 - t] = word


def same(flat, at, value):
    """Does the element hold this value already? Compiled code only."""
    raise NotImplementedError


@overload(same)
def _same(flat, at, value):
    if isinstance(flat.dtype, types.Record):  # which Numba does not compare
        return lambda flat, at, value: False
    return lambda flat, at, value: at >= 0 and flat[u(at)] == flat.dtype.type(value)


@njit
def arrived(here, t):
    """Note that thread t takes part in the next barrier, of its block or warp."""
    here[t] = True


@njit
def present(here, me, report):
    """Check that every thread of the block takes part in the barrier."""
    for t in range(here.size):
        if not here[t] and report[0, MAY_EXIT] == 0:
            note(report, int64(EXITED), me + t, me + t, int64(-1), int64(0))
            break
    here[:] = False


@njit
def lanes(here, mask, me, report):
    """Check, of warps that take part, that the mask names no thread that does not."""
    for first in range(0, here.size, 32):
        some, missing = int64(-1), False
        for lane in range(min(32, here.size - first)):
            if here[first + lane]:
                some = first + lane
            elif mask >> lane & 1:
                missing = True
            here[first + lane] = False
        if some >= 0 and missing:
            report[0, ABSENT] += 1
            note(report, int64(LANES), me + some, me + some, int64(-1), int64(0))
