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

    def folded(self, columns: Sequence[str]) -> tuple["Table", str]:
        """Leave out those of the columns that say the same in all rows.

        Returns what they say, too.

        >>> table = Table(("net", "fork", "n"), (("a", "copy", 1), ("b", "copy", 2)))
        >>> folded, said = table.folded(("fork", "n"))
        >>> folded.columns, said
        (('net', 'n'), 'fork copy')
        """
        by_name = dict(zip(self.columns, zip(*self.rows, strict=True), strict=True))
        alike = [name for name in columns if len(set(by_name[name])) == 1]
        kept = [number for number, n in enumerate(self.columns) if n not in alike]
        folded = Table(
            tuple(self.columns[number] for number in kept),
            [tuple(row[number] for number in kept) for row in self.rows],
        )
        return folded, ", ".join(f"{n} {_printed(by_name[n][0])}" for n in alike)

    def text(self) -> str:
        """Return aligned columns, with numbers to the right.

        A column's name takes several lines if it is wider than all its cells.
        """
        cells = [[_printed(cell) for cell in row] for row in self.rows]
        columns = [*zip(*cells, strict=True)] or [() for _ in self.columns]
        names = [
            _wrapped(name, max(map(len, column), default=0))
            for name, column in zip(self.columns, columns, strict=True)
        ]
        height = max(map(len, names))
        heads = zip(*(([""] * height + name)[-height:] for name in names), strict=True)
        cells = [*map(list, heads), *cells]
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


def _wrapped(name: str, width: int) -> list[str]:
    """Return a column's name in lines that are no wider than its cells, or one word.

    >>> _wrapped("copied out MiB", 9)
    ['copied', 'out MiB']
    """
    lines = [""]
    for word in name.split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and len(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _printed(cell: Cell) -> str:
    """Return a cell as people read it: fractions below 1 with four digits.

    >>> _printed(1489.35547), _printed(0.00029165027), _printed(0.0)
    ('1,489.355', '0.0002917', '0')
    """
    match cell:
        case None:
            return ""
        case int():
            return f"{cell:,}"
        case float():
            return f"{cell:,.3f}" if abs(cell) >= 1 else f"{cell:.4g}"
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
    # Files first: a reader that closes our output early, as "| head", loses none.
    for path, form in sorted(forms, key=lambda wanted: wanted[0] == "-"):
        if path is not None:
            write(path, form())
    if "-" not in places:
        print(text)
