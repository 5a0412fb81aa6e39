"""The errors of ONNX Runtime.

Each is also the equivalent error of calor, if there is one. Messages begin with ONNX Runtime's code
and name, because some callers search for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from calor.errors import (
    ArgumentError,
    CalorError,
    DTypeError,
    OutOfMemoryError,
    ShapeError,
    UnsupportedError,
)
from calor_onnx.errors import InputError, ModelError, UnsupportedOperatorsError

__all__ = [
    "EPFail",
    "EngineError",
    "Fail",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelLoaded",
    "NoModel",
    "NoSuchFile",
    "NotFound",
    "NotImplemented",
    "OnnxRuntimeError",
    "RuntimeException",
]


class OnnxRuntimeError(CalorError):
    """An error with ONNX Runtime's code and name; the base of the others.

    Parameters
    ----------
    message : str
        The message without code and name.

    Attributes
    ----------
    message : str
        The same.
    """

    code = 1
    label = "FAIL"

    def __init__(self, message: str) -> None:
        super().__init__(f"[ONNXRuntimeError] : {self.code} : {self.label} : {message}")
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        # The constructor adds code and name, so pickling must pass the bare message.
        return type(self), (self.message,)


class Fail(OnnxRuntimeError):
    """The model cannot be loaded or run."""


class InvalidArgument(OnnxRuntimeError, ArgumentError):
    """An input is unknown, or its type or rank differs from the declared one."""

    code, label = 2, "INVALID_ARGUMENT"


class NoSuchFile(OnnxRuntimeError, FileNotFoundError):
    """The file does not exist."""

    code, label = 3, "NO_SUCHFILE"


class NoModel(OnnxRuntimeError):
    """The model does not exist; never raised here."""

    code, label = 4, "NO_MODEL"


class EngineError(OnnxRuntimeError):
    """A device failed; never raised here."""

    code, label = 5, "ENGINE_ERROR"


class RuntimeException(OnnxRuntimeError, RuntimeError):
    """An operator failed during a run."""

    code, label = 6, "RUNTIME_EXCEPTION"


class InvalidProtobuf(OnnxRuntimeError):
    """The bytes are not an ONNX model."""

    code, label = 7, "INVALID_PROTOBUF"


class ModelLoaded(OnnxRuntimeError):
    """A model is loaded already; never raised here."""

    code, label = 8, "MODEL_LOADED"


class NotImplemented(OnnxRuntimeError, NotImplementedError):
    """The model or the program needs something that calor-onnx does not have."""

    code, label = 9, "NOT_IMPLEMENTED"


class InvalidGraph(OnnxRuntimeError):
    """The graph breaks a rule of ONNX."""

    code, label = 10, "INVALID_GRAPH"


class EPFail(OnnxRuntimeError):
    """A device cannot be used; never raised here."""

    code, label = 11, "EP_FAIL"


class NotFound(OnnxRuntimeError):
    """A named object does not exist; never raised here."""

    code, label = 14, "NOT_FOUND"


# calor's errors and the equivalent ones here, the most specific first.
_LOADING: list[tuple[type[Exception], type[OnnxRuntimeError]]] = [
    (UnsupportedOperatorsError, NotImplemented),
    (ModelError, InvalidGraph),
    (CalorError, Fail),
    (OSError, Fail),
]
_RUNNING: list[tuple[type[Exception], type[OnnxRuntimeError]]] = [
    (InputError, InvalidArgument),
    (UnsupportedError, NotImplemented),
    (ShapeError, RuntimeException),
    (DTypeError, RuntimeException),
    (ArgumentError, RuntimeException),
    (ModelError, RuntimeException),
    (OutOfMemoryError, RuntimeException),
    (CalorError, Fail),
]


@contextmanager
def loading(name: str) -> Iterator[None]:
    """Convert calor's errors while a model is loaded to those of ONNX Runtime."""
    try:
        yield
    except OnnxRuntimeError:
        raise
    except FileNotFoundError:
        raise NoSuchFile(
            f"Load model from {name} failed: the file does not exist; pass the path of an .onnx "
            f"file, or its bytes"
        ) from None
    except (CalorError, OSError) as error:
        found = _kind(error, _LOADING)
        if found is InvalidGraph and ("no ONNX model" in str(error) or "no graph" in str(error)):
            found = InvalidProtobuf
        raise found(f"Load model from {name} failed: {error}") from error


@contextmanager
def running() -> Iterator[None]:
    """Convert calor's errors during a run to those of ONNX Runtime."""
    try:
        yield
    except OnnxRuntimeError:
        raise
    except CalorError as error:
        text = "; ".join([str(error), *getattr(error, "__notes__", ())])
        raise _kind(error, _RUNNING)(text) from error


def _kind(
    error: Exception, table: list[tuple[type[Exception], type[OnnxRuntimeError]]]
) -> type[OnnxRuntimeError]:
    return next(ours for theirs, ours in table if isinstance(error, theirs))
