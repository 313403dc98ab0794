"""The `@cuda.jit` kernels, a file a layer: the only place of their mathematics."""
