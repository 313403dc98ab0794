"""Draw a figure, measure its data, or compare all figures with the papers.

A figure is a module of this package with three functions and nothing global:

    measure() -> rows          dictionaries with the same keys, in the order of the CSV
    draw(rows) -> Figure       draws, computes nothing
    compare(rows) -> claims    of the papers: see ``Claim``
"""

import argparse
import csv
import io
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import figures
from figures.claims import Claim, table
from snref.support.files import check_writable, complain, replacing, write

HERE = Path(__file__).parent


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    names = [*_modules(), "compare"]
    parser = argparse.ArgumentParser(prog="python -m figures", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("name", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--measure", action="store_true", help="measure anew")
    parser.add_argument(
        "--out",
        type=Path,
        default=HERE,
        metavar="FOLDER",
        help="where data/ and pictures/ are; default: beside the scripts",
    )
    arguments = parser.parse_args(argv)
    try:
        if arguments.name == "compare":
            return _compare(arguments.out)
        return _figure(arguments.name, arguments.out, arguments.measure)
    except OSError as error:
        complain(f"figures: {error.filename}: {error.strerror}")
        return 2


def _figure(name: str, folder: Path, measure: bool) -> int:
    """Draw a figure from its data, measured now or before, and print its claims."""
    module = _modules()[name]
    data, picture = folder / "data" / f"{name}.csv", folder / "pictures" / f"{name}.png"
    if measure:
        data.parent.mkdir(parents=True, exist_ok=True)
        check_writable(str(data))
        _write(data, module.measure())
    if not data.is_file():
        complain(f"figures: {data}: not measured yet; add --measure")
        return 1
    rows = read(data)
    picture.parent.mkdir(parents=True, exist_ok=True)
    with replacing(picture) as file:
        module.draw(rows).savefig(file, dpi=150, bbox_inches="tight")
    print(picture)
    if claims := module.compare(rows):
        print(table(claims))
    return 0


def _modules() -> dict[str, ModuleType]:
    """Return the figures by name."""
    found = {}
    for info in iter_modules(figures.__path__):
        if not info.name.startswith("_"):
            module = import_module(f"figures.{info.name}")
            if hasattr(module, "measure"):
                found[info.name] = module
    return found


def _compare(folder: Path) -> int:
    """Print the claims of all figures that are measured; 1 if an exact one fails."""
    claims: list[Claim] = []
    for name, module in _modules().items():
        data = folder / "data" / f"{name}.csv"
        if data.is_file():
            claims += module.compare(read(data))
        else:
            complain(f"figures: {name}: not measured")
    print(table(claims))
    return int(any(claim.fails for claim in claims))


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a CSV file, with numbers as numbers."""
    with path.open(newline="", encoding="utf-8") as file:
        return [{k: _value(v) for k, v in row.items()} for row in csv.DictReader(file)]


def _value(text: str) -> int | float | str:
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write(str(path), text.getvalue())


if __name__ == "__main__":
    sys.exit(main())
