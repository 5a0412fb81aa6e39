"""Errors of export, as types."""

from __future__ import annotations

from collections.abc import Sequence

from calor.errors import CalorError


class ExportError(CalorError, NotImplementedError):
    """ONNX cannot express operations of a function; the message lists all of them with their lines.

    Parameters
    ----------
    operations : sequence of tuple
        For each operation the name of the op, the reason, and the line that recorded it.

    Attributes
    ----------
    operations : tuple of tuple
        The same as a tuple.
    """

    def __init__(self, operations: Sequence[tuple[str, str, str]]) -> None:
        self.operations = tuple(operations)
        lines = [f"  {name} ({line}): {reason}" for name, reason, line in self.operations]
        super().__init__(
            "ONNX cannot express these operations of the function; change the lines that record "
            "them:\n" + "\n".join(lines)
        )


class Refused(Exception):
    """One op cannot be written; the writer collects these reasons into an ExportError."""
