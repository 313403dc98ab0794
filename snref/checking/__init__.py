"""Check a layer: its declared launches against central differences of its forward.

For authors of layers: a wrong declaration is found as well as a wrong kernel.

Read in this order:

1. values         random values for the tensors of a layer; marks of unwritten elements
2. declarations   which tensors each phase may read and must write
3. launching      launches in check mode, and what each of them must obey
4. differences    the gradient of forward, from differences
5. layer          check_layer: all of it, in order
"""

from snref.checking.layer import check_layer
from snref.checking.values import LayerError

__all__ = ["LayerError", "check_layer"]
