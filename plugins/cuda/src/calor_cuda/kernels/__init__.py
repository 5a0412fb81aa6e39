"""Kernels for instructions of NVIDIA GPUs alone: rows that they add to the library's tables.

Requirements: a kernel stands here if no other device has its instructions. Everything that kernels
of several devices share, loaders and epilogues among it, is in :mod:`calor_kernel.library`.
"""
