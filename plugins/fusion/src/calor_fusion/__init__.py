"""Fusion for every device of calor-kernel: with this package, graphs need fewer launches."""

__all__: list[str] = []
