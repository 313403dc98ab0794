"""``snref train``: train a net with real kernels within a memory budget."""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, Any

from snref.commands import arguments as shared
from snref.net import Net
from snref.planning.planned import plan
from snref.planning.reports import PlannedNet
from snref.plans import OutOfMemory
from snref.scheduler import PRESETS
from snref.timing.costs import Costs

if TYPE_CHECKING:
    from snref.training import Progress, Trained

EXAMPLE = "snref train digits --epochs 6 --memory 600KiB --compare"
SHARE = 0.6  # of the baseline's bytes: the budget of the bare "snref train digits"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_net(parser)
    parser.add_argument(
        "--data",
        metavar="DATA",
        help="digits, synthetic, a folder of IDX files (MNIST, Fashion-MNIST), a .npz "
        "file; default: digits for the net digits, else synthetic",
    )
    parser.add_argument(
        "--epochs",
        type=shared.at_least_one,
        default=12,
        metavar="E",
        help="default: 12",
    )
    parser.add_argument(
        "--lr", type=positive, default=0.01, metavar="RATE", help="default: 0.01"
    )
    parser.add_argument(
        "--lr-every",
        type=whole,
        default=8,
        metavar="E",
        help="multiply the learning rate by --lr-factor after every E epochs, 0: "
        "never; default: 8",
    )
    parser.add_argument(
        "--lr-factor", type=positive, default=0.1, metavar="F", help="default: 0.1"
    )
    parser.add_argument(
        "--momentum", type=share, default=0.9, metavar="M", help="default: 0.9"
    )
    parser.add_argument(
        "--weight-decay", type=share, default=5e-4, metavar="D", help="default: 0.0005"
    )
    shared.add_memory(parser)
    parser.add_argument("--preset", choices=list(PRESETS))
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--costs", metavar="FILE", help="measured seconds (CSV)")
    parser.add_argument("--seed", type=whole, default=0, metavar="S")
    parser.add_argument(
        "--compare",
        action="store_true",
        help="train the baseline, which holds everything, too, and compare the bits",
    )
    parser.add_argument("--save", metavar="FILE", help="write checkpoints (.npz)")
    parser.add_argument(
        "--save-every",
        type=shared.at_least_one,
        metavar="N",
        help="a checkpoint every N iterations; default: every epoch",
    )
    parser.add_argument("--resume", metavar="FILE", help="go on from a checkpoint")


def positive(text: str) -> float:
    """The type of a rate."""
    number = _number(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: must be a number > 0")
    return number


def share(text: str) -> float:
    """The type of a number from 0 to below 1."""
    number = _number(text)
    if not 0 <= number < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: must be >= 0 and < 1")
    return number


def whole(text: str) -> int:
    """The type of a seed, and of a number of epochs that may be 0."""
    if not text.isdecimal() or int(text) >= 2**31:
        raise argparse.ArgumentTypeError(f"{text!r}: must be 0 to 2147483647")
    return int(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None


def run(arguments: argparse.Namespace) -> int:
    from snref.training import LaunchError, NotFinite, Settings

    _check(arguments)
    net = shared.net_of(arguments).with_options(image_gradient=False)
    memory, compare = arguments.memory, arguments.compare
    costs = Costs.from_csv(arguments.costs) if arguments.costs else None
    if arguments.net == "digits" and memory is None and arguments.preset is None:
        memory = _tight(net, arguments.host_memory, costs)
        compare = compare or not (arguments.resume or arguments.save)
    given = {
        "data": arguments.data,
        "epochs": arguments.epochs,
        "settings": Settings(
            arguments.lr,
            arguments.momentum,
            arguments.weight_decay,
            arguments.lr_factor,
            arguments.lr_every,
        ),
        "seed": arguments.seed,
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
    try:
        trained = _train(net, given | under_budget)
        if trained.stopped:
            where = "; nothing is saved without --save"
            if arguments.save:
                where = f" and saved to {arguments.save}"
            return _failed(
                f"stopped after iteration {trained.position.iteration}{where}"
            )
        whole = None
        if compare:
            print("\nthe same with everything held: preset baseline, no budget\n")
            whole = _train(net, given | {"preset": "baseline"})
            if whole.stopped:
                return _failed("stopped: nothing to compare with")
    except OutOfMemory:
        raise
    except (LaunchError, NotFinite, MemoryError) as error:
        return _failed(" ".join(str(error).split()))
    return _report(trained, whole)


def _tight(net: Net, host_memory: int | None, costs: Costs | None) -> int:
    """A share of the baseline's bytes; for small batches, the least that works."""
    memory = int(SHARE * plan(net, preset="baseline").total_bytes)
    try:
        plan(net, memory=memory, host_memory=host_memory, costs=costs)
    except OutOfMemory as error:
        return max(memory, error.least)
    return memory


def _train(net: Net, given: Mapping[str, Any]) -> "Trained":
    """Train with progress on the screen, until the last epoch or Ctrl-C."""
    from snref.training import train

    screen = _Screen()
    with _stop_on_interrupt() as stop:
        try:
            return train(net, **given, progress=screen.show, stop=stop)
        finally:
            screen.end()


def _check(arguments: argparse.Namespace) -> None:
    """What can be known to be wrong before anything is trained."""
    if arguments.save_every and not arguments.save:
        raise ValueError("--save-every needs --save FILE")
    for name in ("data", "costs", "save", "resume"):
        if getattr(arguments, name) == "":  # as --save "$FILE" without a FILE
            raise ValueError(f"--{name}: the name is empty")
    if arguments.save:
        path = Path(arguments.save).resolve()
        if path.is_dir():
            raise ValueError(f"--save {arguments.save}: is a folder")
        if path.exists() and not path.is_file():  # a device: it would be replaced
            raise ValueError(f"--save {arguments.save}: is no ordinary file")
        try:
            with tempfile.TemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            raise ValueError(
                f"--save {arguments.save}: cannot be written: {error.strerror}"
            ) from None
    if arguments.compare and arguments.resume:
        raise ValueError("--compare trains from the beginning: without --resume")


def _show_plan(planned: PlannedNet) -> None:
    print(f"{planned.summary()}\n")
    print("the first iteration also compiles kernels, if none are cached", flush=True)


def _failed(message: str) -> int:
    print(f"snref: {message}", file=sys.stderr)
    return 1


def _report(trained: "Trained", whole: "Trained | None") -> int:
    """The last lines: the accuracy, and the hash of the weights."""
    nbytes = trained.planned.total_bytes
    print(f"\ntrained in {trained.seconds:.1f} s, {nbytes:,} bytes of device memory")
    if whole is not None:
        most = whole.planned.total_bytes
        print(
            f"the baseline in {whole.seconds:.1f} s, {most:,} bytes: with the budget "
            f"{nbytes / most:.0%} of them"
        )
    if trained.accuracy is not None:
        print(f"held-out accuracy  {trained.accuracy:.2%}")
    print(f"weights            {trained.digest}")
    if whole is None:
        return 0
    print(f"of the baseline    {whole.digest}")
    if whole.digest != trained.digest:
        return _failed("the weights differ")
    print("the same, bit for bit")
    return 0


class _Screen:
    """Progress: a line an epoch, and on a terminal one that is rewritten."""

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
        loss = sum(done.loss for done in self.epoch) / len(self.epoch)
        images = sum(done.images for done in self.epoch)
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
def _stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """While inside, the first Ctrl-C only asks to stop; a second one interrupts."""
    asked = Event()

    def ask(signum: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        os.write(2, b"\nsnref: stops after this iteration; Ctrl-C again stops now\n")

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)
