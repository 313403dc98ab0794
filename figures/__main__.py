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
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from matplotlib.figure import Figure

import figures
from figures.claims import Claim, table
from snref.support.files import check_writable, complain, replacing, write
from snref.support.imports import blamed, imported
from snref.support.units import shortened

HERE = Path(__file__).parent


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    names = [*_names(), "compare"]
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
    except ValueError as error:
        complain(f"figures: {error}")
    return 2


def _names() -> list[str]:
    """Return the names of the figures: all modules but claims and those with "_"."""
    names = (info.name for info in iter_modules(figures.__path__))
    return [name for name in names if name != "claims" and not name.startswith("_")]


def _figure(name: str, folder: Path, measure: bool) -> int:
    """Draw a figure from its data, measured now or before, and print its claims."""
    data, picture = folder / "data" / f"{name}.csv", folder / "pictures" / f"{name}.png"
    if measure:
        data.parent.mkdir(parents=True, exist_ok=True)
        check_writable(str(data))
        _write(data, _checked_rows(name, _called(name, "measure")))
    if not data.is_file():
        complain(f"figures: {data}: not measured yet; add --measure")
        return 1
    rows = read(data)
    drawn = _called(name, "draw", rows)
    if not isinstance(drawn, Figure):
        raise ValueError(
            f"{name}.draw must return a Figure, returned {type(drawn).__name__}"
        )
    picture.parent.mkdir(parents=True, exist_ok=True)
    with replacing(picture) as file:
        drawn.savefig(file, dpi=150, bbox_inches="tight")
    print(picture)
    if claims := _claims(name, rows):
        print(table(claims))
    return 0


def _compare(folder: Path) -> int:
    """Print the claims of all figures that are measured.

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
    print(table(claims))
    return int(broken or any(claim.fails for claim in claims))


def _called(name: str, function: str, *rows: Sequence[dict[str, Any]]) -> Any:
    """Call a function of a figure. Raises ValueError that says where it fails."""
    call = imported(f"figures.{name}:{function}", "figure")
    with blamed(name, "figure"):
        return call(*rows)


def _claims(name: str, rows: Sequence[dict[str, Any]]) -> list[Claim]:
    claims = _called(name, "compare", rows)
    if not isinstance(claims, list | tuple) or not all(
        isinstance(c, Claim) for c in claims
    ):
        raise ValueError(
            f"{name}.compare must return a list of claims, returned {shortened(claims)}"
        )
    return [*claims]


def _checked_rows(name: str, rows: Any) -> list[dict[str, Any]]:
    """Return rows that a CSV file can hold. Raises ValueError for any others."""
    if not isinstance(rows, list | tuple) or not rows:
        raise ValueError(f"{name}.measure must return rows, returned {shortened(rows)}")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict) or list(row) != list(rows[0]):
            raise ValueError(
                f"{name}.measure: row {number} has other keys than the first: "
                f"{shortened(row)}"
            )
    return [*rows]


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a CSV file, with numbers as numbers.

    Raises ValueError if there are none, or one has more or fewer columns than the head.
    """
    with path.open(newline="", encoding="utf-8") as file:
        lines = [*csv.DictReader(file)]
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


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write(str(path), text.getvalue())


if __name__ == "__main__":
    sys.exit(main())
