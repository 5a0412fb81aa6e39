"""calor on AMD's GPUs, by HIP."""

__all__: list[str] = []
