"""The common code of GPUs run by CuPy's driver functions: NVIDIA's, and AMD's by ROCm.

CuPy is no requirement of calor-kernel: a plugin requires the CuPy build for its driver, and passes
its modules, or a replacement with the same functions (``protocol``), such as PyCUDA's.
"""
