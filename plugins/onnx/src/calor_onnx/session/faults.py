"""The errors of ONNX Runtime, as packages catch them.

Each is also the error of calor that says the same, where there is one; the code and the name that
ONNX Runtime puts before its messages are kept, as some callers look for them.
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


class OnnxRuntimeError(CalorError):
    """An error with a code and name of ONNX Runtime; base of those below."""

    code = 1
    label = "FAIL"

    def __init__(self, message: str) -> None:
        super().__init__(f"[ONNXRuntimeError] : {self.code} : {self.label} : {message}")
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        # An error from another process has its code and name before its message once.
        return type(self), (self.message,)


class Fail(OnnxRuntimeError):
    """The model cannot be loaded or run."""


class InvalidArgument(OnnxRuntimeError, ArgumentError):
    """An input is unknown, or of another type or rank than the model takes."""

    code, label = 2, "INVALID_ARGUMENT"


class NoSuchFile(OnnxRuntimeError, FileNotFoundError):
    """There is no file of that name."""

    code, label = 3, "NO_SUCHFILE"


class NoModel(OnnxRuntimeError):
    """There is no model."""

    code, label = 4, "NO_MODEL"


class EngineError(OnnxRuntimeError):
    """A device failed."""

    code, label = 5, "ENGINE_ERROR"


class RuntimeException(OnnxRuntimeError, RuntimeError):
    """An operator failed while the model ran."""

    code, label = 6, "RUNTIME_EXCEPTION"


class InvalidProtobuf(OnnxRuntimeError):
    """The bytes are no ONNX model."""

    code, label = 7, "INVALID_PROTOBUF"


class ModelLoaded(OnnxRuntimeError):
    """A model is loaded already; ONNX Runtime's, never raised here."""

    code, label = 8, "MODEL_LOADED"


class NotImplemented(OnnxRuntimeError, NotImplementedError):
    """The model has operators, or the program asks for something, that calor-onnx lacks."""

    code, label = 9, "NOT_IMPLEMENTED"


class InvalidGraph(OnnxRuntimeError):
    """The graph breaks a rule of ONNX."""

    code, label = 10, "INVALID_GRAPH"


class EPFail(OnnxRuntimeError):
    """A device cannot be used."""

    code, label = 11, "EP_FAIL"


class NotFound(OnnxRuntimeError):
    """Something that was asked for by name is not there; ONNX Runtime's, never raised here."""

    code, label = 14, "NOT_FOUND"


# Which of calor's errors is which of these, the more special ones first.
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
    """Turn calor's errors while a model is loaded into those of ONNX Runtime."""
    try:
        yield
    except OnnxRuntimeError:
        raise
    except FileNotFoundError:
        raise NoSuchFile(
            f"Load model from {name} failed: there is no such file; give the path of an .onnx "
            f"file, or its bytes"
        ) from None
    except (CalorError, OSError) as error:
        found = _kind(error, _LOADING)
        if found is InvalidGraph and ("no ONNX model" in str(error) or "no graph" in str(error)):
            found = InvalidProtobuf
        raise found(f"Load model from {name} failed: {error}") from error


@contextmanager
def running() -> Iterator[None]:
    """Turn calor's errors while a model runs into those of ONNX Runtime."""
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
