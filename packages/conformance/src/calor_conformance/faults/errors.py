"""Faults of errors: untyped, late, at the wrong op, swallowed, or the end of the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calor.backends.numpy_backend import NumpyExecutable
from calor.backends.op_table import Function
from calor.errors import CalorError, DeviceError, ElementIndexError
from calor.graph.graph import Graph

from .base import Array, Broken, Call, Fault, calling, changing


class Untyped(Broken):
    """What goes wrong in a kernel is a bare ValueError."""

    def failure(self, error: Exception, op: str) -> Exception:
        """Return what the driver said."""
        return ValueError(str(error))


class Anonymous(Broken):
    """An error of a kernel names no op."""

    def failure(self, error: Exception, op: str) -> Exception:
        """Return the right error without the op."""
        made = super().failure(error, op)
        if isinstance(made, DeviceError):
            made.op = None
        return made


class General(Broken):
    """Every error is the same one."""

    def failure(self, error: Exception, op: str) -> Exception:
        """Return an error that says nothing."""
        return DeviceError("broken: launch failed", op=op)


def _clamped(right: Function) -> Function:
    def gather(x: Array, indices: Array, *, axis: int) -> Any:
        n = x.shape[axis]
        return right(x, np.clip(indices, -n, n - 1), axis=axis)

    return gather


def _singular(right: Function) -> Function:
    def solve(a: Array, b: Array, **attributes: Any) -> Any:
        try:
            return right(a, b, **attributes)
        except np.linalg.LinAlgError:
            return np.full(b.shape, np.inf, b.dtype)

    return solve


class _Remembering(Broken):
    """Keeps an error from one call to the next."""

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None


class Poisoned(_Remembering):
    """After an error every call fails with it."""

    class Calls(NumpyExecutable):
        """Raises the first error for ever."""

        def __call__(self, inputs: Sequence[Any], into: Any = None) -> Any:
            """Run unless an error was raised."""
            backend: Any = self.backend
            if backend.error is not None:
                raise backend.error
            try:
                return super().__call__(inputs, into)
            except CalorError as error:
                backend.error = error
                raise

    executable = Calls


class Late(_Remembering):
    """An error of a call is raised by the next call, which has no part in it."""

    class Calls(NumpyExecutable):
        """Keeps an error for the next call."""

        def __call__(self, inputs: Sequence[Any], into: Any = None) -> Any:
            """Raise what the last call should have raised."""
            backend: Any = self.backend
            error, backend.error = backend.error, None
            if error is not None:
                raise error
            try:
                return super().__call__(inputs, into)
            except CalorError as found:
                backend.error = found
                specs = self.graph.output_specs
                return [backend.upload(0, np.zeros(s.shape, s.dtype.numpy)) for s in specs]

    executable = Calls


class RefusesToCompile(Broken):
    """The compiler's own exception is what a failed compile raises."""

    def compile(self, index: int, graph: Graph) -> Any:
        """Fail for graphs with an exponential."""
        if any(n.op.name == "exp2" for n in graph.nodes):
            raise RuntimeError("ptxas exited with status 255")
        return super().compile(index, graph)


def _takes_others_along(executable: Any, run: Call, inputs: Sequence[Any], into: Any) -> list[Any]:
    """Clear the operands of a call that failed."""
    try:
        return run(inputs, into)
    except ElementIndexError:
        for x in inputs:
            array = getattr(x, "array", None)
            if array is not None:
                array[...] = 0
        raise


def _without_pivots(right: Function) -> Function:
    """Eliminate with the rows in the order in which they are given."""

    def solve(a: Array, b: Array, **attributes: Any) -> Any:
        if a.ndim != 2 or a.dtype != np.float32:
            return right(a, b, **attributes)
        a, b = a.copy(), b.copy()
        for i in range(len(a)):
            for j in range(i + 1, len(a)):
                factor = a[j, i] / a[i, i]
                a[j] -= factor * a[i]
                b[j] -= factor * b[i]
        return right(np.triu(a), b, **attributes)

    return solve


FAULTS = [
    Fault(
        "error-untyped",
        "a kernel that fails raises a bare ValueError",
        Untyped,
        ("errors/index_out_of_range", "errors/singular_matrix"),
        ("gather", "solve"),
    ),
    Fault(
        "error-names-no-op",
        "the error of a kernel does not name its op",
        Anonymous,
        ("errors/index_out_of_range",),
        ("gather",),
    ),
    Fault(
        "error-too-general",
        "an index out of range and a singular matrix are one and the same error",
        General,
        ("errors/index_out_of_range", "errors/singular_matrix"),
        ("gather", "solve"),
    ),
    Fault(
        "index-clamped",
        "an index out of range reads the last element",
        changing(gather=_clamped),
        ("errors/index_out_of_range",),
        ("gather",),
    ),
    Fault(
        "singular-is-infinite",
        "a system with a singular matrix gives infinities",
        changing(solve=_singular),
        ("errors/singular_matrix",),
        ("solve",),
    ),
    Fault(
        "device-poisoned",
        "after an error every later call raises it",
        Poisoned,
        ("errors/usable_after_an_error", "errors/only_what_fails_is_lost"),
    ),
    Fault(
        "error-late",
        "an error is raised by the call after the one that failed",
        Late,
        (
            "errors/index_out_of_range",
            "errors/usable_after_an_error",
            "errors/runs_that_fail_among_others",
        ),
        ("gather",),
    ),
    Fault(
        "compiler-error-untyped",
        "a graph that the compiler refuses raises what the compiler raised",
        RefusesToCompile,
        ("values/exp2/float32",),
        ("exp2",),
    ),
    Fault(
        "operands-lost-with-the-error",
        "a call that fails clears its operands",
        calling(_takes_others_along),
        ("errors/index_out_of_range",),
        ("gather",),
    ),
    Fault(
        "no-pivots",
        "a system is solved with its rows in the order in which they are given",
        changing(solve=_without_pivots),
        ("values/solve-pivoting/float32",),
        ("solve",),
    ),
]
