"""What export refuses, as types of error."""

from __future__ import annotations

from collections.abc import Sequence

from calor.errors import CalorError


class ExportError(CalorError, NotImplementedError):
    """A function records what ONNX cannot say; all of it is listed, with the lines that did.

    ``operations`` holds (name of the op, reason, line) for each.
    """

    def __init__(self, operations: Sequence[tuple[str, str, str]]) -> None:
        self.operations = tuple(operations)
        lines = [f"  {name} ({line}): {reason}" for name, reason, line in self.operations]
        super().__init__("ONNX cannot say all that the function does:\n" + "\n".join(lines))


class Refused(Exception):
    """Why one op cannot be written; the writer collects these into an ExportError."""
