"""The command line: a verb a file, imported when it is used.

A verb's file has ``EXAMPLE``, a command line that works; ``add_arguments(parser)``; and
``run(arguments)``, which returns the exit code: 0 done, 1 does not fit or failed, 2
wrong use. It raises ValueError, OSError, OutOfMemory or InvalidPlan for what the user
should know; ``snref/__main__.py`` says it in one line.
"""

VERBS = {
    "train": "train a net with real kernels, within a memory budget",
    "plan": "plan a net without running it: memory by step, recomputation, copies",
    "compare": "every preset side by side: memory, re-runs, copies, modelled time",
    "fit": "does a net fit, with which plan, and the largest batch that does",
    "profile": "measure the seconds of each run on this device, for --costs",
    "export": "write a net as JSON, for a planner in any language",
    "verify": "check and time a plan in JSON, whoever made it",
    "nets": "the networks that come with snref",
    "doctor": "versions and devices, a kernel checked on each, what would repair",
    "cite": "BibTeX of snref and of the papers",
}
