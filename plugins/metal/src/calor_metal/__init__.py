"""calor on Apple's GPUs through Metal."""

__all__: list[str] = []
