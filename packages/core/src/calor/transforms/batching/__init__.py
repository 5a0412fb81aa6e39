"""Batching of graphs for ``calor.vmap``; imported on demand."""
