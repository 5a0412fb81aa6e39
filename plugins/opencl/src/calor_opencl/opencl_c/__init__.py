"""Kernels as text of OpenCL C, for devices of calor-opencl and whoever else compiles it."""

from calor_opencl.opencl_c.dialect import OpenCLC

__all__ = ["OpenCLC"]
