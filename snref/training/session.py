"""A session: a training under way, on a device whose slab has the plan's size."""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, is_dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from snref import data as datasets
from snref.data import Dataset
from snref.device import Device
from snref.device.present import find_gpu
from snref.layers import BatchNorm
from snref.layers.base import Node
from snref.layers.fork import Fork
from snref.net import Net, inference, route
from snref.planning.quickest import least_time
from snref.planning.reports import PlannedNet
from snref.planning.splitting import like
from snref.plans import OutOfMemory, Plan, Tensor, extent, host_peak, lower_bound
from snref.scheduler import Options, schedule
from snref.scheduler.options import PER_TENSOR
from snref.timing.roofline import costs, machine
from snref.training import checkpoint as checkpoints
from snref.training.checkpoint import About, Checkpoint, Keeper, Position
from snref.training.iteration import Iteration, NotFinite
from snref.training.parameters import Initialisation, digest, initial
from snref.training.settings import Settings

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class Progress:
    """What one iteration did.

    epoch, batch  which one it was, counted from 1
    batches       how many an epoch has
    images        how many the batch has
    seconds       how long the iteration took
    nbytes        the most device memory in use so far, resident tensors included
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
    """The result of a training.

    accuracy  the share of held-out images that are classified correctly; None if there
              are none, or if the training was stopped
    losses    one for each iteration of this session
    weights   the parameters, by name
    digest    the hash of all that updates change: parameters, momenta, running means
    peak      the most bytes of the slab in use, as the device counted them
    stopped   whether ``stop`` ended the training before its last epoch
    saved     the file with the last checkpoint. It is not the file that was asked for
              if that could not be written; None if nothing was saved
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
    saved: Path | None = None


class Session:
    """A training in progress: its device and tensors, and its position in the data.

    planned   what ``snref.plan`` returned; the slab gets the size of this plan
    seed, init   from which the initial weights are drawn (``parameters.initial``)

    Raises what ``open_device`` raises, and ValueError if a layer cannot be trained on
    a batch of the data.
    """

    def __init__(
        self,
        planned: PlannedNet,
        data: Dataset,
        settings: Settings,
        device: str = "auto",
        threads: int | None = None,
        *,
        seed: int = 0,
        init: Initialisation = "he",
    ) -> None:
        self.planned, self.data, self.settings = planned, data, settings
        self.seed, self.init = seed, init
        self.position = Position()
        self.losses: list[float] = []
        self._shuffled: tuple[int, list[NDArray[np.intp]]] = (-1, [])  # epoch, batches
        net = planned.net
        slab = extent(planned.plan)
        within = replace(planned.options, capacity=slab, slab=slab)
        training = {net.batch: (net, planned.plan)}
        for size in _batch_sizes(len(data.images), net.batch) - {net.batch}:
            smaller = net.with_batch(size)
            training[size] = smaller, _fitted(like(smaller, planned.parts), within)
        for trained, _ in training.values():
            _check_batch_norms(trained)
        evaluation = {}
        self._seen_at_once = _seen_at_once(net, slab)
        for size in _batch_sizes(len(data.test_images), self._seen_at_once):
            seen = training[size][0] if size in training else net.with_batch(size)
            evaluation[size] = seen, schedule(inference(seen), _cached(within))
        plans = [plan for _, plan in (*training.values(), *evaluation.values())]
        host = max(host_peak(plan) for plan in plans)
        self.device = open_device(device, slab, threads, host)
        self.residents = {
            tensor.name: self.device.resident(array)
            for tensor, array in initial(net, seed, init).items()
        }

        def bound(plans: Mapping[int, tuple[Net, Plan]]) -> dict[int, Iteration]:
            return {
                size: Iteration(net, plan, self.device, self.residents)
                for size, (net, plan) in plans.items()
            }

        self._training, self._evaluation = bound(training), bound(evaluation)

    @property
    def peak(self) -> int:
        """The most bytes of the slab in use, in iterations and evaluations so far."""
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
        warn: Callable[[str], object] = warnings.warn,
    ) -> Trained:
        """Train until so many epochs are done, those before a checkpoint included.

        Saves a checkpoint to ``save`` after each epoch, or each ``save_every``
        iterations, and at the end. A save that fails does not end the training
        (``Keeper``). Raises NotFinite, and saves nothing then.
        """
        start = time.perf_counter()
        keeper = None if save is None else Keeper(save, warn)
        stopped = False
        to_come = chain.from_iterable(i.launches() for i in self._iterations())
        self.device.prepare(to_come, self._values())
        while self.position.epoch < epochs and not stopped:
            done = self._iterate_next()
            if progress is not None:
                progress(done)
            ended = self.position.epoch == epochs
            stopped = not ended and stop is not None and stop()
            due = done.batch == done.batches
            if save_every:
                due = self.position.iteration % save_every == 0
            if keeper and (due or ended or stopped):
                keeper.save(self.checkpoint(epochs))
        if keeper and keeper.saved is None:
            keeper.save(self.checkpoint(epochs))
        state = self._finite_state()
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
            keeper.saved if keeper else None,
        )

    def _iterate_next(self) -> Progress:
        """Train on the next batch, and advance the position."""
        began = time.perf_counter()
        at = self.position
        batches = self._batches(at.epoch)
        loss = self.iterate(batches[at.batch])
        last = at.batch + 1 == len(batches)
        self.position = Position(
            at.epoch + last, 0 if last else at.batch + 1, at.iteration + 1
        )
        return Progress(
            at.epoch + 1,
            at.batch + 1,
            len(batches),
            loss,
            len(batches[at.batch]),
            time.perf_counter() - began,
            self.device.resident_bytes + self.peak,
        )

    def _batches(self, epoch: int) -> list[NDArray[np.intp]]:
        """Return the indices of each batch of an epoch."""
        if epoch != self._shuffled[0]:
            batch = self.planned.net.batch
            self._shuffled = epoch, self.data.batches(batch, self.seed, epoch)
        return self._shuffled[1]

    def iterate(self, indices: NDArray[np.intp]) -> float:
        """Train on the images with these indices, and return the loss.

        Raises NotFinite if the loss is infinite or NaN; no parameter has changed then.
        """
        loss = self._training[len(indices)].train(
            self.data.images[indices], self.data.labels[indices], self._values()
        )
        self.losses.append(loss)
        return loss

    def _values(self) -> dict[str, int | float]:
        """Return what the launches ask for by name."""
        settings, decay = self.settings, float(self.settings.weight_decay)
        return {
            "seed": self.seed,
            "iteration": self.position.iteration,
            "learning_rate": float(settings.rate(self.position.epoch)),
            "momentum": float(settings.momentum),
            "weight_decay": decay,
            "bias_decay": decay if settings.decays == "all" else 0.0,
        }

    def accuracy(self) -> float | None:
        """Return the share of held-out images whose most probable class is right."""
        count, right = len(self.data.test_images), 0
        size = self._seen_at_once
        for i in range(0, count, size):
            images = self.data.test_images[i : i + size]
            labels = self.data.test_labels[i : i + size]
            evaluation = self._evaluation[len(images)]
            probabilities = evaluation.evaluate(images, labels, self._values())
            right += int((probabilities.argmax(axis=1) == labels).sum())
        return right / count if count else None

    def state(self) -> dict[str, Array]:
        """Return all that training changes, by its key in a checkpoint."""
        return {
            key: self.device.read(self.residents[tensor.name])
            for key, tensor in self._keys()
        }

    def _finite_state(self) -> dict[str, Array]:
        """Return the state. Raises NotFinite if an update has ruined it."""
        state = self.state()
        for key, array in state.items():
            if not np.isfinite(array).all():
                raise NotFinite(
                    f"iteration {self.position.iteration}: its update left a value "
                    f"that is not finite in {key}"
                )
        return state

    def _keys(self) -> Iterator[tuple[str, Tensor]]:
        net = self.planned.net
        # A state that no update changes is of one iteration, as a batch's mean is.
        updates = (run for run in route(net).runs() if run.phase == "update")
        changed = {tensor for run in updates for tensor in run.writes}
        for tensor in net.tensors("parameter", "momentum", "state"):
            if tensor.kind != "state" or tensor in changed:
                yield f"{tensor.kind}/{tensor.name}", tensor

    def checkpoint(self, epochs: int) -> Checkpoint:
        """Return what a training of so many epochs needs to continue from here.

        Raises NotFinite if a value in it is infinite or NaN.
        """
        return Checkpoint(self._finite_state(), self.position, self._about(epochs))

    def _about(self, epochs: int) -> About:
        net, data = self.planned.net, self.data
        bundled = data.name in datasets.BUNDLED
        return About(
            net.name,
            _layers(net),
            net.input_shape,
            data.name if bundled else str(Path(data.name).resolve()),
            self._data_hash,
            len(data.images),
            self.seed,
            self.init,
            self.planned.options.algorithms,
            self.planned.orders,
            epochs,
            self.settings,
        )

    @cached_property
    def _data_hash(self) -> str:
        return digest({"images": self.data.images, "labels": self.data.labels})

    def resume(self, found: Checkpoint, path: Path) -> None:
        """Continue from a checkpoint that was read from a path.

        Raises CheckpointError if continuing here would not end in the same bits.
        """
        checkpoints.check_same(found, self._about(0), path)
        tensors = dict(self._keys())
        shapes = {key: tensor.shape for key, tensor in tensors.items()}
        arrays = checkpoints.matched(found, shapes, path)
        for key, tensor in tensors.items():
            self.device.write(self.residents[tensor.name], arrays[key])
        self.position = found.position


def present(device: str) -> Literal["cpu", "cuda"]:
    """Return which device "cpu", "cuda" or "auto" means on this machine.

    Raises ValueError if there is no such device.
    """
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
    """Open the device "cpu", "cuda" or "auto".

    slab   bytes of device memory that are allocated at once
    host   bytes of host memory for copies of tensors

    Raises ValueError if there is no such device here, and MemoryError if its memory
    is too small.
    """
    if present(name) == "cuda":
        from snref.device.cuda import GPU

        return GPU(slab, host)
    from snref.device.cpu import CPU

    return CPU(slab, host, threads)


def _check_batch_norms(net: Net) -> None:
    """Raise ValueError if a batch normalization would train on one value a channel."""
    for node in net.nodes:
        values = node.x.size // node.x.shape[1]
        if isinstance(node.layer, BatchNorm) and values == 1:
            raise ValueError(
                f"{node.name}: a batch of 1 image has one value a channel here, and so "
                "no variance; choose a batch size that leaves no batch of 1 image"
            )


def _layers(net: Net) -> tuple[str, ...]:
    """Return each layer as text, with its settings and the layers that it reads.

    Forks are left out: they depend on declarations, which do not change the bits.
    """
    nodes = net.with_options("lean", "share").nodes
    return tuple(
        f"{node.name} = {_settings(node)}({', '.join(x.name for x in node.xs)})"
        for node in nodes
        if not isinstance(node.layer, Fork)
    )


def _settings(node: Node) -> str:
    """Return a layer's class with its settings, the same in every process."""
    layer = node.layer
    return repr(layer) if is_dataclass(layer) else type(layer).__name__


def _fitted(whole: Plan, within: Options) -> Plan:
    """Plan a smaller batch in the memory of the larger one."""
    cached = _cached(within)
    # Other addresses can need more than the same rules did for the larger batch.
    per_tensor = PER_TENSOR in (within.recompute, within.transfers)
    for options in (cached,) if per_tensor else (within, cached):
        with suppress(OutOfMemory):
            return schedule(whole, options)
    # The cache needs memory of the host, where recomputation may do.
    assert within.slab is not None
    _, plan = least_time(
        whole,
        costs(whole, machine("k40c")),
        within.slab,
        host_capacity=within.host_capacity,
        overwrite=within.overwrite,
        algorithms=within.algorithms,
    )
    return plan


def _seen_at_once(net: Net, slab: int) -> int:
    """Return how many images can be evaluated at once, of a batch at most.

    Evaluated alone, an image has the same probabilities as in a batch. So fewer are
    evaluated at once where only parts of a batch fit.
    """
    images = net.batch
    while images > 1 and lower_bound(inference(net.with_batch(images))) > slab:
        images = -(-images // 2)
    return images


def _cached(options: Options) -> Options:
    """Return options under which every net whose working sets fit has a plan."""
    return replace(options, liveness=True, recompute=None, transfers="cache")


def _batch_sizes(images: int, batch: int) -> set[int]:
    """Return the batch sizes that occur when so many images are divided."""
    sizes = {batch} if images >= batch else set()
    return sizes | {images % batch} - {0}
