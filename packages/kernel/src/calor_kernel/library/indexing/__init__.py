"""Moves of elements: regions, gathers and scatters."""

from calor_kernel.library.indexing.embedding_bag_fuser import EmbeddingBagFuser
from calor_kernel.library.indexing.gather import lower_gather
from calor_kernel.library.indexing.regions import lower_concat
from calor_kernel.library.indexing.scatter_launch import lower_scatter_nd

__all__ = ["EmbeddingBagFuser", "lower_concat", "lower_gather", "lower_scatter_nd"]
