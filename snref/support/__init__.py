"""Helpers for files, limits, users' modules and text."""
