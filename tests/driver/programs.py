"""Random programs of alloc, copy, launch and free on the stand-in and on the CPU.

    python tests/driver/stand_in.py tests/driver/programs.py COUNT

Each program must end in the same bits, without a race and without a fault, however the
streams are ordered. Then a wait is dropped or misplaced in the device's own text, and
some program must notice. Prints both as JSON.
"""

import json
import os
import random
import sys
from pathlib import Path

import numpy as np

from snref.device import cuda, order
from snref.device.cpu import CPU
from snref.plans import Alloc, Free, Launch, Offload, Plan, Prefetch, Run, Tensor
from snref.training import execution
from tests.driver import races, stand_in

PLACES = [0, 1024, 2048, 512, 1536]  # of tensors of 1024 bytes, so that some overlap
SLAB = 3072
SCHEDULED = [Tensor(f"t{i}", (256,)) for i in range(4)]
GIVEN = [Tensor(f"w{i}", (256,), "parameter") for i in range(3)]
RESULTS = [Tensor(f"r{i}", (256,), "parameter") for i in range(12)]
ORDERS = ("lazy", "0", "1", "2", "12", "02", "01", "random:{}")


def run(y, *xs):
    kernel = "joins.add" if len(xs) == 2 else "joins.copy"
    return Run("layer", "forward", (Launch(kernel, (y,), xs, view="flat"),))


def program(draw, length=40):
    """Return the steps of a straight line that reads only what is there."""
    at, valid, on_host, steps, results = {}, set(), set(), [], list(RESULTS)
    for _ in range(length):
        tensor, kind = draw.choice(SCHEDULED), draw.random()
        if tensor not in at:
            taken = at.values()
            free = [p for p in PLACES if all(abs(p - other) >= 1024 for other in taken)]
            if free:
                at[tensor] = draw.choice(free)
                steps.append(Alloc(tensor, at[tensor]))
        elif kind < 0.2 and tensor in valid:
            steps.append(Offload(tensor))
            on_host.add(tensor)
        elif kind < 0.4:
            steps.append(Free(tensor))
            del at[tensor]
            valid.discard(tensor)
        elif kind < 0.6 and tensor in on_host:
            steps.append(Prefetch(tensor))
            valid.add(tensor)
        elif kind < 0.8:
            others = [*(t for t in at if t in valid and t != tensor), *GIVEN]
            inputs = draw.choices(others, k=draw.choice((1, 2)))
            steps.append(run(tensor, *inputs))
            valid.add(tensor)
        elif tensor in valid and results:
            steps.append(run(results.pop(0), tensor))
    return Plan((*steps, *(Free(tensor) for tensor in at)))


def results_of(device, plans):
    """Return the bits of all results, after each plan was run twice."""
    numbers = np.random.default_rng(1)
    residents = {
        tensor: device.resident(numbers.standard_normal(256, np.float32))
        for tensor in (*GIVEN, *RESULTS)
    }
    found = []
    made = [execution.Execution(plan, device, residents) for plan in plans]
    for ready in made * 2:  # on the host, nothing waits for the plan before
        ready.restart()
        steps = ready.plan.steps
        back = [i + 1 for i, step in enumerate(steps) if isinstance(step, Prefetch)]
        if back and ready is made[0]:
            ready.run({}, back[-1])
            arriving = ready.buffers[steps[back[-1] - 1].tensor]
            found.append(device.read(arriving).tobytes())
        ready.run({})
    return found + [device.read(residents[tensor]).tobytes() for tensor in RESULTS]


def noticed(seed):
    """Return what one program shows: wrong bits, races, faults, errors."""
    draw = random.Random(seed)
    plans = [program(draw) for _ in range(2)]
    os.environ["FAKE_ORDER"] = ORDERS[seed % len(ORDERS)].format(seed)
    races.forget()
    before = len(stand_in.faults())
    here = results_of(CPU(SLAB, 4096), plans)
    there = results_of(cuda.GPU(SLAB, 4096), plans)
    return [
        *(["wrong bits"] if there != here else []),
        *sorted(races.found),
        *stand_in.faults()[before:],
    ]


def mutated(module, old="", new=""):
    """Execute a module's text again, in the same module, with a part replaced."""
    text = Path(module.__file__).read_text(encoding="utf-8")
    if old:
        assert text.count(old) == 1, f"{module.__name__}: {text.count(old)} of {old!r}"
        text = text.replace(old, new)
    exec(compile(text, module.__file__, "exec"), module.__dict__)
    races.watch()
    execution.ordered = order.ordered


# By what it does: a module, a part of its text, and what stands there instead.
MUTATIONS = {
    "no stream waits": (cuda, "_issue([wait])", "_issue([])"),
    "no event is recorded": (cuda, "_issue([record])", "_issue([])"),
    "the wrong stream records": (cuda, "_streams[after]", "_streams[before]"),
    "the wrong stream waits": (
        cuda,
        "_streams[before], event",
        "_streams[after], event",
    ),
    "a read does not wait": (cuda, "self.synchronize()\n", "pass\n"),
    "a read waits for kernels only": (
        cuda,
        "in self._streams.values():",
        "in [self._streams['compute']]:",
    ),
    "copies out go with copies in": (
        cuda,
        'stream = self._streams["out"]',
        'stream = self._streams["in"]',
    ),
    "copies in go with copies out": (
        cuda,
        'stream = self._streams["in"]',
        'stream = self._streams["out"]',
    ),
    "kernels go with copies out": (
        cuda,
        'gpu, gpu._streams["compute"]',
        'gpu, gpu._streams["out"]',
    ),
    "copies do not wait for kernels": (
        order,
        'conflicts = [(clocks["compute"]["compute"], "compute")]',
        "conflicts = []",
    ),
    "copies wait for no bytes of the slab": (
        order,
        "if _overlap(copy.slab, this.slab)",
        "if False",
    ),
    "copies wait for no bytes of the host": (
        order,
        "or any(_overlap(a, b) for a in copy.host for b in this.host)",
        "",
    ),
    "kernels do not wait for copies in": (order, 'copy.stream == "in" or', ""),
    "kernels do not wait for copies out": (order, "or tensor in written", ""),
    "a later plan does not wait": (order, "tuple(last))", "())"),
    "an event is taken for a later one": (
        order,
        "= dict(clocks[stream])",
        "= clocks[stream]",
    ),
}


if __name__ == "__main__":
    count = int(sys.argv[1])
    races.watch()
    found = {seed: what for seed in range(count) if (what := noticed(seed))}
    report = {"programs": count, "wrong": found, "mutations": {}}
    for name, mutation in MUTATIONS.items():
        mutated(*mutation)
        # The first program that notices is enough.
        seeds = (seed for seed in range(count) if noticed(seed))
        report["mutations"][name] = next(seeds, None)
        mutated(mutation[0])  # and back
    print(json.dumps(report))
