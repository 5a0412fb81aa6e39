"""Errors of models, as types.

Each type is also the error of calor and the built-in error that callers expect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor.errors import ArgumentError, CalorError, FormatError, TraceError


class ModelError(FormatError):
    """A model breaks a rule of ONNX: a damaged file, an undefined name, a cycle."""


class UnsupportedOperatorsError(CalorError, NotImplementedError):
    """A model has operators that calor-onnx does not have; the message lists all of them.

    Parameters
    ----------
    operators : sequence of tuple
        For each operator its domain, its name, the names of its nodes, and the reason.

    Attributes
    ----------
    operators : tuple of tuple
        The same as a tuple.
    """

    def __init__(self, operators: Sequence[tuple[str, str, tuple[str, ...], str]]) -> None:
        self.operators = tuple(operators)
        lines = [
            f"  {domain or 'ai.onnx'}::{op} ({reason}): {', '.join(nodes)}"
            for domain, op, nodes, reason in self.operators
        ]
        super().__init__(
            "calor-onnx lacks operators of the model; add them with @calor_onnx.operator:\n"
            + "\n".join(lines)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickling must pass the operators, not the message, to the constructor.
        return type(self), (self.operators,)


class TypeConstraintError(ModelError):
    """Operands have types that ONNX does not allow; the message lists all of them.

    Parameters
    ----------
    operands : sequence of tuple
        For each operand the operator, the name of the node, and the problem as text.

    Attributes
    ----------
    operands : tuple of tuple
        The same as a tuple.
    """

    def __init__(self, operands: Sequence[tuple[str, str, str]]) -> None:
        self.operands = tuple(operands)
        super().__init__(
            "operands have types that ONNX does not allow in the model's opset; export the model "
            "with a newer opset, or put a Cast before them:\n"
            + "\n".join(f"  {text}" for _, _, text in self.operands)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.operands,)


class InputError(ArgumentError):
    """An input of a model is missing or unknown, or has another type or shape than declared."""


class CopyError(CalorError, TypeError):
    """A loaded model cannot be pickled or copied, because it holds memory of a device."""


class DataDependentError(TraceError):
    """During compilation an operator asked for elements that are only known when the model runs.

    The model then tries to take the deciding inputs to the host, and is interpreted if there are
    none.

    Parameters
    ----------
    message : str
        The message.
    operands : sequence of str, default ()
        Names of the values that decide these elements, in the graph that the error leaves.

    Attributes
    ----------
    operands : tuple of str
        The same as a tuple.
    """

    def __init__(self, message: str, operands: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.operands = tuple(operands)
