"""How sums over the images of a batch are cut: by shapes alone.

The order of such a sum is described in `snref.kernels.reduction`. It is the same on
every machine, and a batch may be split wherever a slice ends.
"""

IMAGES = 32  # most images of a slice
TERMS = 1024  # a slice has at least so many terms, if it has fewer images than IMAGES
BLOCK = 512  # terms that one accumulator adds, at most, unless a row alone has more


def images_of_slice(pixels: int) -> int:
    """Images whose terms, one for each pixel, are summed before the next slice.

    A power of two, so that a batch that is split where one layer's slice ends is split
    where the slices of layers with larger images end.

    >>> [images_of_slice(n) for n in (1, 7 * 7, 13 * 13, 27 * 27, 55 * 55)]
    [32, 32, 8, 2, 1]
    """
    images = 1
    while images < IMAGES and images * pixels < TERMS:
        images *= 2
    return images


def pixels_of_block(columns: int) -> int:
    """Pixels of an image, whole rows of so many columns, that one accumulator adds.

    >>> [pixels_of_block(n) for n in (1, 7, 55, 1000)]
    [512, 511, 495, 1000]
    """
    return max(BLOCK // columns, 1) * columns
