"""The page of all pictures, ``figures/README.md``: made from the figures' data."""

from collections.abc import Mapping, Sequence

SECTIONS: Mapping[str, Sequence[str]] = {
    "SuperNeurons (Wang et al., PPoPP 2018)": (
        "motivation",
        "breakdown",
        "memory",
        "recomputation",
        "pool",
        "transfers",
        "cache_speed",
        "workspaces",
        "capacity",
        "wider",
        "demand",
        "throughput",
    ),
    "Backward in forward's memory (Shirahata et al., MLSP 2016)": ("reuse",),
    "Beyond both": (
        "budget",
        "quickest",
        "half_baseline",
        "splitting",
        "planning_time",
        "measured",
        "kernels",
        "resources",
        "training",
    ),
}
HEAD = """\
# Figures

Made by `python -m figures`; do not edit. Figures, tests and tutorials are not part of
the installed package: they run from a clone of the repository. `python -m figures NAME`
draws one figure from its data in `data/`, as PNG and PDF, and prints its table;
`--measure` measures anew. `python -m figures compare` prints every number of the papers
beside ours. Seconds on a virtual machine are a model: its constants, each with its
source, are in `snref/timing/machines`.
"""


def page(captions: Mapping[str, str]) -> str:
    """Return the page, in Markdown: a picture and its caption for each figure."""
    known = [name for names in SECTIONS.values() for name in names]
    sections = {**SECTIONS, "Others": [n for n in captions if n not in known]}
    parts = [HEAD]
    for title, names in sections.items():
        if shown := [name for name in names if name in captions]:
            parts.append(f"\n## {title}\n")
            parts += (_figure(name, captions[name]) for name in shown)
    return "".join(parts)


def _figure(name: str, caption: str) -> str:
    return (
        f"\n### {name}\n\n![{name}](pictures/{name}.png)\n\n{caption} "
        f"([data](data/{name}.csv), [code]({name}.py))\n"
    )


def first_sentence(text: str | None) -> str:
    """Return the first sentence of a docstring, in one line."""
    words = " ".join((text or "").split("\n\n")[0].split())
    sentence, full_stop, _ = words.partition(". ")
    return f"{sentence}." if full_stop else words
