"""How pictures look: one style, and one colour, marker and line for each planner."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

STYLE = Path(__file__).parent / "snref.mplstyle"
COLUMN, PAGE = 3.35, 7.0  # inches: the widths of a column, and of a page of two

# Okabe and Ito (2008) without yellow, which is too light for lines; two dark colours
# of Tol (2021); grey for what is only there to be compared with.
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, INDIGO, WINE = "#E69F00", "#56B4E9", "#332288", "#882255"
BLACK, GREY = "#000000", "#707070"

_LOOKS = {  # presets of ours by lines, policies of others by broken lines
    "baseline": (GREY, "o", "-"),
    "liveness": (SKY, "o", "-"),
    "offload": (BLUE, "o", "-"),
    "speed-centric": (ORANGE, "o", "-"),
    "memory-centric": (PURPLE, "o", "-"),
    "superneurons": (VERMILION, "o", "-"),
    "cache": (GREEN, "o", "-"),
    "reuse": (WINE, "o", "-"),
    "joint": (INDIGO, "o", "-"),
    "least time": (BLACK, "o", "-"),
    "caffe": (GREY, "s", "--"),
    "vdnn-conv": (BLUE, "s", "--"),
    "vdnn-all": (BLUE, "^", "--"),
    "vdnn-dyn": (SKY, "s", "--"),
    "mxnet": (ORANGE, "s", "--"),
    "mxnet-mirror": (ORANGE, "^", "--"),
    "tensorflow": (VERMILION, "s", "--"),
    "chen": (PURPLE, "s", "--"),
    "dtr": (GREEN, "s", "--"),
    "densenets": (GREEN, "^", "--"),
    "memory-budget": (INDIGO, "s", "--"),
    "belady": (WINE, "s", "--"),
    "checkmate": (BLACK, "^", ":"),
    "rotor": (BLACK, "v", ":"),
}
_OTHERS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, INDIGO, WINE)


def styled() -> AbstractContextManager[None]:
    """Return a context in which matplotlib draws in the style of snref."""
    import matplotlib

    return matplotlib.rc_context(fname=STYLE)


def look(name: str) -> dict[str, Any]:
    """Return how a planner is drawn, by arguments of matplotlib's ``plot``.

    A planner of one's own is drawn in a colour that its name decides.

    >>> look("superneurons")
    {'color': '#D55E00', 'marker': 'o', 'linestyle': '-'}
    """
    other = _OTHERS[sum(name.encode()) % len(_OTHERS)], "x", "-."
    colour, marker, line = _LOOKS.get(name, other)
    return {"color": colour, "marker": marker, "linestyle": line}


def colour(name: str) -> str:
    """Return the colour of a planner."""
    return str(look(name)["color"])
