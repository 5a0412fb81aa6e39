"""What GPUs have in common that CuPy's functions of the driver run: NVIDIA's, and AMD's by ROCm.

CuPy is no requirement of calor-kernel: the plugins bring the build of it that fits their driver,
and hand over its modules.
"""
