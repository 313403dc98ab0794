"""``snref train``: train a net with real kernels within a memory budget."""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Any, get_args

from snref.commands import arguments as shared
from snref.device.present import find_gpu
from snref.net import Net
from snref.planning.planned import PRESET_NAMES, plan
from snref.planning.quickest import Overrides
from snref.planning.reports import PlannedNet
from snref.plans import OutOfMemory
from snref.scheduler.options import Algorithms
from snref.support.files import check_writable, complain
from snref.timing.costs import Costs
from snref.training import (
    Checkpoint,
    Decays,
    Initialisation,
    LaunchError,
    NotFinite,
    Progress,
    Settings,
    Trained,
    built,
    train,
)
from snref.training import checkpoint as checkpoints

EXAMPLE = "snref train digits --epochs 6 --memory 600KiB --compare"
SHARE = 0.6  # of the baseline's bytes: the budget of the bare "snref train digits"
EPOCHS = 12
SETTINGS = {  # by the name of the option
    "lr": "learning_rate",
    "lr_every": "every",
    "lr_factor": "factor",
    "momentum": "momentum",
    "weight_decay": "weight_decay",
    "decays": "decays",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_net(parser)
    # With --resume, what is not typed is as it was: so nothing has a default here.
    add = parser.add_argument
    add(
        "--data",
        metavar="DATA",
        help="digits, synthetic, a folder of IDX files (MNIST, Fashion-MNIST), a .npz "
        "file; default: digits for the net digits, else synthetic",
    )
    add(
        "--epochs",
        type=shared.at_least_one,
        metavar="E",
        help=f"in all, with those before --resume; default: {EPOCHS}",
    )
    add("--lr", type=float, metavar="RATE", help="default: 0.01")
    add(
        "--lr-every",
        type=whole,
        metavar="E",
        help="multiply the learning rate by --lr-factor after every E epochs, 0: "
        "never; default: 8",
    )
    add("--lr-factor", type=float, metavar="F", help="default: 0.1")
    add("--momentum", type=float, metavar="M", help="default: 0.9")
    add("--weight-decay", type=float, metavar="D", help="default: 0.0005")
    add(
        "--decays",
        choices=get_args(Decays),
        help="what weight decay acts on: all (default), or weights, without biases and "
        "without the scales and shifts of batch normalization",
    )
    add(
        "--init",
        choices=get_args(Initialisation),
        help="how weights are drawn; he (default): normal, gain/sqrt(fan-in), where "
        "the gain is sqrt(2) if a ReLU follows, 0.1 before the loss, else 1; xavier: "
        "uniform, up to sqrt(6/(fan-in + fan-out)); lecun: normal, 1/sqrt(fan-in); "
        "pytorch: uniform, up to 1/sqrt(fan-in), and biases alike",
    )
    add("--seed", type=whole, metavar="S", help="default: 0")
    add(
        "--algorithms",
        choices=get_args(Algorithms),
        help="of convolutions: without workspace (none); in the same order of "
        "summation, so with the same bits (exact, the default); any (fastest)",
    )
    shared.add_memory(parser)
    add(
        "--preset",
        choices=PRESET_NAMES,
        help="default: superneurons; with --memory the plan of least modelled time",
    )
    add(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="default: auto, the GPU if there is one",
    )
    add(
        "--costs",
        metavar="FILE",
        help="measured seconds, from snref profile, instead of a model",
    )
    add(
        "--compare",
        action="store_true",
        help="train the baseline, which holds everything, too, and compare the bits",
    )
    add("--save", metavar="FILE", help="write checkpoints (.npz)")
    add(
        "--save-every",
        type=shared.at_least_one,
        metavar="N",
        help="a checkpoint every N iterations; default: every epoch",
    )
    add(
        "--resume",
        metavar="FILE",
        help="go on from a checkpoint; what is not typed is as it was; learning rate, "
        "momentum, decay and epochs may be others",
    )


def whole(text: str) -> int:
    """Parse an argument as an integer of at least 0 (an argparse type)."""
    if not text.isdecimal() or int(text) >= 2**31:
        raise argparse.ArgumentTypeError(f"{text!r}: must be 0 to 2147483647")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    _check(arguments)
    if arguments.device == "auto" and (found := find_gpu()).works is False:
        print(f"on the CPU, since the GPU does not work: {found.says}")
        print("snref doctor names what repairs it\n")
    saved = checkpoints.load(Path(arguments.resume)) if arguments.resume else None
    shape = saved.about.input if saved else None
    net = built(arguments.net, arguments.batch, arguments.input_size, shape)
    net = shared.with_options(net, arguments)
    settings, epochs = _settings(arguments, saved)
    memory, compare = arguments.memory, arguments.compare
    costs = Costs.from_csv(arguments.costs) if arguments.costs else None
    if arguments.net == "digits" and memory is None and arguments.preset is None:
        memory = _tight(net, arguments.host_memory, costs, arguments.algorithms)
        compare = compare or not (arguments.resume or arguments.save)
    given = {
        "data": arguments.data,
        "epochs": epochs,
        "settings": settings,
        "seed": arguments.seed,
        "init": arguments.init,
        "algorithms": arguments.algorithms,
        "device": arguments.device,
    }
    under_budget = {
        "memory": memory,
        "host_memory": arguments.host_memory,
        "preset": arguments.preset,
        "costs": costs,
        "save": arguments.save,
        "save_every": arguments.save_every,
        "resume": arguments.resume,
        "on_plan": _show_plan,
    }
    trained = _train(net, given | under_budget)
    code = _report(trained, arguments.save)
    if compare and not trained.stopped:
        print("\nthe same with everything held: preset baseline, no budget\n")
        try:
            whole = _train(net, given | {"preset": "baseline"})
        except (LaunchError, NotFinite, MemoryError, OutOfMemory) as error:
            return _failed(f"nothing to compare with: the baseline failed: {error}")
        code = _compare(trained, whole) or code
    return code


def _settings(
    arguments: argparse.Namespace, saved: Checkpoint | None
) -> tuple[Settings, int | None]:
    """Return settings and epochs: as typed, else as saved, else the defaults.

    Prints what is other than it was saved.
    """
    typed = {
        name: value
        for option, name in SETTINGS.items()
        if (value := getattr(arguments, option)) is not None
    }
    if saved is None:
        return Settings(**typed), arguments.epochs or EPOCHS
    epochs = arguments.epochs or saved.about.epochs
    settings = replace(saved.about.settings, **typed)
    before = asdict(saved.about.settings) | {"epochs": saved.about.epochs}
    for name, value in (asdict(settings) | {"epochs": epochs}).items():
        if value != before[name]:
            print(f"{name.replace('_', ' ')}: {before[name]} -> {value}")
    return settings, epochs


def _tight(
    net: Net,
    host_memory: int | None,
    costs: Costs | None,
    algorithms: Algorithms | None,
) -> int:
    """Return a share of the baseline's bytes; for small batches, the least possible."""
    chosen: Overrides = {} if algorithms is None else {"algorithms": algorithms}
    memory = int(SHARE * plan(net, preset="baseline").total_bytes)
    try:
        plan(net, memory=memory, host_memory=host_memory, costs=costs, **chosen)
    except OutOfMemory as error:
        return max(memory, error.least)
    return memory


def _train(net: Net, given: Mapping[str, Any]) -> Trained:
    """Train with progress on the screen, until the last epoch or a signal to stop."""
    screen = _Screen()

    def warn(message: str) -> None:
        screen.end()
        complain(f"snref: {message}")

    with _stop_on_signals() as stop:
        try:
            return train(net, **given, progress=screen.show, stop=stop, warn=warn)
        finally:
            screen.end()


def _check(arguments: argparse.Namespace) -> None:
    """Raise ValueError or OSError for what is wrong, before anything is trained."""
    if arguments.save_every and not arguments.save:
        raise ValueError("--save-every needs --save FILE")
    for name in ("data", "costs", "save", "resume"):
        if getattr(arguments, name) == "":  # as --save "$FILE" without a FILE
            raise ValueError(f"--{name}: the name is empty")
    if arguments.save:
        check_writable(arguments.save)
        path = Path(arguments.save)
        if arguments.save == "-" or (path.exists() and not path.is_file()):
            raise ValueError(f"--save {arguments.save}: is no ordinary file")
    if arguments.compare and arguments.resume:
        raise ValueError("--compare trains from the beginning: without --resume")


def _show_plan(planned: PlannedNet) -> None:
    print(f"{planned.summary()}\n")
    print("the first iteration also compiles kernels, if none are cached", flush=True)


def _failed(message: str) -> int:
    complain(f"snref: {message}")
    return 1


def _report(trained: Trained, save: str | None) -> int:
    """Print how a training ended. Returns the exit code."""
    if trained.stopped:
        where = "; nothing is saved without --save"
        if save:
            where = f" and saved to {trained.saved}" if trained.saved else ", not saved"
        return _failed(f"stopped after iteration {trained.position.iteration}{where}")
    nbytes = trained.planned.total_bytes
    if not trained.losses:
        print("\nnothing to train: the checkpoint has all of these epochs")
    print(f"\ntrained in {trained.seconds:.1f} s, {nbytes:,} bytes of device memory")
    _show_result(trained)
    if save and trained.saved != Path(save):
        where = f"--resume {trained.saved} goes on" if trained.saved else "it is lost"
        return _failed(f"the last checkpoint is not in {save}: {where}")
    return 0


def _show_result(trained: Trained) -> None:
    if trained.accuracy is not None:
        print(f"held-out accuracy  {trained.accuracy:.2%}")
    print(f"weights            {trained.digest}", flush=True)


def _compare(trained: Trained, whole: Trained) -> int:
    """Print what the baseline came to beside the training. Returns the exit code."""
    if whole.stopped:
        return _failed("stopped: nothing to compare with")
    nbytes, most = trained.planned.total_bytes, whole.planned.total_bytes
    print(
        f"\nthe baseline in {whole.seconds:.1f} s, {most:,} bytes: with the budget "
        f"{nbytes / most:.0%} of them"
    )
    _show_result(trained)
    print(f"of the baseline    {whole.digest}")
    if whole.digest == trained.digest:
        print("the same, bit for bit")
        return 0
    if whole.planned.orders != trained.planned.orders:
        print("not the same: the two plans sum convolutions in other orders")
        return 0
    return _failed("the weights differ")


class _Screen:
    """Prints progress: a line for each epoch; on a terminal it is rewritten."""

    def __init__(self) -> None:
        self.live = sys.stdout.isatty()
        self.shown = 0.0
        self.epoch: list[Progress] = []  # its iterations so far

    def show(self, progress: "Progress") -> None:
        self.epoch.append(progress)
        last = progress.batch == progress.batches
        now = time.monotonic()
        if not last and not (self.live and now - self.shown > 0.1):
            return
        self.shown = now
        images = sum(done.images for done in self.epoch)
        loss = sum(done.loss * done.images for done in self.epoch) / images
        seconds = sum(done.seconds for done in self.epoch)
        line = (
            f"epoch {progress.epoch}  batch {progress.batch}/{progress.batches}  "
            f"loss {loss:.4f}  {images / seconds:,.0f} images/s  "
            f"{progress.nbytes:,} bytes in use"
        )
        start, end = ("\r", "\n" if last else "") if self.live else ("", "\n")
        print(f"{start}{line}", end=end, flush=True)
        if last:
            self.epoch.clear()

    def end(self) -> None:
        """Leave the line that is being rewritten."""
        if self.live and self.epoch:
            print()
        self.epoch.clear()


@contextmanager
def _stop_on_signals() -> Iterator[Callable[[], bool]]:
    """Turn the first signal to end into a request to stop; a second Ctrl-C interrupts.

    Gives a function that tells whether a signal has come.
    """
    asked = Event()

    def ask(signum: int, frame: FrameType | None) -> None:
        if signum == signal.SIGINT and asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        with suppress(OSError):  # the terminal may be closed
            os.write(2, b"\nsnref: stops after this iteration; Ctrl-C stops at once\n")

    names = ("SIGINT", "SIGTERM", "SIGHUP")  # the last is not on Windows
    numbers = (getattr(signal, name) for name in names if hasattr(signal, name))
    before = {number: signal.getsignal(number) for number in numbers}
    ours = [n for n, handler in before.items() if handler is not signal.SIG_IGN]
    for number in ours:  # not those that are ignored, as after nohup
        signal.signal(number, ask)
    try:
        yield asked.is_set
    finally:
        for number in ours:
            signal.signal(number, before[number])
