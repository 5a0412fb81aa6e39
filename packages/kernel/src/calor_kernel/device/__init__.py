"""The device's side of the runtime: the device protocol, memory pool, compiled kernels, images."""
