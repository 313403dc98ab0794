"""Planners of other systems, a file each, to be compared with ours.

A policy is a function from a route, options and costs to a plan. ``plan(net,
policy="vdnn-dyn")`` and ``--policy vdnn-dyn`` name one of these. "module:function"
names one of your own: such a function is all that it takes.

Each file says which rule it follows and where that is published. Two things hold for
all. The verifier lets only forward runs run again, so a policy that would compute a
gradient again, as DTR may, keeps it. And a tensor is freed after its last use before
it is dropped or copied, where some of these systems hold it until memory is short.

A rule is marked *recalled* where the publication or the code was not at hand when it
was written down.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from snref.plans import Plan
from snref.policies.belady import belady
from snref.policies.caffe import caffe
from snref.policies.checkmate import checkmate
from snref.policies.chen import chen
from snref.policies.densenets import densenets
from snref.policies.dtr import dtr
from snref.policies.memory_budget import memory_budget
from snref.policies.mxnet import mxnet, mxnet_mirror
from snref.policies.rebuilding import NotApplicable
from snref.policies.rotor import rotor
from snref.policies.tensorflow import tensorflow
from snref.policies.vdnn import vdnn_all, vdnn_conv, vdnn_dyn
from snref.scheduler.options import Algorithms, Options, Overwrite
from snref.timing.costs import Costs

__all__ = ["POLICIES", "NotApplicable", "Policy", "Published"]

Policy: TypeAlias = Callable[[Plan, Options, Costs], Plan]


@dataclass(frozen=True)
class Published:
    """A policy and the savings that its system has, beside its own rule.

    overwrite, algorithms  the options that hold for it if none are typed
    source                 its entry in the BibTeX of ``snref cite``
    idles                  whether it copies, and computes again, only where memory is
                           short
    is_optimum             whether it searches for the least time, without copies, and
                           so may take long, and may be quicker than the quickest plan
                           that is found
    """

    plan: Policy
    source: str
    overwrite: Overwrite = "gradients"
    algorithms: Algorithms = "exact"
    idles: bool = False
    is_optimum: bool = False


POLICIES: Mapping[str, Published] = {
    "caffe": Published(caffe, "jia2014caffe"),
    "vdnn-conv": Published(vdnn_conv, "rhu2016vdnn"),
    "vdnn-all": Published(vdnn_all, "rhu2016vdnn"),
    "vdnn-dyn": Published(vdnn_dyn, "rhu2016vdnn", idles=True),
    "mxnet": Published(mxnet, "chen2015mxnet"),
    "mxnet-mirror": Published(mxnet_mirror, "chen2015mxnet"),
    "tensorflow": Published(tensorflow, "abadi2016tensorflow", idles=True),
    "chen": Published(chen, "chen2016training"),
    "dtr": Published(dtr, "kirisame2021dynamic", overwrite="never", idles=True),
    "densenets": Published(densenets, "pleiss2017memory", overwrite="never"),
    "memory-budget": Published(
        memory_budget, "pytorch2024budget", overwrite="never", idles=True
    ),
    "belady": Published(belady, "belady1966study", idles=True),
    "checkmate": Published(checkmate, "jain2020checkmate", idles=True, is_optimum=True),
    "rotor": Published(rotor, "beaumont2019optimal", idles=True, is_optimum=True),
}
