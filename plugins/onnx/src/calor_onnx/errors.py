"""What can be wrong with a model, as types of error.

Each is also the error of calor, and the built-in, that its reader would expect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor.errors import ArgumentError, CalorError, FormatError, TraceError


class ModelError(FormatError):
    """A model breaks a rule of ONNX: a damaged file, a name that nothing defines, a cycle."""


class UnsupportedOperatorsError(CalorError, NotImplementedError):
    """A model has operators that calor-onnx does not know; all of them are listed.

    ``operators`` holds (domain, operator, names of its nodes, reason) for each.
    """

    def __init__(self, operators: Sequence[tuple[str, str, tuple[str, ...], str]]) -> None:
        self.operators = tuple(operators)
        lines = [
            f"  {domain or 'ai.onnx'}::{op} ({reason}): {', '.join(nodes)}"
            for domain, op, nodes, reason in self.operators
        ]
        super().__init__(
            "the model needs what calor-onnx does not have; operators can be added with "
            "@calor_onnx.operator:\n" + "\n".join(lines)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # An error from another process is made of what it was made of, not of its message.
        return type(self), (self.operators,)


class TypeConstraintError(ModelError):
    """Operands have types that ONNX does not allow their operators; all of them are listed.

    ``operands`` holds (operator, name of the node, what is wrong) for each.
    """

    def __init__(self, operands: Sequence[tuple[str, str, str]]) -> None:
        self.operands = tuple(operands)
        super().__init__(
            "operands have types that ONNX does not allow, in the opset that the model states; "
            "export it with a newer opset, or put a Cast before them:\n"
            + "\n".join(f"  {text}" for _, _, text in self.operands)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.operands,)


class InputError(ArgumentError):
    """An input of a model is missing, unknown, or of another type or shape than is declared."""


class CopyError(CalorError, TypeError):
    """A loaded model was to be pickled or copied, whose memory is that of a device."""


class DataDependentError(TraceError):
    """While a graph was compiled an operator asked for elements that only running it gives.

    ``operands`` are the names of the values that decide them, in the graph that the error leaves.
    The model is then interpreted, where no inputs are found that the host can have.
    """

    def __init__(self, message: str, operands: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.operands = tuple(operands)
