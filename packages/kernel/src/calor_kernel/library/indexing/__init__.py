"""Moving elements to and from places: boxes, gathers and scatters."""

from calor_kernel.library.indexing.gathering import lower_gather
from calor_kernel.library.indexing.moving import lower_concat
from calor_kernel.library.indexing.scattering import lower_scatter_nd

__all__ = ["lower_concat", "lower_gather", "lower_scatter_nd"]
