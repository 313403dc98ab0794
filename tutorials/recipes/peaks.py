"""A figure: the peak of AlexNet under every preset, batch 200."""

from matplotlib.figure import Figure

import snref
from snref.papers import numbers


def measure():
    net = snref.nets.alexnet(batch=200)
    plans = {preset: snref.plan(net, preset=preset) for preset in snref.PRESETS}
    return [{"preset": p, "mib": plans[p].peak_bytes / 2**20} for p in plans]


def draw(rows):
    figure = Figure()
    axes = figure.subplots()
    axes.barh([row["preset"] for row in rows], [row["mib"] for row in rows])
    axes.set_xlabel("peak, MiB")
    return figure


def compare(rows):
    (paper,) = numbers(net="alexnet", plan="baseline")
    mib = {row["preset"]: row["mib"] for row in rows}
    return [paper.beside(mib["baseline"])]
