"""Training: iterations of a plan over batches of images, within a memory budget.

``train`` joins all parts: data, a plan that fits, a device whose slab has exactly the
plan's size, checkpoints. What it does to the parameters does not depend on the plan:
plans with the same summation orders train to the same bits.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from snref import checkpoint as checkpoints
from snref import data as datasets
from snref.checkpoint import Checkpoint, CheckpointError, Position
from snref.costs import Costs
from snref.data import Dataset
from snref.device import Buffer, Device
from snref.execution import Execution
from snref.layer import PLANNED, Launch
from snref.net import Net, inference, route
from snref.planning import plan
from snref.plans import Plan, Run, extent, memory
from snref.reports import RESIDENT, PlannedNet
from snref.scheduler import Options, schedule
from snref.tensor import Kind, Shape, Tensor

Array: TypeAlias = NDArray[Any]


class NotFinite(ArithmeticError):
    """The loss became infinite or NaN: names the iteration and the first tensor."""


@dataclass(frozen=True)
class Settings:
    """How to descend.

    learning_rate   multiplied by factor after every so many epochs (0: never)
    weight_decay    added to the gradient, times the parameter
    """

    learning_rate: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 5e-4
    factor: float = 0.1
    every: int = 0
    seed: int = 0

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 0.

        >>> [Settings(0.5, every=2).rate(epoch) for epoch in range(4)]
        [0.5, 0.5, 0.05, 0.05]
        """
        steps = epoch // self.every if self.every else 0
        return self.learning_rate * self.factor**steps


@dataclass(frozen=True)
class Progress:
    """An iteration that is done."""

    epoch: int
    batch: int  # of the epoch, counted from 1
    batches: int
    loss: float
    images_per_second: float
    nbytes: int  # of device memory in use at most: resident, and of the slab


@dataclass(frozen=True)
class Trained:
    """What a training came to.

    accuracy  the share of held-out images that the net names right, None without any
    losses    of every iteration
    weights   the parameters, by name
    digest    of parameters, momenta and running statistics: equal means equal bits
    peak      bytes of the slab in use at most, as the device counted them
    """

    planned: PlannedNet
    accuracy: float | None
    losses: tuple[float, ...] = field(repr=False)
    weights: Mapping[str, Array] = field(repr=False)
    digest: str
    peak: int
    seconds: float
    position: Position
    stopped: bool = False  # before the last epoch, because it was asked to


def train(
    net: str | Net,
    *,
    data: str | Path | Dataset | None = None,
    batch: int = 32,
    epochs: int = 1,
    input_size: int | None = None,
    settings: Settings | None = None,
    seed: int = 0,
    memory: str | int | None = None,
    host_memory: str | int | None = None,
    preset: str | None = None,
    device: str = "auto",
    costs: Costs | None = None,
    threads: int | None = None,
    save: str | Path | None = None,
    save_every: int | None = None,
    resume: str | Path | None = None,
    on_plan: Callable[[PlannedNet], None] | None = None,
    progress: Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Trained:
    """Train a net.

    net          a name of ``snref.nets.find``, or a net; its batch is replaced
    data         "digits", "synthetic", a folder of IDX files, a .npz file, a Dataset;
                 default: digits for the net digits, else synthetic
    memory       bytes of the device that the run may use; with it, and without preset,
                 the plan of least modelled time that fits
    device       "cpu", "cuda", or "auto": the GPU if there is one
    threads      of the CPU device
    save         a file for checkpoints: after every epoch, or save_every iterations,
                 and when the training ends or is stopped
    resume       a checkpoint to go on from
    on_plan, progress   called with the plan, and after every iteration
    stop         asked after every iteration

    Raises OutOfMemory if nothing fits, DataError and CheckpointError for files that
    will not do, NotFinite if the loss becomes infinite or NaN, and ValueError for
    what does not go together.

    >>> trained = train("digits", epochs=1, device="cpu", memory="1MiB")
    >>> trained.accuracy > 0.8
    True
    """
    settings = replace(settings or Settings(), seed=seed)
    if isinstance(net, str):
        from snref.nets import find

        net = find(net, batch, input_size)
    elif net.batch != batch:
        net = net.with_batch(batch)
    if not isinstance(data, Dataset):
        data = datasets.load(
            data or ("digits" if net.name == "digits" else "synthetic"),
            image_shape=net.input_shape[1:],
            classes=_classes(net),
            count=max(4 * batch, 64),
            seed=seed,
        )
    _check(net, data)
    planned = plan(
        net, preset=preset, memory=memory, host_memory=host_memory, costs=costs
    )
    if on_plan is not None:
        on_plan(planned)
    session = Session(planned, data, settings, device, threads)
    if resume is not None:
        session.resume(Path(resume))
    return session.run(
        epochs,
        save=None if save is None else Path(save),
        save_every=save_every,
        progress=progress,
        stop=stop,
    )


def _check(net: Net, data: Dataset) -> None:
    """Raise ValueError if the net cannot be trained on the data."""
    for run in route(net).runs():
        for launch in run.launches:
            if launch.kernel.startswith(PLANNED):
                raise ValueError(
                    f"{net.name} can be planned only: {run.layer} has no kernel yet"
                )
    if data.image_shape != net.input_shape[1:]:
        raise ValueError(
            f"{data.name} has images of {_by(data.image_shape)}, {net.name} takes "
            f"{_by(net.input_shape[1:])}"
        )
    if net.batch > len(data.images):
        raise ValueError(
            f"batch {net.batch}: {data.name} has {len(data.images)} images to train on"
        )
    data.check(_classes(net))


def _classes(net: Net) -> int:
    """How many classes the loss of a net tells apart."""
    return prod(net.nodes[-1].xs[0].shape[1:])


def _by(shape: Shape) -> str:
    return " x ".join(map(str, shape))


def initial(net: Net, seed: int) -> dict[Tensor, Array]:
    """Parameters to start from, and zeros for their gradients and momenta.

    Weights are normal with variance 2 / fan-in (He et al. 2015, equation 10), from a
    generator of their own each, so that a net's weights do not depend on the others'.
    """
    arrays: dict[Tensor, Array] = {}
    ones = ("gamma", "running_variance")
    kinds: tuple[Kind, ...] = (
        "parameter",
        "parameter_gradient",
        "momentum",
        "state",
    )
    for number, tensor in enumerate(net.tensors(*kinds)):
        what = tensor.name.rpartition(".")[2]
        if what in ones and tensor.kind in ("parameter", "state"):
            arrays[tensor] = np.ones(tensor.shape, np.float32)
        elif tensor.kind == "parameter" and len(tensor.shape) > 1:
            random = np.random.default_rng((seed, number))
            deviation = np.float32((2 / prod(tensor.shape[1:])) ** 0.5)
            values = random.standard_normal(tensor.shape, np.float32)
            arrays[tensor] = values * deviation
        else:
            arrays[tensor] = np.zeros(tensor.shape, tensor.dtype)
    return arrays


def digest(arrays: Mapping[str, Array]) -> str:
    """A hash of arrays and their names: the same if every bit is.

    >>> digest({"w": np.zeros(2, np.float32)})[:12]
    '2bf5e0f3a0b5'
    """
    state = hashlib.sha256()
    for name in sorted(arrays):
        state.update(name.encode())
        state.update(np.ascontiguousarray(arrays[name]).tobytes())
    return state.hexdigest()


def open_device(name: str, slab: int, threads: int | None = None) -> Device:
    """The device of this name, "cpu", "cuda" or "auto", with so many bytes of slab.

    Raises ValueError if there is no such device here.
    """
    if name not in ("auto", "cpu", "cuda"):
        raise ValueError(f"no device {name!r}: auto, cpu, cuda")
    if name != "cpu":
        from numba import cuda

        if cuda.is_available():
            from snref.device.cuda import GPU

            return GPU(slab)
        if name == "cuda":
            raise ValueError("no CUDA device here; snref doctor says what is missing")
    from snref.device.cpu import CPU

    return CPU(slab, threads)


class Session:
    """A training under way: a device, what lies on it, and where in the data it is."""

    def __init__(
        self,
        planned: PlannedNet,
        data: Dataset,
        settings: Settings,
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        self.planned, self.data, self.settings = planned, data, settings
        self.position = Position(seed=settings.seed)
        self.losses: list[float] = []
        self.peak = 0
        net, slab = planned.net, extent(planned.plan)
        self.routines = {net.batch: _Routine(net, planned.plan)}
        for size in _batch_sizes(len(data.images), net.batch):
            if size != net.batch:  # the last batch of an epoch
                smaller = net.with_batch(size)
                made = schedule(route(smaller), planned.options, None)
                self.routines[size] = _Routine(smaller, made)
                slab = max(slab, extent(made))
        self.evaluations: dict[int, _Routine] = {}
        forward = Options(recompute=None, capacity=slab, slab=slab)
        for size in _batch_sizes(len(data.test_images), net.batch):
            same = self.routines[size].net if size in self.routines else None
            seen = same or net.with_batch(size)
            made = schedule(inference(seen), forward, None)
            self.evaluations[size] = _Routine(seen, made)
        self.device = open_device(device, slab, threads)
        self.shared = {
            tensor.name: self.device.resident(array)
            for tensor, array in initial(net, settings.seed).items()
        }
        for routine in (*self.routines.values(), *self.evaluations.values()):
            routine.bind(self.device, self.shared)

    def run(
        self,
        epochs: int,
        *,
        save: Path | None = None,
        save_every: int | None = None,
        progress: Callable[[Progress], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Trained:
        """Train up to so many epochs in all, counted from the very first."""
        start = time.perf_counter()
        stopped = False
        while self.position.epoch < epochs and not stopped:
            epoch, batches = self.position.epoch, list(self._batches())
            for number, indices in enumerate(batches, 1):
                if number <= self.position.batch:
                    continue
                began = time.perf_counter()
                loss = self.iterate(indices)
                seconds = time.perf_counter() - began
                self._advance(len(batches))
                if progress is not None:
                    in_use = sum(self.planned.resident.values()) + self.peak
                    progress(
                        Progress(
                            epoch + 1,
                            number,
                            len(batches),
                            loss,
                            len(indices) / seconds,
                            in_use,
                        )
                    )
                stopped = stop is not None and stop()
                due = save_every and self.position.iteration % save_every == 0
                done = number == len(batches) and not save_every
                if save is not None and (due or done or stopped):
                    self.save(save)
                if stopped:
                    break
        if save is not None and save_every:
            self.save(save)
        accuracy = self.accuracy() if not stopped else None
        state = self.state()
        return Trained(
            self.planned,
            accuracy,
            tuple(self.losses),
            {k.partition("/")[2]: v for k, v in state.items() if k[:9] == "parameter"},
            digest(state),
            self.peak,
            time.perf_counter() - start,
            self.position,
            stopped,
        )

    def _batches(self) -> Iterator[NDArray[np.intp]]:
        """The indices of each batch of the present epoch."""
        order = self.data.order(self.settings.seed, self.position.epoch)
        size = self.planned.net.batch
        return (order[i : i + size] for i in range(0, len(order), size))

    def _advance(self, batches: int) -> None:
        position = self.position
        epoch, batch = position.epoch, position.batch + 1
        if batch == batches:
            epoch, batch = epoch + 1, 0
        self.position = replace(
            position, epoch=epoch, batch=batch, iteration=position.iteration + 1
        )

    def iterate(self, indices: NDArray[np.intp]) -> float:
        """One iteration on these images; returns its loss.

        Raises NotFinite before any parameter is changed by it.
        """
        routine = self.routines[len(indices)]
        images, labels = self.data.images[indices], self.data.labels[indices]
        routine.feed(self.device, images, labels)
        execution = routine.execution(self.device, self._values())
        execution.run(routine.plan.steps[: routine.turn])
        loss = float(self.device.read(routine.loss)[0])
        if not np.isfinite(loss):
            raise NotFinite(self._first_fault(routine, loss))
        execution.run(routine.plan.steps[routine.turn :])
        trace = execution.trace()
        if trace.nbytes != routine.predicted:
            raise AssertionError("the device counted other bytes than were planned")
        self.peak = max(self.peak, trace.peak)
        self.losses.append(loss)
        return loss

    def _values(self) -> dict[str, int | float]:
        """What the launches ask for by name."""
        return {
            "seed": self.settings.seed,
            "iteration": self.position.iteration,
            "learning_rate": float(self.settings.rate(self.position.epoch)),
            "momentum": float(self.settings.momentum),
            "weight_decay": float(self.settings.weight_decay),
        }

    def _first_fault(self, routine: "_Routine", loss: float) -> str:
        """Where the first number came from that is not finite."""
        where = f"iteration {self.position.iteration + 1}: the loss is {loss}; "
        for tensor, buffer in routine.residents.items():
            if tensor.kind == "parameter" and not _finite(self.device.read(buffer)):
                return where + f"{tensor.name} is not finite since the update before"
        watched = _Watched(self.device)
        execution = routine.execution(cast(Device, watched), self._values())
        execution.run(routine.plan.steps[: routine.turn])
        return where + (watched.fault or "every tensor before it is finite")

    def accuracy(self) -> float | None:
        """The share of held-out images whose most probable class is their label."""
        count, right = len(self.data.test_images), 0
        if not count:
            return None
        size = self.planned.net.batch
        for i in range(0, count, size):
            images = self.data.test_images[i : i + size]
            labels = self.data.test_labels[i : i + size]
            routine = self.evaluations[len(images)]
            routine.feed(self.device, images, labels)
            execution = routine.execution(self.device, self._values())
            execution.run(routine.plan.steps[: routine.turn])
            probabilities = self.device.read(execution.buffers[routine.probabilities])
            execution.run(routine.plan.steps[routine.turn :])
            execution.trace()
            named = probabilities.reshape(len(images), -1).argmax(axis=1)
            right += int((named == labels).sum())
        return right / count

    def state(self) -> dict[str, Array]:
        """All that training changes, by its key in a checkpoint."""
        return {key: self.device.read(self.shared[t.name]) for key, t in self._keys()}

    def _keys(self) -> Iterator[tuple[str, Tensor]]:
        for tensor in self.planned.net.tensors("parameter", "momentum", "state"):
            running = ".running_" in tensor.name
            if tensor.kind != "state" or running:
                yield f"{tensor.kind}/{tensor.name}", tensor

    def save(self, path: Path) -> None:
        """Write a checkpoint."""
        net = self.planned.net
        about = {"net": net.name, "input": net.input_shape, "data": self.data.name}
        checkpoints.save(path, Checkpoint(self.state(), self.position, about))

    def resume(self, path: Path) -> None:
        """Go on from a checkpoint. Raises CheckpointError if it will not do."""
        found = checkpoints.load(path)
        tensors = dict(self._keys())
        shapes = {key: tensor.shape for key, tensor in tensors.items()}
        arrays = checkpoints.matched(found, shapes, path)
        batch = self.planned.net.batch
        saved = found.about.get("input", [batch])
        if saved[0] != batch:
            raise CheckpointError(
                f"{path}: was trained with batch {saved[0]}, not {batch}"
            )
        if found.position.seed != self.settings.seed:
            raise CheckpointError(
                f"{path}: was trained with seed {found.position.seed}, not "
                f"{self.settings.seed}"
            )
        for key, tensor in tensors.items():
            self.device.write(self.shared[tensor.name], arrays[key])
        self.position = found.position


class _Routine:
    """A plan for batches of one size, and the buffers it works on."""

    def __init__(self, net: Net, made: Plan) -> None:
        self.net, self.plan = net, made
        self.predicted = tuple(memory(made, workspace=True))
        self.residents: dict[Tensor, Buffer] = {}
        self.probabilities = net.nodes[-1].y
        runs = [(i, s) for i, s in enumerate(made.steps) if isinstance(s, Run)]
        updates = (i for i, run in runs if run.phase == "update")
        # Where the loss is known and nothing that stays has been changed.
        self.turn = next(updates, runs[-1][0] + 1)

    def bind(self, device: Device, shared: Mapping[str, Buffer]) -> None:
        """Make, or share with other batch sizes, the buffers of what is resident."""
        for tensor in self.net.tensors(*RESIDENT):
            buffer = shared.get(tensor.name)
            if buffer is None or buffer.array.shape != tensor.shape:
                buffer = device.resident(np.zeros(tensor.shape, tensor.dtype))
            self.residents[tensor] = buffer
        saved = self.net.nodes[-1].saved
        self.images = self.residents[self.net.nodes[0].x]
        self.labels = self.residents[saved["labels"]]
        self.loss = self.residents[saved["loss"]]

    def feed(self, device: Device, images: Array, labels: Array) -> None:
        """Put a batch where the plan reads it."""
        device.write(self.images, images)
        device.write(self.labels, labels)

    def execution(self, device: Device, values: Mapping[str, int | float]) -> Execution:
        return Execution(device, self.residents, values)


class _Watched:
    """A device that remembers the first tensor some launch made that is not finite."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.fault: str | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def launch(
        self,
        launch: Launch,
        buffers: Sequence[Buffer],
        scalars: Sequence[int | float],
    ) -> None:
        self._device.launch(launch, buffers, scalars)
        for tensor, buffer in zip(launch.outputs, buffers, strict=False):
            if self.fault is None and tensor.kind != "workspace":
                values = self._device.read(buffer)
                if not _finite(values):
                    at = np.argwhere(~np.isfinite(values))[0].tolist()
                    self.fault = f"the first is {tensor.name}{at}, by {launch.kernel}"


def _finite(array: Array) -> bool:
    return bool(np.isfinite(array).all())


def _batch_sizes(images: int, batch: int) -> set[int]:
    """The sizes of the batches that so many images make."""
    sizes = {batch} if images >= batch else set()
    return sizes | {images % batch} - {0}
