"""Kernels as C++ for GPUs: what the dialects of CUDA and of HIP derive from."""

from calor_cupy.gpu_cpp.dialect import GpuCpp

__all__ = ["GpuCpp"]
