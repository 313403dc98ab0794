"""The error that all sources of data raise."""


class DataError(ValueError):
    """Data that cannot be used. Names the file and the offset or index of the fault."""
