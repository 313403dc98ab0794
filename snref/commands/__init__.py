"""The command line: a verb a file, imported when it is used.

A verb's file has ``EXAMPLE``, a command line that works; ``add_arguments(parser)``; and
``run(arguments)``, which returns the exit code. What the user should know, it raises
as ValueError, OSError, OutOfMemory or InvalidPlan: ``snref/__main__.py`` prints the
message and chooses the exit code.
"""

VERBS = {
    "train": "train a net with real kernels, within a memory budget",
    "plan": "plan a net without running it: memory by step, recomputation, copies",
    "compare": "compare presets, policies and plans: memory, copies, modelled time",
    "sweep": "plan a net for less and less memory, planner by planner: what it costs",
    "fit": "find out whether a net fits, with which plan, and up to which batch",
    "profile": "measure the seconds of each run on this device, for --costs",
    "export": "write a net as JSON, for a planner in any language",
    "verify": "check and time a plan in JSON, whoever made it",
    "nets": "list the networks that come with snref",
    "doctor": "print versions and devices, check a kernel on each, say what to repair",
    "cite": "print BibTeX of snref and of the papers",
}
