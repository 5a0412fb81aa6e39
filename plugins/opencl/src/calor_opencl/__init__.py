"""calor on OpenCL devices."""

__all__: list[str] = []
