"""``snref train``: train a net with real kernels within a memory budget."""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING

from snref.commands import arguments as shared
from snref.costs import Costs
from snref.nets import find
from snref.planning import plan
from snref.scheduler import PRESETS

if TYPE_CHECKING:
    from snref.training import Progress, Trained

EXAMPLE = "snref train digits --epochs 6 --memory 400KiB --compare"
SHARE = 0.6  # of the baseline's bytes: the budget of the bare "snref train digits"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_net(parser)
    parser.add_argument(
        "--data",
        metavar="DATA",
        help="digits, synthetic, a folder of IDX files (MNIST, Fashion-MNIST), a .npz "
        "file; default: digits for the net digits, else synthetic",
    )
    parser.add_argument("--epochs", type=shared.at_least_one, default=6, metavar="E")
    parser.add_argument(
        "--lr", type=positive, default=0.02, metavar="RATE", help="default: 0.02"
    )
    parser.add_argument(
        "--lr-every",
        type=shared.at_least_one,
        metavar="E",
        help="multiply the learning rate by --lr-factor after every E epochs",
    )
    parser.add_argument("--lr-factor", type=positive, default=0.1, metavar="F")
    parser.add_argument("--momentum", type=share, default=0.9, metavar="M")
    parser.add_argument("--weight-decay", type=share, default=5e-4, metavar="D")
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
    """The type of a seed."""
    if not text.isdecimal() or int(text) >= 2**31:
        raise argparse.ArgumentTypeError(f"{text!r}: must be 0 to 2147483647")
    return int(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None


def run(arguments: argparse.Namespace) -> int:
    from snref.training import Settings, train  # imports numpy and numba

    _check(arguments)
    net = find(arguments.net, arguments.batch, arguments.input_size)
    net = net.with_options(arguments.declarations, arguments.fork)
    memory, compare = arguments.memory, arguments.compare
    if arguments.net == "digits" and memory is None and arguments.preset is None:
        memory = int(SHARE * plan(net, preset="baseline").total_bytes)
        compare = compare or not (arguments.resume or arguments.save)
    settings = Settings(
        arguments.lr,
        arguments.momentum,
        arguments.weight_decay,
        arguments.lr_factor,
        arguments.lr_every or 0,
    )
    common = {
        "data": arguments.data,
        "batch": arguments.batch,
        "epochs": arguments.epochs,
        "settings": settings,
        "seed": arguments.seed,
        "device": arguments.device,
    }
    screen = _Screen()
    with _stop_on_interrupt() as stop:
        trained = train(
            net,
            **common,
            memory=memory,
            host_memory=arguments.host_memory,
            preset=arguments.preset,
            costs=Costs.from_csv(arguments.costs) if arguments.costs else None,
            save=arguments.save,
            save_every=arguments.save_every,
            resume=arguments.resume,
            on_plan=lambda planned: print(f"{planned.summary()}\n", flush=True),
            progress=screen.show,
            stop=stop,
        )
        screen.end()
        if trained.stopped:
            where = f" and saved to {arguments.save}" if arguments.save else ""
            done = trained.position
            print(f"stopped after iteration {done.iteration}{where}", file=sys.stderr)
            return 1
        whole = None
        if compare:
            print("\nthe same with everything held: preset baseline, no budget\n")
            whole = train(
                net, **common, preset="baseline", progress=screen.show, stop=stop
            )
            screen.end()
            if whole.stopped:
                print("stopped", file=sys.stderr)
                return 1
    return _report(trained, whole, memory)


def _check(arguments: argparse.Namespace) -> None:
    """What can be known to be wrong before anything is trained."""
    if arguments.save_every and not arguments.save:
        raise ValueError("--save-every needs --save FILE")
    if arguments.save and not Path(arguments.save).resolve().parent.is_dir():
        raise ValueError(f"--save {arguments.save}: no such folder")
    if arguments.save and Path(arguments.save).is_dir():
        raise ValueError(f"--save {arguments.save}: is a folder")


def _report(trained: "Trained", whole: "Trained | None", memory: int | None) -> int:
    """The last lines: the accuracy, and the hash of the weights."""
    planned = trained.planned
    print(f"\ntrained in {trained.seconds:.1f} s", end="")
    print(f", {planned.total_bytes:,} bytes of device memory", end="")
    if whole is not None:
        part = planned.total_bytes / whole.planned.total_bytes
        print(
            f": {part:.0%} of the {whole.planned.total_bytes:,} of the baseline, "
            f"which took {whole.seconds:.1f} s",
            end="",
        )
    print()
    if trained.accuracy is not None:
        print(f"held-out accuracy  {trained.accuracy:.2%}")
    print(f"weights            {trained.digest}")
    if whole is None:
        return 0
    print(f"of the baseline    {whole.digest}")
    if whole.digest != trained.digest:
        print("snref: the weights differ", file=sys.stderr)
        return 1
    print("the same, bit for bit")
    return 0


class _Screen:
    """Progress: a line an epoch, and on a terminal one that is rewritten."""

    def __init__(self) -> None:
        self.live = sys.stdout.isatty()
        self.shown = 0.0
        self.losses: list[float] = []

    def show(self, progress: "Progress") -> None:
        self.losses.append(progress.loss)
        last = progress.batch == progress.batches
        now = time.monotonic()
        if not last and not (self.live and now - self.shown > 0.1):
            return
        self.shown = now
        loss = sum(self.losses) / len(self.losses)
        line = (
            f"epoch {progress.epoch}  batch {progress.batch}/{progress.batches}  "
            f"loss {loss:.4f}  {progress.images_per_second:,.0f} images/s  "
            f"{progress.nbytes:,} bytes in use"
        )
        start, end = ("\r", "\n" if last else "") if self.live else ("", "\n")
        print(f"{start}{line}", end=end, flush=True)
        if last:
            self.losses.clear()

    def end(self) -> None:
        """Leave the line that is being rewritten."""
        if self.live and self.losses:
            print()
        self.losses.clear()


@contextmanager
def _stop_on_interrupt() -> Iterator[Callable[[], bool]]:
    """While inside, the first Ctrl-C only asks to stop; a second one interrupts."""
    asked = Event()

    def ask(signum: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)
