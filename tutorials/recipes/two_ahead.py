"""Prefetch two convolutions ahead; the paper prefetches one ahead."""

from dataclasses import replace

from snref import schedule


def policy(route, options, costs):
    """Plan as the preset "superneurons" does, and prefetch earlier."""
    return schedule(route, replace(options, transfers="offload"), costs, ahead=2)
