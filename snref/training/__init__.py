"""Training: iterations of a plan over batches of images, within a memory budget.

``train`` joins all parts: data, a plan that fits, a device whose slab has exactly the
plan's size, and checkpoints. The parameters do not depend on the plan: plans with the
same summation orders train to the same bits.

Read in this order:

1. settings    how to descend
2. parameters  what it starts from, and the hash of where it ends
3. iteration   one batch: the plan, up to the loss and on to the update
4. session     epochs, evaluation
5. checkpoint  what is saved, and whether a training may continue from it
"""

import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

from snref import data as datasets
from snref.data import Dataset
from snref.net import Net, inference, route
from snref.nets import find
from snref.planning.planned import plan
from snref.planning.quickest import Overrides
from snref.planning.reports import PlannedNet
from snref.plans import Shape
from snref.scheduler.options import Algorithms
from snref.support.limits import check_memory
from snref.timing.costs import Costs
from snref.training import checkpoint as checkpoints
from snref.training.checkpoint import Checkpoint, CheckpointError
from snref.training.execution import LaunchError
from snref.training.iteration import NotFinite, classes
from snref.training.parameters import Initialisation
from snref.training.session import Progress, Session, Trained, open_device, present
from snref.training.settings import Decays, Settings

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "Decays",
    "Initialisation",
    "LaunchError",
    "NotFinite",
    "Progress",
    "Session",
    "Settings",
    "Trained",
    "built",
    "open_device",
    "train",
]


def train(
    net: str | Net,
    *,
    data: str | Path | Dataset | None = None,
    batch: int | None = None,
    epochs: int | None = None,
    input_size: int | None = None,
    settings: Settings | None = None,
    seed: int | None = None,
    init: Initialisation | None = None,
    algorithms: Algorithms | None = None,
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
    warn: Callable[[str], object] = warnings.warn,
) -> Trained:
    """Train a net.

    net          a name of ``snref.nets.find``, or a net
    data         "digits", "synthetic", a folder of IDX files, a .npz file, a Dataset;
                 default: digits for the net digits, else synthetic
    batch        images an iteration; default: 32, or the batch of a net that is given
    epochs       in all, counted from the very first; default: 1
    input_size   height and width of the images, for a net that is given by name
    settings     learning rate, momentum, weight decay; default: ``Settings()``
    seed         of weights, order of images and dropout; default: 0
    init         how weights are drawn: "he" (default), "xavier", "lecun", "pytorch";
                 see ``parameters.initial``
    algorithms   of convolutions: "none", "exact", "fastest" (``scheduler.Options``)
    memory       bytes of the device that the run may use; with it, and without preset,
                 the plan of least modelled time that fits
    device       "cpu", "cuda", or "auto": the GPU if there is one
    threads      of the CPU device; default: the machine's
    save         a file for checkpoints: after every epoch, or save_every iterations,
                 and when the training ends or is stopped
    resume       a checkpoint to continue from. Of the arguments up to algorithms, those
                 that are not given are taken from it. Settings and epochs may change,
                 and memory, preset and device; all else must be the same
    on_plan      called with the plan before training begins
    progress     called after every iteration
    stop         called after every iteration; training ends if it returns true
    warn         called with a message if a checkpoint cannot be saved (``Keeper``)

    Raises OutOfMemory if no plan fits, DataError and CheckpointError for files that
    cannot be used, LaunchError for a kernel that cannot be compiled or launched,
    NotFinite if a loss or a parameter becomes infinite or NaN, MemoryError if the
    machine has less memory than the plan was given, and ValueError for arguments that
    contradict each other.

    >>> trained = train("digits", epochs=1, device="cpu", memory="620KB")
    >>> trained.accuracy > 0.8, trained.planned.total_bytes < 620_000
    (True, True)
    """
    if save_every is not None and (save is None or save_every < 1):
        raise ValueError(f"save_every {save_every}: must be >= 1, and needs save")
    saved = None if resume is None else checkpoints.load(Path(resume))
    before = saved.about if saved else None
    net = built(net, batch, input_size, before.input if before else None)
    check_kernels(net)
    device = present(device)
    if before is not None:
        data = before.data if data is None else data
        epochs = before.epochs if epochs is None else epochs
        seed = before.seed if seed is None else seed
        init = init or cast(Initialisation, before.init)
        algorithms = algorithms or cast(Algorithms, before.algorithms)
        settings = settings or before.settings
    init, seed, epochs = init or "he", seed or 0, 1 if epochs is None else epochs
    chosen: Overrides = {} if algorithms is None else {"algorithms": algorithms}
    planned = plan(
        net,
        preset=preset,
        memory=memory,
        host_memory=host_memory,
        costs=costs,
        **chosen,
    )
    if device == "cpu":
        check_memory(planned.total_bytes + planned.host_bytes, f"training {net.name}")
    if not isinstance(data, Dataset):
        data = datasets.load(
            data or ("digits" if net.name == "digits" else "synthetic"),
            image_shape=net.input_shape[1:],
            classes=classes(net),
            count=max(4 * net.batch, 64),
            seed=seed,
        )
    _check_data(net, data)
    session = Session(
        planned, data, settings or Settings(), device, threads, seed=seed, init=init
    )
    if saved is not None:
        session.resume(saved, Path(str(resume)))
    if on_plan is not None:  # once nothing is left that would refuse to begin
        on_plan(planned)
    return session.run(
        epochs,
        save=None if save is None else Path(save),
        save_every=save_every,
        progress=progress,
        stop=stop,
        warn=warn,
    )


def built(
    net: str | Net,
    batch: int | None = None,
    input_size: int | None = None,
    like: Shape | None = None,
) -> Net:
    """Return the net to train: without the gradient of the images, which nothing reads.

    What is not given is as in the shape ``like`` of another training's input, or as
    ``train`` says. Raises ValueError for an unknown name or an impossible size.
    """
    if isinstance(net, Net):
        if input_size is not None:
            raise ValueError(
                f"input_size {input_size}: {net.name} has its size already"
            )
        if batch is not None and batch != net.batch:
            net = net.with_batch(batch)
    else:
        name, batch = net, batch or (like[0] if like else None)
        net = find(name, batch, input_size)
        if like and input_size is None and net.input_shape[1:] != like[1:]:
            with suppress(ValueError):  # it has no such size: it is another net
                net = find(name, batch, like[-1])
    return net.with_options(image_gradient=False)


def check_kernels(net: Net) -> None:
    """Raise ValueError if the net can be planned, but not run."""
    from snref.kernels import check_arguments

    for run in (*route(net).runs(), *inference(net).runs()):
        for launch in run.launches:
            if not launch.is_written:
                raise ValueError(
                    f"{net.name} can be planned only: {run.layer} has no kernel yet"
                )
            try:
                check_arguments(launch)
            except ValueError as error:
                raise ValueError(f"layer {run.layer!r}, {run.phase}: {error}") from None


def _check_data(net: Net, data: Dataset) -> None:
    """Raise ValueError if the net cannot be trained on the data."""
    found, taken = data.image_shape, net.input_shape[1:]
    if found != taken:
        hint = ""
        if (found[-1], *found[:-1]) == taken:  # as Keras has them
            hint = "; images.transpose(0, 3, 1, 2) puts the channels first"
        raise ValueError(
            f"{data.name} has images of {_by(found)}, {net.name} takes "
            f"{_by(taken)}{hint}"
        )
    if net.batch > len(data.images):
        raise ValueError(
            f"batch {net.batch}: {data.name} has {len(data.images)} images to train on"
        )
    data.check(classes(net))


def _by(shape: Shape) -> str:
    return " x ".join(map(str, shape))
