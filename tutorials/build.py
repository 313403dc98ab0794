"""Make the notebooks of the tutorials: ``python -m tutorials.build``.

A tutorial is a Python file, ``1_kernels.py``, in the percent format that Jupytext and
editors know: "# %% [markdown]" begins a cell of text, whose lines are comments, and
"# %%" a cell of code. The notebook beside it, ``1_kernels.ipynb``, is made from it and
has no outputs. Change the Python file, never the notebook.
"""

import json
from pathlib import Path
from typing import Any

from snref.support.files import write

HERE = Path(__file__).parent


def sources() -> list[Path]:
    """Return the tutorials: the files whose names begin with a number, in order."""
    return sorted(HERE.glob("[0-9]*.py"))


def cells(text: str) -> list[tuple[str, str]]:
    """Return the cells of a file in the percent format: (kind, source) for each.

    >>> cells("# %% [markdown]\\n# # Title\\n#\\n# Text.\\n\\n# %%\\nx = 1\\n")
    [('markdown', '# Title\\n\\nText.'), ('code', 'x = 1')]
    """
    found: list[tuple[str, str]] = []
    head, *parts = ("\n" + text).split("\n# %%")
    if head.strip():
        raise ValueError(f"text before the first cell: {head.strip()[:40]!r}")
    for part in parts:
        marker, _, source = part.partition("\n")
        kind = "markdown" if marker.strip() == "[markdown]" else "code"
        if kind == "markdown":
            lines = source.strip().splitlines()
            source = "\n".join(
                line.removeprefix("#").removeprefix(" ") for line in lines
            )
        found.append((kind, source.strip()))
    return found


def notebook(text: str) -> str:
    """Return the notebook that is made of such a file, as the text of an .ipynb."""
    made: list[dict[str, Any]] = []
    for number, (kind, source) in enumerate(cells(text), 1):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}"}
        if kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        cell |= {"metadata": {}, "source": source.splitlines(keepends=True)}
        made.append(cell)
    python = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {
        "cells": made,
        "metadata": {"kernelspec": python, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    for source in sources():
        target = source.with_suffix(".ipynb")
        write(str(target), notebook(source.read_text(encoding="utf-8")))
        print(target)


if __name__ == "__main__":
    main()
