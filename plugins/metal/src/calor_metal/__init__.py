"""calor on Apple's GPUs, by Metal."""

__all__: list[str] = []
