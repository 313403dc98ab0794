"""Manual, "Examples": clicks divided into sessions.

The grid synchronises inside a condition that differs between threads. It ends the
kernel, so the others have returned; check mode says so.
"""

import numpy as np
from numba import cuda

TIMEOUT = np.int64(np.timedelta64(3600, "s"))

users = np.repeat([1, 2, 3, 4], [6, 3, 10, 9])
times = np.concatenate(
    [
        [1, 2, 3, 5000, 5001, 5002],
        [1, 2, 3],
        [1, 2, 5000, 5001, 10000, 10001, 10002, 10003, 15000, 150001],
        [1, 5000, 50001, 15000, 20000, 25000, 25001, 25002, 25003],
    ]
)


@cuda.jit
def sessionize(user, time, session):
    i = cuda.grid(1)
    size = len(user)
    if i >= size:
        return
    first = i == 0
    if not first:
        boundary = user[i] != user[i - 1] or time[i] - time[i - 1] > TIMEOUT
    else:
        boundary = True
    if boundary:
        session[i] = i
        grid = cuda.cg.this_grid()
        grid.sync()
        ahead = 1
        while session[i + ahead] == 0:
            session[i + ahead] = i
            ahead += 1
            if i + ahead == size - 1:
                session[i + ahead] = i
                break


session = cuda.to_device(np.zeros(len(users)))
sessionize.forall(len(users))(cuda.to_device(users), cuda.to_device(times), session)
starts = np.append(True, (np.diff(users) != 0) | (np.diff(times) > TIMEOUT))
expected = np.maximum.accumulate(np.where(starts, np.arange(len(users)), 0))
assert (session.copy_to_host() == expected).all()
