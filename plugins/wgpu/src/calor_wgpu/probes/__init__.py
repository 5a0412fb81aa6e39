"""What WebGPU does not tell of a device, found by kernels that run on it."""
