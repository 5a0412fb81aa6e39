"""Kernels written once in Python, for every device: language, library, planner and runtime."""
