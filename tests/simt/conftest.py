"""Whole CUDA programs are run by test_drop_in.py, not imported to look for doctests."""

collect_ignore = ["programs"]
