"""Planning a net: from a preset, or an amount of memory, to a plan and its report."""

from snref.planning.planned import Policy, by_policy, plan
from snref.planning.reports import PlannedNet, resident

__all__ = ["PlannedNet", "Policy", "by_policy", "plan", "resident"]
