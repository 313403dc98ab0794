"""Print a table as text for people, as CSV and as LaTeX."""

import argparse
import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from snref.support.files import write

Cell: TypeAlias = str | int | float | None

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        **{character: f"\\{character}" for character in "&%$#_{}"},
    }
)


@dataclass(frozen=True)
class Table:
    """Rows of cells under named columns. None is an empty cell.

    >>> table = Table(("net", "bytes"), (("lenet", 1234), ("alexnet", None)))
    >>> print(table.text())
    net      bytes
    lenet    1,234
    alexnet
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def text(self) -> str:
        """Return aligned columns, with numbers to the right."""
        cells = [list(self.columns)] + [[_printed(c) for c in row] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        right = [
            all(not isinstance(cell, str) for cell in column)
            for column in zip(*self.rows, strict=True)
        ]
        lines = []
        for row in cells:
            padded = [
                cell.rjust(width) if to_the_right else cell.ljust(width)
                for cell, width, to_the_right in zip(row, widths, right, strict=True)
            ]
            lines.append("  ".join(padded).rstrip())
        return "\n".join(lines)

    def csv(self) -> str:
        """Return the table as CSV, with numbers as Python prints them."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(self.columns)
        rows.writerows(self.rows)
        return text.getvalue()

    def latex(self) -> str:
        """Return the table as a LaTeX tabular for the package booktabs."""
        columns = "".join(
            "l" if any(isinstance(cell, str) for cell in column) else "r"
            for column in zip(*self.rows, strict=True)
        )
        lines = [
            " & ".join(_printed(cell).translate(_LATEX) for cell in row) + r" \\"
            for row in (self.columns, *self.rows)
        ]
        return "\n".join(
            [
                rf"\begin{{tabular}}{{{columns}}}",
                r"\toprule",
                lines[0],
                r"\midrule",
                *lines[1:],
                r"\bottomrule",
                r"\end{tabular}",
                "",
            ]
        )


def _printed(cell: Cell) -> str:
    """Return a cell as people read it."""
    match cell:
        case None:
            return ""
        case int():
            return f"{cell:,}"
        case float():
            return f"{cell:,.4f}"
        case str():
            return cell


def put(
    arguments: argparse.Namespace, text: str, table: Table, report: dict[str, Any]
) -> None:
    """Write the forms that were asked for, and print the text.

    The text is not printed if one of the forms goes to standard output. Raises
    ValueError if two forms are to go to the same file.
    """
    forms: list[tuple[str | None, Callable[[], str]]] = [
        (arguments.json, lambda: json.dumps(report, indent=1) + "\n"),
        (arguments.csv, table.csv),
        (arguments.latex, table.latex),
    ]
    places = [path for path, _ in forms if path is not None]
    for place in places:
        if places.count(place) > 1:
            raise ValueError(f"{place!r} takes only one of --json, --csv and --latex")
    if "-" not in places:
        print(text)
    for path, form in forms:
        if path is not None:
            write(path, form())
