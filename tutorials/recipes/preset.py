"""A preset is a line: Options by a name. Those of snref are in snref.PRESETS."""

from snref import Options

on_demand = Options(recompute="cost-aware", transfers="demand")
