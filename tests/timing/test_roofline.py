"""The virtual device: machines from files, rooflines, and three clocks."""

import random
from dataclasses import replace

import pytest

from snref.net import route
from snref.nets import alexnet
from snref.plans import (
    Algorithm,
    Alloc,
    Choice,
    Free,
    Launch,
    Offload,
    Plan,
    Prefetch,
    Run,
    Tensor,
)
from snref.timing import roofline
from snref.timing.costs import Costs
from snref.timing.roofline import MACHINES, NUMBERS, machine
from snref.timing.timeline import simulate

KB = 1024  # bytes of every tensor below: a copy of one takes 4 s out, 2 s in


def tensor(name):
    return Tensor(name, (KB // 4,))


def compute(layer, writes, reads=()):
    return Run(layer, "forward", (Launch("", tuple(writes), tuple(reads)),))


def play(*steps, seconds=1.0):
    runs = {(s.layer, s.phase): seconds for s in steps if isinstance(s, Run)}
    costs = Costs("by hand", runs, {}, to_host=KB / 4, to_device=KB / 2)
    return simulate(Plan(steps), costs)


# Machines


@pytest.mark.parametrize("name", roofline.names())
def test_every_number_of_a_machine_has_a_source(name):
    found = machine(name)
    for key in (*NUMBERS, "efficiency"):
        assert len(found.sources[key]) > 15, key
    assert found.constants()["flops"]["unit"] == "FLOP/s"
    # A GPU does more operations a second than it moves bytes, and moves them faster
    # than its link: a slip of a thousand would break this.
    assert 1e12 < found.flops < 1e14
    assert 1e11 < found.bandwidth < 1e13
    assert 5e9 < found.to_host < 1e11 and 5e9 < found.to_device < 1e11


@pytest.mark.parametrize("name", roofline.names())
def test_a_machine_is_ten_lines(name):
    assert len((MACHINES / f"{name}.toml").read_text().splitlines()) <= 10


def test_a_file_of_ones_own_works_like_those_that_come_with_snref(tmp_path):
    path = tmp_path / "mine.toml"
    text = (MACHINES / "k40c.toml").read_text().replace("288e9", "144e9")
    path.write_text(text)
    assert machine(str(path)).bandwidth == machine("k40c").bandwidth / 2
    assert machine("virtual:k40c") == machine("k40c")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "288e9",
            "'fast'",
            r"'bandwidth' must be a number from 1e\+06 to .* in bytes/s, not",
        ),
        ("288e9", "288", "'bandwidth' must be .*, not 288"),  # in GB/s
        ("5e-6", "5", "'launch_latency' must be .* from 0 to 1 in seconds, not 5"),
        ("288e9", "-1", "'bandwidth' must be .*, not -1"),
        ("288e9", "inf", "'bandwidth' must be .*, not inf"),
        ("288e9", "nan", "'bandwidth' must be .*, not nan"),
        ("288e9", "true", "'bandwidth' must be .*, not True"),
        ("288e9", "9" * 400, "'bandwidth' must be .*, not 999"),
        ("12_884_901_888", "inf", "'memory' must be .* in bytes, not inf"),
        ("memory = {", "ram = {", "unknown key 'ram'; the keys are title, flops, "),
        ("memory = {", "#", "'memory' is missing; write memory = { value = .in bytes"),
        ("288e9, source", "288e9, src", "'bandwidth' needs a source"),
        ("288e9, source", "288e9, src = 0, source", "'bandwidth': unknown key 'src'"),
        ("value = 288e9, ", "", "'bandwidth' has no value"),
        ("bandwidth = {", "bandwidth = 3 #", "'bandwidth' must be a table, not 3;"),
        ("tiled = 0.40", "tiled = true", "'tiled' must be"),
        ("tiled = 0.40", "tiled = nan", "'tiled' must be"),
        ("tiled = 0.40", "tiled = 40", "'tiled' must be 1e-06 to 1, not 40"),
        ("im2col =", "imcol =", "efficiency: unknown key 'imcol'; .* im2col, "),
        ("im2col = 0.50, ", "", "efficiency 'im2col' is missing"),
        ("efficiency = {", "efficiency = [1] #", "'efficiency' must be a table"),
        ("efficiency = {", "#", "'efficiency' must be a table of shares"),
        ("title =", "title", "at line"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path, old, new, message):
    path = tmp_path / "mine.toml"
    path.write_text((MACHINES / "k40c.toml").read_text().replace(old, new))
    with pytest.raises(ValueError, match=rf"mine\.toml.*{message}"):
        machine(str(path))


def test_every_algorithm_of_a_convolution_has_a_share():
    names = {
        way.name
        for run in route(alexnet(2)).runs()
        for choice in run.choices
        for way in choice.algorithms
    }
    assert {"direct", "sliced"} < names < {*machine("k40c").efficiency}


def test_an_unknown_machine_is_refused_with_the_names_there_are():
    with pytest.raises(ValueError, match=r"no machine 'k80': .*k40c, .*\.toml"):
        machine("k80")


# Rooflines


def test_a_kernel_takes_the_longer_of_its_arithmetic_and_its_traffic():
    k40c = replace(machine("k40c"), efficiency={"other": 1.0, "memory": 1.0})
    latency = k40c.launch_latency
    assert k40c.seconds("other", 0, 0) == latency
    assert k40c.seconds("other", int(4.29e12), 1) == pytest.approx(1 + latency)
    assert k40c.seconds("other", 1, int(288e9)) == pytest.approx(1 + latency)


def test_algorithms_are_costed_by_name_and_other_launches_by_run():
    x, y = tensor("x"), tensor("y")
    menu = tuple(
        Algorithm(name, "taps", 0, 10**12, 0, lambda output, a, b, workspace: ())
        for name in ("tiled", "direct")
    )
    conv = Choice("forward", y, (x, x), menu, menu[0])
    bias = Launch("bias.forward", (y,), updates=True)
    run = Run("conv1", "forward", (conv, bias))
    k40c = machine("k40c")
    model = roofline.costs(Plan((run,)), k40c)
    assert model.source == "virtual:k40c"
    seconds = k40c.seconds("other", 0, bias.bytes_accessed)
    assert model.runs == {("conv1", "forward"): seconds}
    assert model.algorithms["conv1", "forward", "direct"] == k40c.seconds(
        "direct", 10**12, 0
    )
    tiled = model.algorithms["conv1", "forward", "tiled"]
    assert model.seconds(run) == tiled + seconds


def test_what_does_many_operations_a_byte_is_costed_as_a_matrix_product():
    x, y = tensor("x"), tensor("y")
    k40c = machine("k40c")
    for flops, bytes_accessed, kind in (
        (10**12, 10**9, "product"),
        (10**9, 10**9, "other"),
    ):
        run = Run(
            "a",
            "forward",
            (Launch("", (y,), (x,), flops=flops, bytes_accessed=bytes_accessed),),
        )
        seconds = roofline.costs(Plan((run,)), k40c).runs["a", "forward"]
        assert seconds == k40c.seconds(kind, flops, bytes_accessed)


# Clocks: a run takes 1 s, a copy out 4 s, a copy in 2 s.


def test_runs_follow_each_other():
    x, y = tensor("x"), tensor("y")
    line = play(Alloc(x), compute("a", [x]), Alloc(y), compute("b", [y], [x]), Free(x))
    assert (line.seconds, line.compute_seconds, line.stall_seconds) == (2, 2, 0)
    assert line.starts == (0, 0, 1, 1, 2) and line.ends == (0, 1, 1, 2, 2)


def test_a_copy_out_waits_for_the_run_before_it_and_not_the_run_for_the_copy():
    x, y = tensor("x"), tensor("y")
    line = play(
        Alloc(x), Alloc(y), compute("a", [x]), Offload(x), compute("b", [y], [x])
    )
    assert line.starts[3:] == (1, 1) and line.ends[3:] == (5, 2)
    assert line.seconds == 5 and line.copy_out_seconds == 4 and line.stall_seconds == 3


def test_a_run_that_writes_a_tensor_waits_for_its_copy_out():
    x = tensor("x")
    line = play(Alloc(x), compute("a", [x]), Offload(x), compute("b", [x], [x]))
    assert line.starts[3] == 5


def test_a_run_waits_for_the_copies_in_of_what_it_touches_and_for_no_others():
    x, y, z = tensor("x"), tensor("y"), tensor("z")
    line = play(
        *(Alloc(t) for t in (x, y, z)),
        compute("a", [x]),
        Prefetch(y),
        compute("b", [z]),
        compute("c", [z], [y]),
    )
    assert line.starts[3:] == (0, 1, 1, 3) and line.copy_in_seconds == 2


def test_a_copy_in_waits_for_the_same_tensors_copy_out():
    x = tensor("x")
    line = play(Alloc(x), compute("a", [x]), Offload(x), Free(x), Alloc(x), Prefetch(x))
    assert line.starts[-1] == 5


def test_copies_of_one_direction_queue_and_the_two_directions_overlap():
    w, x, y, z = (tensor(name) for name in "wxyz")
    line = play(
        *(Alloc(t) for t in (w, x, y, z)),
        Offload(x),
        Offload(y),
        Prefetch(w),
        Prefetch(z),
    )
    assert line.starts[4:] == (0, 4, 0, 2)


def test_freed_memory_waits_for_the_copy_out_only_where_it_is_given_again():
    x, y, z = tensor("x"), tensor("y"), tensor("z")
    line = play(
        Alloc(x, 0),
        compute("a", [x]),
        Offload(x),  # from 1 to 5
        Free(x),
        Alloc(y, KB),
        compute("b", [y]),  # elsewhere: at once
        Alloc(z, KB // 2),
        compute("c", [z]),  # over x
    )
    assert line.starts[5] == 1 and line.starts[7] == 5
    assert line.stall_seconds == 3


def test_a_workspace_waits_for_the_copy_out_of_the_memory_that_it_gets():
    x, y = tensor("x"), tensor("y")
    scratch = Tensor("conv.workspace", (KB // 4,), "workspace")
    way = Algorithm("im2col", "taps", KB, 0, 0, lambda output, a, b, workspace: ())
    conv = Choice("forward", y, (y, y), (way,), way, scratch)
    run = Run("conv", "forward", (conv,))
    steps = (
        Alloc(x, 0),
        compute("a", [x]),
        Offload(x),  # from 1 to 5
        Free(x),
        Alloc(y, KB),
        Alloc(scratch, 0),  # over x
        run,
    )
    runs = {("a", "forward"): 1.0, ("conv", "forward"): 1.0}
    ways = {("conv", "forward", "im2col"): 0.0}
    line = simulate(Plan(steps), Costs("by hand", runs, ways, KB / 4, KB / 2))
    assert line.starts[-1] == 5


def test_in_a_plan_without_addresses_any_memory_given_next_waits():
    x, y = tensor("x"), tensor("y")
    line = play(
        Alloc(x), compute("a", [x]), Offload(x), Free(x), Alloc(y), compute("b", [y])
    )
    assert line.starts[-1] == 5


def test_the_clocks_agree_with_what_each_step_waits_for_on_random_plans():
    for seed in range(200):
        steps = random_steps(random.Random(seed))
        line = play(*steps)
        assert list(line.ends) == pytest.approx(by_dependency(steps)), seed


def random_steps(rng):
    """Allocs in any place of a small slab, copies, runs, frees, in an order that can
    be: what is freed before a copy back was copied out.
    """
    steps, there, hosts = [], {}, set()
    tensors = [tensor(f"t{i}") for i in range(6)]
    for count in range(40):
        t = rng.choice(tensors)
        if t not in there:
            free = [
                a
                for a in range(0, 4 * KB, KB // 2)
                if all(a + KB <= b or b + KB <= a for b in there.values())
            ]
            if not free:
                continue
            there[t] = rng.choice(free)
            steps.append(Alloc(t, there[t]))
            if t in hosts and rng.random() < 0.7:
                steps.append(Prefetch(t))
        elif rng.random() < 0.3:
            steps.append(Free(t))
            del there[t]
        elif rng.random() < 0.4:
            steps.append(Offload(t))
            hosts.add(t)
        else:
            reads = [s for s in there if rng.random() < 0.4]
            steps.append(compute(f"run{count}", [t], reads))
            hosts.discard(t)
    return steps


def by_dependency(steps):
    """The ends of all steps, from what each waits for: quadratic and obvious."""
    ends = []
    for i, step in enumerate(steps):
        before = list(zip(steps[:i], ends, strict=True))
        waits = [end for s, end in before if isinstance(s, Run)]
        if isinstance(step, Alloc | Free):
            ends.append(max(waits, default=0))
            continue
        touched = set(step.touched) if isinstance(step, Run) else {step.tensor}
        written = set(step.writes) if isinstance(step, Run) else set()
        for k, (s, end) in enumerate(before):
            if type(s) is type(step) and not isinstance(s, Run):
                waits.append(end)
            if isinstance(s, Prefetch) and s.tensor in touched:
                waits.append(end)
            if isinstance(s, Offload) and s.tensor in touched:
                here = k > given(steps, i, s.tensor)  # read from where it lies now
                if isinstance(step, Prefetch) or (here and s.tensor in written):
                    waits.append(end)
        waits += memory_waits(steps, ends, i, touched)
        seconds = {Run: 1, Offload: 4, Prefetch: 2}[type(step)]
        ends.append(max(waits, default=0) + seconds)
    return ends


def given(steps, i, t):
    """Where t was last allocated before step i."""
    return max(
        j for j in range(i) if isinstance(steps[j], Alloc) and steps[j].tensor is t
    )


def memory_waits(steps, ends, i, touched):
    """The ends of copies of earlier tenants of the memory that step i touches."""
    for t in touched:
        last = given(steps, i, t)
        first = steps[last].offset
        for j in range(last):
            if isinstance(steps[j], Alloc):
                tenant = steps[j].tensor
                overlap = abs(steps[j].offset - first) < KB
                freed = next(
                    k
                    for k in range(j, len(steps) + 1)
                    if k == len(steps)
                    or (isinstance(steps[k], Free) and steps[k].tensor is tenant)
                )
                if overlap and freed < last:
                    yield from (
                        ends[k]
                        for k in range(j, freed)
                        if isinstance(steps[k], Offload | Prefetch)
                        and steps[k].tensor is tenant
                    )
