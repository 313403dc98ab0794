"""SuperNeurons (PPoPP 2018): a reference that plans, verifies and trains.

Names are imported when they are used: planning needs neither NumPy nor Numba.

>>> import snref
>>> net = snref.nets.alexnet(batch=200)
>>> for preset in "baseline", "liveness", "offload", "superneurons":
...     planned = snref.plan(net, preset=preset)
...     peak = planned.peak_bytes / 2**20
...     print(f"{preset:12} {peak:8.3f} MiB, {planned.extra_forwards:2} recomputed")
baseline     2189.437 MiB,  0 recomputed
liveness     1489.355 MiB,  0 recomputed
offload      1132.056 MiB,  0 recomputed
superneurons  886.230 MiB, 17 recomputed
>>> print(*str(planned.plan).splitlines()[-3:], sep="\\n")
update    fc6
update    fc7
update    fc8
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snref import layers, nets
    from snref.checking import LayerError, check_layer
    from snref.layers.base import Layer, Node, elementwise
    from snref.net import Net, route
    from snref.planning.planned import plan
    from snref.planning.reports import PlannedNet
    from snref.plans import InvalidPlan, Launch, OutOfMemory, Plan, Tensor, grid_of
    from snref.plans.verification import verify
    from snref.scheduler import PRESETS, Options, schedule
    from snref.training import train

__version__ = "0.1.0"

_MODULES = {
    "InvalidPlan": "plans",
    "Launch": "plans",
    "Layer": "layers.base",
    "LayerError": "checking",
    "Net": "net",
    "Node": "layers.base",
    "Options": "scheduler",
    "OutOfMemory": "plans",
    "PRESETS": "scheduler",
    "Plan": "plans",
    "PlannedNet": "planning",
    "Tensor": "plans",
    "check_layer": "checking",
    "elementwise": "layers.base",
    "grid_of": "plans",
    "layers": "layers",
    "nets": "nets",
    "plan": "planning",
    "route": "net",
    "schedule": "scheduler",
    "train": "training",
    "verify": "plans.verification",
}

__all__ = [
    "PRESETS",
    "InvalidPlan",
    "Launch",
    "Layer",
    "LayerError",
    "Net",
    "Node",
    "Options",
    "OutOfMemory",
    "Plan",
    "PlannedNet",
    "Tensor",
    "check_layer",
    "elementwise",
    "grid_of",
    "layers",
    "nets",
    "plan",
    "route",
    "schedule",
    "train",
    "verify",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'snref' has no attribute {name!r}")
    module = import_module(f"snref.{_MODULES[name]}")
    value = module if name == _MODULES[name] else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
