"""Compiling a graph for a device: what it takes, what companions take, and the plans kept."""
