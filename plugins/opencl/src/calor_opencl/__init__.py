"""calor on OpenCL devices."""
