"""Planning a net: from a preset, or an amount of memory, to a plan and its report."""

from snref.planning.planned import PRESET_NAMES, by_policy, plan
from snref.planning.reports import PlannedNet, resident
from snref.policies import Policy

__all__ = ["PRESET_NAMES", "PlannedNet", "Policy", "by_policy", "plan", "resident"]
