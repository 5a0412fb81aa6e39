"""calor on the CPU: kernels compiled by LLVM."""

__all__: list[str] = []
