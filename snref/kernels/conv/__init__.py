"""Convolution, a file an algorithm; "sliced" is the filter gradient of `tiled`, with
its slices of images side by side in a workspace.

N images, C channels, H x W pixels; K filters of C / groups channels and R x S taps;
P x Q outputs. Padding is what the index arithmetic leaves outside the image.

The order of summation is part of an algorithm's contract: algorithms of one order give
the same bits, so a plan may use now one, now the other.

"taps"      direct, tiled, im2col. One accumulator an output, one fused multiply-add a
            term, the padding's zeros included.
            forward  channels, then filter rows, then filter columns: c, r, s
            data     filters, then the taps that meet the pixel: k, r, s
            filter   output rows, columns of a block: p, q; then the blocks of a
                     slice of images; then the slices (see `snref.kernels.reduction`)
"winograd"  winograd. Forward and data, channels (or filters) inside each of the sixteen
            transformed places.

Padding, and outputs that would lie outside, count as zeros that are multiplied: an
infinite weight or gradient makes NaN there. PyTorch has both, by the algorithm that it
chooses: its im2col multiplies the zeros, its oneDNN leaves them out.
"""
