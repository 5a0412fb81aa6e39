"""Sizes as people read them, for messages and listings."""


def bytes_text(count: int) -> str:
    """Return a number of bytes for people: ``"1.5 MiB"``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
