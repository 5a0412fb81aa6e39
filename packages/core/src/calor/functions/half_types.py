"""Functions made of several ops compute half types in float32, and round once.

Requirements: a loss or a distance of half types is a dozen ops; rounded between them, its gradient
loses its digits, and near zero its sign. So operands of half types are converted on the way in, and
the result on the way out, as the rows of a single op do inside. Inside autocast the result stays
float32, as in PyTorch, where a function says so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, TypeVar, overload

import numpy as np

from calor import dtypes
from calor.autocasting import recorded_as
from calor.functions.operands import placed
from calor.local import local
from calor.ops import elementwise as e
from calor.tensor.values import Handle

F = TypeVar("F", bound=Callable[..., Any])

# What autocast does with the operands of the functions made of several ops, by their names.
FUNCTIONS: Final[dict[str, str]] = {}


@overload
def in_float32(function: F, *, autocast: bool = True) -> F: ...
@overload
def in_float32(function: None = None, *, autocast: bool = True) -> Callable[[F], F]: ...
def in_float32(function: Any = None, *, autocast: bool = True) -> Any:
    """Compute half types in float32 inside a function, and round its result once.

    The result has the dtype that the function gives for operands of one dtype: a half type, if all
    floating operands have it. With operands of float32 among them it is float32.

    Parameters
    ----------
    function : callable
        A function of tensors that returns a tensor.
    autocast : bool
        Whether the result stays float32 inside `calor.autocast`.

    Returns
    -------
    callable
        The function; without one, a decorator.
    """
    if function is None:
        return functools.partial(in_float32, autocast=autocast)
    if autocast:
        FUNCTIONS[f"{function.__module__}.{function.__name__}"] = "float32"

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, np.ndarray) for x in args):
            args = placed(*args)
        kinds = {dtypes.as_dtype(x.dtype) for x in (*args, *kwargs.values()) if _floats(x)}
        if local.autocast is None and not any(kind.itemsize == 2 for kind in kinds):
            return function(*args, **kwargs)
        stays = local.autocast is not None and autocast
        with recorded_as(None):
            made = function(*map(_wide, args), **{k: _wide(x) for k, x in kwargs.items()})
            common = functools.reduce(dtypes.promote, kinds) if kinds else None
            if common is None or common.itemsize != 2 or stays:
                return made
            return e.cast(made, dtype=common) if made.dtype is dtypes.float32 else made

    # Errors about arguments read the signature here; see calor.keywords.
    call.in_float32 = function  # type: ignore[attr-defined]
    return call


def _floats(x: Any) -> bool:
    if isinstance(x, Handle):
        return x._value.spec.dtype.kind == "float"
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def _wide(x: Any) -> Any:
    half = isinstance(x, Handle) and _floats(x) and x._value.spec.dtype.itemsize == 2
    return e.cast(x, dtype=dtypes.float32) if half else x
