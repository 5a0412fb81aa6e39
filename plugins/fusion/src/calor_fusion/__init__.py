"""Fusion for every device of calor-kernel: where it is installed, graphs take fewer launches."""

__all__: list[str] = []
