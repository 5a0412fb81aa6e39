"""What runs kernels: the device protocol, memory, compiled kernels, and the backend for core."""
