"""What is wrong with data."""


class DataError(ValueError):
    """Data that cannot be trained on: names the file, and the offset or index."""
