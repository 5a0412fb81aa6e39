"""What calor's devices of NVIDIA and AMD share: their dialect of C++, and CuPy's driver functions.

Requirements: CuPy is no requirement of this package. A plugin requires the build of CuPy for its
driver, and passes its modules, or a replacement with the same functions, such as PyCUDA's.
"""

__all__: list[str] = []
