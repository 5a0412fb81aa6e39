"""Kernels as text of CUDA C++, for devices of calor-cuda and whoever else compiles it."""

from calor_cuda.cuda_cpp.dialect import CudaCpp

__all__ = ["CudaCpp"]
