"""A session: a training under way, on a device whose slab has the plan's size."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from snref.data import Dataset
from snref.device import Device
from snref.device.present import find_gpu
from snref.net import Net, inference, route
from snref.planning.reports import PlannedNet
from snref.plans import OutOfMemory, Plan, Tensor, extent, host_memory
from snref.scheduler import Options, schedule
from snref.training import checkpoint as checkpoints
from snref.training.checkpoint import Checkpoint, CheckpointError, Position
from snref.training.iteration import Iteration
from snref.training.parameters import digest, initial

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class Settings:
    """How to descend.

    learning_rate   multiplied by factor after every so many epochs (0: never)
    weight_decay    added to the gradient, times the parameter
    """

    learning_rate: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 5e-4
    factor: float = 0.1
    every: int = 8
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
    """An iteration that is done.

    epoch, batch  counted from 1
    batches       of an epoch
    images        of the batch, which took so many seconds
    nbytes        of device memory in use at most so far: resident, and of the slab
    """

    epoch: int
    batch: int
    batches: int
    loss: float
    images: int
    seconds: float
    nbytes: int


@dataclass(frozen=True)
class Trained:
    """What a training came to.

    accuracy  the share of held-out images that the net names right, None without any
    losses    of every iteration of this session
    weights   the parameters, by name
    digest    of parameters, momenta and running statistics: equal means equal bits
    peak      bytes of the slab in use at most, as the device counted them
    stopped   before the last epoch, because it was asked to
    """

    planned: PlannedNet
    accuracy: float | None
    losses: tuple[float, ...] = field(repr=False)
    weights: Mapping[str, Array] = field(repr=False)
    digest: str
    peak: int
    seconds: float
    position: Position
    stopped: bool = False


class Session:
    """A device, what lies on it, and where in the data a training is."""

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
        net = planned.net
        slab = extent(planned.plan)
        within = replace(planned.options, capacity=slab, slab=slab)
        training = {net.batch: (net, planned.plan)}
        for size in _batch_sizes(len(data.images), net.batch) - {net.batch}:
            smaller = net.with_batch(size)
            training[size] = smaller, _fitted(route(smaller), within)
        evaluation = {}
        for size in _batch_sizes(len(data.test_images), net.batch):
            seen = training[size][0] if size in training else net.with_batch(size)
            evaluation[size] = seen, schedule(inference(seen), _cached(within))
        plans = [plan for _, plan in (*training.values(), *evaluation.values())]
        host = max(max(host_memory(plan), default=0) for plan in plans)
        self.device = open_device(device, slab, threads, host)
        self.residents = {
            tensor.name: self.device.resident(array)
            for tensor, array in initial(net, settings.seed).items()
        }

        def bound(plans: Mapping[int, tuple[Net, Plan]]) -> dict[int, Iteration]:
            return {
                size: Iteration(net, plan, self.device, self.residents)
                for size, (net, plan) in plans.items()
            }

        self._training, self._evaluation = bound(training), bound(evaluation)

    @property
    def peak(self) -> int:
        """Bytes of the slab in use at most, in iterations and evaluations so far."""
        return max(iteration.peak for iteration in self._iterations())

    def _iterations(self) -> tuple[Iteration, ...]:
        return (*self._training.values(), *self._evaluation.values())

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
        to_come = chain.from_iterable(i.launches() for i in self._iterations())
        self.device.prepare(to_come, self._values())
        while self.position.epoch < epochs and not stopped:
            epoch = self.position.epoch
            batches = self.data.batches(
                self.planned.net.batch, self.settings.seed, epoch
            )
            for number in range(self.position.batch, len(batches)):
                began = time.perf_counter()
                loss = self.iterate(batches[number])
                seconds = time.perf_counter() - began
                last = number + 1 == len(batches)
                self.position = replace(
                    self.position,
                    epoch=epoch + last,
                    batch=0 if last else number + 1,
                    iteration=self.position.iteration + 1,
                )
                if progress is not None:
                    progress(
                        Progress(
                            epoch + 1,
                            number + 1,
                            len(batches),
                            loss,
                            len(batches[number]),
                            seconds,
                            self.device.resident_bytes + self.peak,
                        )
                    )
                stopped = stop is not None and stop()
                iteration = self.position.iteration
                due = iteration % save_every == 0 if save_every else last
                if save is not None and (due or stopped):
                    self.save(save)
                if stopped:
                    break
        if save is not None and not stopped:
            self.save(save)
        state = self.state()
        weights = self.planned.net.tensors("parameter")
        return Trained(
            self.planned,
            None if stopped else self.accuracy(),
            tuple(self.losses),
            {tensor.name: state[f"parameter/{tensor.name}"] for tensor in weights},
            digest(state),
            self.peak,
            time.perf_counter() - start,
            self.position,
            stopped,
        )

    def iterate(self, indices: NDArray[np.intp]) -> float:
        """One iteration on these images; returns its loss.

        Raises NotFinite before any parameter is changed by it.
        """
        loss = self._training[len(indices)].train(
            self.data.images[indices], self.data.labels[indices], self._values()
        )
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

    def accuracy(self) -> float | None:
        """The share of held-out images whose most probable class is their label."""
        count, right = len(self.data.test_images), 0
        size = self.planned.net.batch
        for i in range(0, count, size):
            images = self.data.test_images[i : i + size]
            labels = self.data.test_labels[i : i + size]
            evaluation = self._evaluation[len(images)]
            probabilities = evaluation.evaluate(images, labels, self._values())
            right += int((probabilities.argmax(axis=1) == labels).sum())
        return right / count if count else None

    def state(self) -> dict[str, Array]:
        """All that training changes, by its key in a checkpoint."""
        return {
            key: self.device.read(self.residents[tensor.name])
            for key, tensor in self._keys()
        }

    def _keys(self) -> Iterator[tuple[str, Tensor]]:
        for tensor in self.planned.net.tensors("parameter", "momentum", "state"):
            if tensor.kind != "state" or ".running_" in tensor.name:
                yield f"{tensor.kind}/{tensor.name}", tensor

    def save(self, path: Path) -> None:
        """Write a checkpoint. Raises OSError, which names the path."""
        checkpoints.save(path, Checkpoint(self.state(), self.position, self._about()))

    def _about(self) -> dict[str, Any]:
        """What must be the same for the bits to be."""
        net, data = self.planned.net, self.data
        return {
            "net": net.name,
            "input": list(net.input_shape),
            "data": data.name,
            "images": len(data.images),
        }

    def resume(self, path: Path) -> None:
        """Go on from a checkpoint. Raises CheckpointError if it will not do."""
        found = checkpoints.load(path)
        tensors = dict(self._keys())
        shapes = {key: tensor.shape for key, tensor in tensors.items()}
        arrays = checkpoints.matched(found, shapes, path)
        there = asdict(found.position) | dict(found.about)
        here = asdict(self.position) | self._about()
        for what in ("input", "images", "seed"):
            if there.get(what) != here[what]:
                raise CheckpointError(
                    f"{path}: was trained with {what} {there.get(what)}, here it is "
                    f"{here[what]}"
                )
        if found.position.batch * self.planned.net.batch >= len(self.data.images):
            raise CheckpointError(f"{path}: is damaged: {found.position}")
        for key, tensor in tensors.items():
            self.device.write(self.residents[tensor.name], arrays[key])
        self.position = found.position


def present(device: str) -> Literal["cpu", "cuda"]:
    """Which device "cpu", "cuda" or "auto" is here. Raises ValueError if none is."""
    if device not in ("auto", "cpu", "cuda"):
        raise ValueError(f"no device {device!r}: auto, cpu, cuda")
    if device == "cpu":
        return "cpu"
    found = find_gpu()
    if found.works:
        return "cuda"
    if device == "cuda":
        repair = f"; to repair: {found.repair}" if found.repair else ""
        raise ValueError(f"no CUDA device: {found.says}{repair}")
    return "cpu"


def open_device(
    name: str, slab: int, threads: int | None = None, host: int = 0
) -> Device:
    """The device of this name, "cpu", "cuda" or "auto", with so many bytes of slab, and
    of host memory for copies.

    Raises ValueError if there is no such device here, MemoryError if it has not so
    much memory.
    """
    if present(name) == "cuda":
        from snref.device.cuda import GPU

        return GPU(slab, host)
    from snref.device.cpu import CPU

    return CPU(slab, host, threads)


def _fitted(whole: Plan, within: Options) -> Plan:
    """A plan for a smaller batch in the slab of the larger one."""
    try:
        return schedule(whole, within)
    except OutOfMemory:  # by other addresses: the smaller working sets do fit
        return schedule(whole, _cached(within))


def _cached(options: Options) -> Options:
    """With the tensor cache every working set that fits has a plan."""
    return replace(options, liveness=True, recompute=None, transfers="cache")


def _batch_sizes(images: int, batch: int) -> set[int]:
    """The sizes of the batches that so many images make."""
    sizes = {batch} if images >= batch else set()
    return sizes | {images % batch} - {0}
