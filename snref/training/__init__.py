"""Training: iterations of a plan over batches of images, within a memory budget.

``train`` joins all parts: data, a plan that fits, a device whose slab has exactly the
plan's size, checkpoints. What it does to the parameters does not depend on the plan:
plans with the same summation orders train to the same bits.

Read in this order:

1. parameters  what it starts from, and the hash of where it ends
2. iteration   one batch: the plan, up to the loss and on to the update
3. session     epochs, evaluation, checkpoints
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from snref import data as datasets
from snref.data import Dataset
from snref.net import Net, inference, route
from snref.nets import find
from snref.planning.planned import plan
from snref.planning.reports import PlannedNet
from snref.plans import Shape
from snref.timing.costs import Costs
from snref.training.execution import LaunchError
from snref.training.iteration import NotFinite, classes
from snref.training.session import (
    Progress,
    Session,
    Settings,
    Trained,
    open_device,
    present,
)

__all__ = [
    "LaunchError",
    "NotFinite",
    "Progress",
    "Session",
    "Settings",
    "Trained",
    "open_device",
    "train",
]


def train(
    net: str | Net,
    *,
    data: str | Path | Dataset | None = None,
    batch: int | None = None,
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

    net          a name of ``snref.nets.find``, or a net
    data         "digits", "synthetic", a folder of IDX files, a .npz file, a Dataset;
                 default: digits for the net digits, else synthetic
    batch        images an iteration; default: 32, or the batch of a net that is given
    memory       bytes of the device that the run may use; with it, and without preset,
                 the plan of least modelled time that fits
    device       "cpu", "cuda", or "auto": the GPU if there is one
    threads      of the CPU device; default: the machine's
    save         a file for checkpoints: after every epoch, or save_every iterations,
                 and when the training ends or is stopped
    resume       a checkpoint to go on from
    on_plan, progress   called with the plan, and after every iteration
    stop         asked after every iteration

    Raises OutOfMemory if nothing fits, DataError and CheckpointError for files that
    will not do, LaunchError for a kernel that cannot be compiled or launched, NotFinite
    if the loss becomes infinite or NaN, MemoryError if the machine has less memory than
    the plan was given, and ValueError for what does not go together.

    >>> trained = train("digits", epochs=1, device="cpu", memory="620KB")
    >>> trained.accuracy > 0.8, trained.planned.total_bytes < 620_000
    (True, True)
    """
    settings = replace(settings or Settings(), seed=seed)
    if isinstance(net, str):
        net = find(net, batch or 32, input_size)
    elif batch is not None and batch != net.batch:
        net = net.with_batch(batch)
    net = net.with_options(image_gradient=False)  # which no update reads
    check_kernels(net)
    device = present(device)
    if not isinstance(data, Dataset):
        data = datasets.load(
            data or ("digits" if net.name == "digits" else "synthetic"),
            image_shape=net.input_shape[1:],
            classes=classes(net),
            count=max(4 * net.batch, 64),
            seed=seed,
        )
    _check_data(net, data)
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
    if data.image_shape != net.input_shape[1:]:
        raise ValueError(
            f"{data.name} has images of {_by(data.image_shape)}, {net.name} takes "
            f"{_by(net.input_shape[1:])}"
        )
    if net.batch > len(data.images):
        raise ValueError(
            f"batch {net.batch}: {data.name} has {len(data.images)} images to train on"
        )
    data.check(classes(net))


def _by(shape: Shape) -> str:
    return " x ".join(map(str, shape))
