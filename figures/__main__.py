"""Draw figures, measure their data, or compare all of them with the papers.

A figure is a module of this package with functions and nothing global:

    measure() -> rows          dictionaries with the same keys, in the order of the CSV
    draw(rows) -> Figure       draws, computes nothing

It may also have

    search(rows) -> rows       instead of measure, where that takes long or needs a
                               quiet machine: yields, one after the other, the rows that
                               are not there yet
    measure_net(name, batch) -> rows   the same for another net
    compare(rows) -> claims    of the papers: see ``snref/papers``
    caption(rows) -> str       a sentence on what to see; else its docstring's first one
    text(rows) -> str          tables, to be printed

Without NAME all figures are drawn, or measured. ``--measure long`` searches, and writes
each row at once. So it can be stopped with Ctrl-C, and begun again later; the head of
the CSV says with which versions it was made.
"""

import argparse
import csv
import io
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, BinaryIO

from matplotlib.figure import Figure
from PIL import Image

import figures
import snref
from figures import gallery
from figures.claims import Claim, legend, recalled, table
from snref.commands.arguments import at_least_one
from snref.commands.progress import Progress
from snref.nets import find
from snref.plans import InvalidPlan, OutOfMemory
from snref.support.files import check_writable, complain, replacing, write
from snref.support.imports import blamed, imported
from snref.support.units import shortened
from snref.views import styled

HERE = Path(__file__).parent
NO_FIGURES = "claims", "gallery"
FORMS = ".png", ".pdf"  # git ignores the latter


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    names = [*_names(), "compare"]
    parser = argparse.ArgumentParser(prog="python -m figures", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "name", choices=names, metavar="NAME", help=", ".join(names), nargs="?"
    )
    parser.add_argument(
        "--measure",
        nargs="?",
        const="anew",
        choices=["anew", "long"],
        help="measure anew; long: go on with a measurement that takes long",
    )
    parser.add_argument(
        "--net",
        metavar="NET",
        help="measure and draw the figure for this net, or for MODULE:FUNCTION",
    )
    parser.add_argument("--batch", type=at_least_one, metavar="N", help="of that net")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="where data/ and pictures/ are; default: beside the scripts, with --net "
        "the working folder",
    )
    arguments = parser.parse_args(argv)
    if arguments.batch and not arguments.net:
        parser.error("--batch is of a net: add --net")
    folder = arguments.out or (Path() if arguments.net else HERE)
    try:
        if arguments.net:
            return _of_net(arguments.name, arguments.net, arguments.batch, folder)
        if arguments.name == "compare":
            return _compare(folder)
        if arguments.name is None:
            code = _all(folder, arguments.measure)
        else:
            code = _figure(arguments.name, folder, arguments.measure)
        if (folder / "pictures").is_dir():
            page = gallery.page(dict(_captions(folder)))
            write(str(folder / "README.md"), page)
        return code
    except KeyboardInterrupt:
        complain("figures: stopped; what is measured is written")
        return 1
    except (OutOfMemory, InvalidPlan) as error:  # as of a net or a figure of one's own
        complain(f"figures: {error}")
        return 1
    except OSError as error:
        complain(f"figures: {error.filename}: {error.strerror}")
    except ValueError as error:
        complain(f"figures: {error}")
    return 2


def _names() -> list[str]:
    """Return the names of the figures: all modules that are not for all of them."""
    names = (info.name for info in iter_modules(figures.__path__))
    return [n for n in names if n not in NO_FIGURES and not n.startswith("_")]


def _all(folder: Path, measure: str | None) -> int:
    """Draw all figures; measure those first that take as long as is asked for.

    Returns 1 if one of them cannot be measured or drawn.
    """
    names = _names()
    worst = 0
    with Progress("figures", len(names)) as progress:
        for name in names:
            progress.show(name)
            try:
                asked = measure == ("long" if _has(name, "search") else "anew")
                worst |= _figure(name, folder, measure if asked else None)
            except (ValueError, OutOfMemory, InvalidPlan) as error:
                complain(f"figures: {error}")
                worst = 1
    return worst


def _figure(name: str, folder: Path, measure: str | None) -> int:
    """Draw a figure from its data, measured now or before, and print its claims."""
    data = folder / "data" / f"{name}.csv"
    takes_long = _has(name, "search")
    if measure == "anew" and takes_long:
        raise ValueError(f"{name} takes long: --measure long")
    if measure:
        data.parent.mkdir(parents=True, exist_ok=True)
        check_writable(str(data))
        if takes_long:
            _search(name, data)
        else:
            _write(data, _checked_rows(name, _called(name, "measure")))
    if not data.is_file():
        how = "--measure long" if takes_long else "--measure"
        complain(f"figures: {data}: not measured yet; add {how}")
        return 1
    rows = read(data)
    _draw(name, rows, folder, name)
    if claims := _claims(name, rows):
        print(table(claims))
    return 0


def _of_net(name: str | None, net: str, batch: int | None, folder: Path) -> int:
    """Measure and draw a figure for another net."""
    able = [each for each in _names() if _has(each, "measure_net")]
    if name not in able:
        raise ValueError(f"--net is for {', '.join(able)}")
    batch = find(net, batch).batch
    title = f"{name}_{''.join(c if c.isalnum() else '_' for c in net)}_b{batch}"
    data = folder / "data" / f"{title}.csv"
    data.parent.mkdir(parents=True, exist_ok=True)
    check_writable(str(data))
    _write(data, _checked_rows(name, _called(name, "measure_net", net, batch)))
    _draw(name, read(data), folder, title)
    picture = folder / "pictures" / title
    print(f"\nwritten: {data.resolve()}, {picture.resolve()}.png and .pdf")
    return 0


def _draw(name: str, rows: Sequence[dict[str, Any]], folder: Path, title: str) -> None:
    """Draw the rows of a figure, and print where it is, its table and its caption."""
    with styled():
        drawn = _called(name, "draw", rows)
        if not isinstance(drawn, Figure):
            raise ValueError(
                f"{name}.draw must return a Figure, returned {type(drawn).__name__}"
            )
        picture = folder / "pictures" / title
        picture.parent.mkdir(parents=True, exist_ok=True)
        for form in FORMS:
            with replacing(picture.with_name(title + form)) as file:
                _save(drawn, file, form)
    print(f"{picture}.png")
    if _has(name, "text"):
        print(f"\n{_called(name, 'text', rows)}\n")
    print(_caption(name, rows))


def _save(figure: Figure, file: BinaryIO, form: str) -> None:
    """Write a picture; a PNG in 64 colours, which is a third of the bytes."""
    if form != ".png":
        figure.savefig(file, format=form[1:])
        return
    made = io.BytesIO()
    figure.savefig(made, format="png")
    Image.open(made).convert("RGB").quantize(64).save(file, "PNG", optimize=True)


def _caption(name: str, rows: Sequence[dict[str, Any]]) -> str:
    """Return a sentence on what to see in a figure."""
    if _has(name, "caption"):
        said = _called(name, "caption", rows)
        if not isinstance(said, str):
            raise ValueError(
                f"{name}.caption must return text, returned {shortened(said)}"
            )
        return said
    return gallery.first_sentence(import_module(f"figures.{name}").__doc__)


def _captions(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the captions of all figures that are drawn; not of those that fail."""
    for name in _names():
        data, picture = folder / "data", folder / "pictures"
        if (data / f"{name}.csv").is_file() and (picture / f"{name}.png").is_file():
            try:
                yield name, _caption(name, read(data / f"{name}.csv"))
            except ValueError as error:
                complain(f"figures: {error}")


def _compare(folder: Path) -> int:
    """Print the claims of all figures that are measured, and what is only recalled.

    Returns 1 if a claim fails or a figure cannot be compared.
    """
    claims: list[Claim] = []
    broken = False
    for name in _names():
        data = folder / "data" / f"{name}.csv"
        if not data.is_file():
            complain(f"figures: {name}: not measured")
            continue
        try:
            claims += _claims(name, read(data))
        except ValueError as error:
            complain(f"figures: {error}")
            broken = True
    print(f"{table(claims)}\n\n{legend()}\n\n{recalled()}")
    return int(broken or any(claim.fails for claim in claims))


def _search(name: str, data: Path) -> None:
    """Measure the rows that the file lacks, and write it with each of them."""
    rows = read(data) if data.is_file() else []
    heads = dict.fromkeys([*_heads(data), _versions()])
    found = _called(name, "search", [*rows])
    while True:
        with blamed(name, "figure"):
            row = next(found, None)
        if row is None:
            return
        rows = _checked_rows(name, [*rows, row], "search")
        _write(data, rows, heads)


def _heads(data: Path) -> list[str]:
    """Return the comments above the rows of a file."""
    if not data.is_file():
        return []
    lines = data.read_text(encoding="utf-8").splitlines()
    return [line[2:] for line in lines if line.startswith("# ")]


def _versions() -> str:
    """Say on which machine, and with which versions, a measurement is made."""
    return (
        f"{os.cpu_count()} cores of {_processor()}, Python "
        f"{platform.python_version()}, snref {snref.__version__}, commit {_commit()}"
    )


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.is_file() else []
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _commit() -> str:
    """Return the commit of the clone; "unknown" if this is none."""
    command = ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def _has(name: str, function: str) -> bool:
    """Whether a figure has a function that not all figures have."""
    with blamed(name, "figure"):
        return hasattr(import_module(f"figures.{name}"), function)


def _called(name: str, function: str, *given: Any) -> Any:
    """Call a function of a figure. Raises ValueError that says where it fails."""
    call = imported(f"figures.{name}:{function}", "figure")
    with blamed(name, "figure"):
        return call(*given)


def _claims(name: str, rows: Sequence[dict[str, Any]]) -> list[Claim]:
    if not _has(name, "compare"):
        return []
    claims = _called(name, "compare", rows)
    if not isinstance(claims, list | tuple) or not all(
        isinstance(c, Claim) for c in claims
    ):
        raise ValueError(
            f"{name}.compare must return a list of claims, returned {shortened(claims)}"
        )
    return [*claims]


def _checked_rows(
    name: str, rows: Any, function: str = "measure"
) -> list[dict[str, Any]]:
    """Return rows that a CSV file can hold. Raises ValueError for any others."""
    if not isinstance(rows, list | tuple) or not rows:
        raise ValueError(f"{name}.measure must return rows, returned {shortened(rows)}")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict) or list(row) != list(rows[0]):
            raise ValueError(
                f"{name}.{function}: row {number} has other keys than the first: "
                f"{shortened(row)}"
            )
    return [*rows]


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a CSV file, with numbers as numbers, without its comments.

    Raises ValueError if there are none, or one has more or fewer columns than the head.
    """
    with path.open(newline="", encoding="utf-8") as file:
        lines = [*csv.DictReader(line for line in file if not line.startswith("# "))]
    if not lines:
        raise ValueError(f"{path}: has no rows; measure anew")
    for number, line in enumerate(lines, 1):
        if None in line or None in line.values():
            raise ValueError(f"{path}: row {number} has other columns than the head")
    return [{key: _value(text) for key, text in line.items()} for line in lines]


def _value(text: str) -> int | float | str:
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _write(
    path: Path, rows: Sequence[dict[str, Any]], heads: Iterable[str] = ()
) -> None:
    text = io.StringIO()
    text.writelines(f"# {head}\n" for head in heads)
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write(str(path), text.getvalue())


if __name__ == "__main__":
    sys.exit(main())
