"""calor on the CPU: kernels compiled by LLVM."""
