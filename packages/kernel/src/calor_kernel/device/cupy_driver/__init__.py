"""What GPUs have in common that run by CuPy's functions of the driver: NVIDIA's, and AMD's by ROCm.

CuPy is no requirement of calor-kernel: the plugins bring the build of it that fits their driver,
and hand over its modules, or what has the same functions (``protocol``), as PyCUDA's do.
"""
