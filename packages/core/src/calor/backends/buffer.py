"""What core asks of a backend's memory."""

from __future__ import annotations

from typing import Protocol


class Buffer(Protocol):  # numpydoc ignore=RS01
    """A dense, row-major piece of device memory that holds one value."""

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        ...

    @property
    def exported(self) -> bool:
        """True while something outside calor can see the memory (a NumPy view, DLPack)."""
        ...
