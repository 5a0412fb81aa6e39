"""The road of a vendor: the project that calor writes, and the tutorial that fills it in."""
