"""NumPy's functions on tensors: ``np.log1p(x)`` is calor's function of that meaning.

Requirements: nothing goes to the host that was not asked for. NumPy hands its calls over
(``__array_ufunc__``, ``__array_function__``), and each goes to the function of the same meaning,
with NumPy's names of arguments. A function that calor does not have raises TypeError; NumPy's own,
on ``x.numpy()``, is written out. Imported with the first such call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

import numpy as np

from calor.config import SHARED
from calor.local import local
from calor.tensor.tensor import Tensor
from calor.tensor.values import Handle

# Elementwise functions, by NumPy's name.
UFUNCS: Final[Mapping[str, str]] = {
    **{
        name: name
        for name in (
            "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "negative",
            "positive", "sign", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p",
            "logaddexp", "logaddexp2", "sqrt", "square", "reciprocal", "sin", "cos", "tan", "sinh",
            "cosh", "tanh", "hypot", "maximum", "minimum", "floor", "ceil", "trunc", "isnan",
            "isinf", "isfinite", "signbit", "copysign", "nextafter", "equal", "not_equal", "less",
            "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_xor",
            "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor", "matmul", "vecdot", "fmod",
            "heaviside",
        )
    },
    "absolute": "abs", "fabs": "abs", "conjugate": "conj", "power": "pow", "float_power": "pow",
    "rint": "round", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift",
}  # fmt: skip
# Methods of ufuncs, by ufunc and method.
METHODS: Final[Mapping[tuple[str, str], str]] = {
    ("add", "reduce"): "sum",
    ("multiply", "reduce"): "prod",
    ("maximum", "reduce"): "max",
    ("minimum", "reduce"): "min",
    ("logical_and", "reduce"): "all",
    ("logical_or", "reduce"): "any",
    ("add", "accumulate"): "cumulative_sum",
    ("multiply", "accumulate"): "cumulative_prod",
    ("maximum", "accumulate"): "cumulative_max",
    ("minimum", "accumulate"): "cumulative_min",
}
# Functions, by NumPy's module and name: a name here, or a function of calor's namespace and of what
# NumPy was given.
FUNCTIONS: Final[dict[str, str | Callable[..., Any]]] = {
    **{
        f"numpy.{name}": name
        for name in (
            "all", "any", "argmax", "argmin", "argsort", "argwhere", "broadcast_arrays",
            "broadcast_to", "clip", "count_nonzero", "diff", "einsum", "empty_like", "expand_dims",
            "flip", "full_like", "imag", "isclose", "max", "mean", "median", "min", "moveaxis",
            "nan_to_num", "nonzero", "ones_like", "prod", "quantile", "real", "repeat", "reshape",
            "roll", "round", "searchsorted", "sort", "squeeze", "stack", "std", "sum", "swapaxes",
            "take", "take_along_axis", "tensordot", "tile", "transpose", "tril", "triu", "var",
            "where", "zeros_like", "isin", "bincount", "unstack", "meshgrid", "matrix_transpose",
            "concat", "permute_dims", "astype", "cumulative_sum", "cumulative_prod",
        )
    },
    "numpy.amax": "max", "numpy.amin": "min", "numpy.around": "round",
    "numpy.concatenate": "concat", "numpy.cumsum": "cumulative_sum",
    "numpy.cumprod": "cumulative_prod",
    **{
        f"numpy.linalg.{name}": f"linalg.{name}"
        for name in (
            "cholesky", "det", "diagonal", "eigh", "eigvalsh", "inv", "matrix_norm",
            "matrix_power", "matrix_rank", "outer", "pinv", "qr", "slogdet", "solve", "svdvals",
            "trace", "vector_norm",
        )
    },
    "numpy.diagonal": "linalg.diagonal", "numpy.trace": "linalg.trace",
    "numpy.outer": "linalg.outer",
    **{
        f"numpy.fft.{name}": f"fft.{name}"
        for name in (
            "fft", "ifft", "fftn", "ifftn", "rfft", "irfft", "rfftn", "irfftn",
            "hfft", "ihfft", "fftshift", "ifftshift",
        )
    },
    # What is known without looking at elements, or says by itself that it writes them out.
    "numpy.shape": lambda xp, a: a.shape,
    "numpy.ndim": lambda xp, a: a.ndim,
    "numpy.size": lambda xp, a, axis=None: a.size if axis is None else a.shape[axis],
    "numpy.iscomplexobj": lambda xp, x: x.dtype.is_complex,
    "numpy.isrealobj": lambda xp, x: not x.dtype.is_complex,
    "numpy.ravel": lambda xp, a: xp.reshape(a, (-1,)),
    "numpy.copy": lambda xp, a: a.copy(),
    "numpy.atleast_1d": lambda xp, *arys: _at_least(xp, arys, 1),
    "numpy.array_equal": lambda xp, a1, a2: bool(xp.array_equal(a1, a2)),
    "numpy.allclose": lambda xp, a, b, rtol=1e-5, atol=1e-8, equal_nan=False: bool(
        xp.allclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    ),
    "numpy.dot": lambda xp, a, b: xp.matmul(a, b) if min(np.ndim(a), np.ndim(b)) else a * b,
    "numpy.vstack": lambda xp, tup: xp.concat([_rows(xp, a) for a in tup], axis=0),
    "numpy.hstack": lambda xp, tup: xp.concat(
        list(_at_least(xp, tup, 1, alone=False)), axis=0 if np.ndim(tup[0]) < 2 else 1
    ),
    "numpy.save": lambda xp, *given, **options: _on_host(np.save, given, options),
    "numpy.savez": lambda xp, *given, **options: _on_host(np.savez, given, options),
    "numpy.savez_compressed": lambda xp, *given, **options: _on_host(
        np.savez_compressed, given, options
    ),
    "numpy.savetxt": lambda xp, *given, **options: _on_host(np.savetxt, given, options),
    "numpy.copyto": lambda xp, dst, src: np.copyto(dst, src.numpy()),
}  # fmt: skip
# NumPy's names of arguments, where calor has others.
_ARGUMENTS: Final[Mapping[str, str]] = {
    "ddof": "correction", "a_min": "min", "a_max": "max", "newshape": "shape",
}  # fmt: skip
# Positional ones that calor takes by keyword are found by name; these NumPy allows and say nothing.
_SILENT: Final[Mapping[str, Any]] = {
    "out": None, "order": "C", "kind": None, "subok": True, "casting": "same_kind",
    "UPLO": "L",
}  # fmt: skip


def ufunc(
    xp: ModuleType, function: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """Return calor's result for a ufunc of NumPy; TypeError where it has none of this meaning.

    Parameters
    ----------
    xp : module
        The namespace of calor.
    function : numpy.ufunc
        The function.
    method : str
        "__call__", "reduce" and so on.
    inputs : tuple of Any
        The operands, of which one is a tensor.
    options : dict of str to Any
        NumPy's keyword arguments. ``out`` may be a tensor, which receives the result.

    Returns
    -------
    Tensor
        The result.

    Raises
    ------
    TypeError
        If calor has no such function, or ``out`` is a host array.
    """
    name = function.__name__
    ours = UFUNCS.get(name) if method == "__call__" else METHODS.get((name, method))
    (out,) = options.pop("out", (None,)) or (None,)
    if out is not None and not isinstance(out, Handle):
        raise TypeError(
            f"a NumPy array does not take the result of np.{name} with a tensor; write "
            f"calor.{ours or name}(...).numpy(), or give NumPy x.numpy()"
        )
    if ours is None:
        raise refused(name if method == "__call__" else f"{name}.{method}")
    if method != "__call__":
        # NumPy's methods take the first axis.
        options = {"axis": 0, **options}
    if name == "float_power":
        inputs = tuple(_as_float64(xp, x) for x in inputs)
    made = called(xp, f"np.{name}", ours, inputs, options)
    if out is not None:
        any_out: Any = out
        any_out[...] = made
        return out
    return made


def _as_float64(xp: Any, x: Any) -> Any:
    return xp.astype(x, xp.float64) if isinstance(x, Tensor) else np.float64(x)


def function(
    xp: ModuleType, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Return calor's result for a function of NumPy; TypeError where it has none of this meaning.

    Parameters
    ----------
    xp : module
        The namespace of calor.
    function : callable
        NumPy's function.
    args : tuple of Any
        Its positional arguments.
    kwargs : mapping of str to Any
        Its keyword arguments.

    Returns
    -------
    Any
        The result.

    Raises
    ------
    TypeError
        If calor has no such function, or does not take an argument.
    """
    name = f"{function.__module__}.{function.__name__}"
    ours = FUNCTIONS.get(name)
    short = name.removeprefix("numpy.")
    if ours is None:
        if local.views is SHARED and not local.jit:
            # Programs for NumPy's meaning of slices are NumPy's in this too, where nothing moves.
            return function(*map(_hosted, args), **{k: _hosted(v) for k, v in kwargs.items()})
        raise refused(short)
    if not isinstance(ours, str):
        try:
            inspect.signature(ours).bind(xp, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"np.{short} of a tensor: {error}; give it x.numpy()") from None
        return ours(xp, *args, **kwargs)
    positional: list[Any] = []
    named: dict[str, Any] = {}
    if args:
        try:
            parameters = inspect.signature(function).bind(*args).arguments
        except (ValueError, TypeError):
            parameters = {}
        found = [k for k in parameters if k not in kwargs]
        positional, named = _settled(_home(xp, ours), found, args)
    return called(xp, f"np.{short}", ours, tuple(positional), {**named, **kwargs})


def _settled(
    ours: Any, names: list[str], args: tuple[Any, ...]
) -> tuple[list[Any], dict[str, Any]]:
    """Return which of NumPy's positional arguments calor takes by position, and which by name."""
    kinds = [p.kind for p in inspect.signature(ours).parameters.values()]
    if len(names) < len(args) or any(k is inspect.Parameter.VAR_POSITIONAL for k in kinds):
        return list(args), {}
    count = sum(k is not inspect.Parameter.KEYWORD_ONLY for k in kinds)
    by_name = dict(zip(names[count:], args[count:], strict=False))
    return list(args[:count]), by_name


def _home(xp: ModuleType, ours: str) -> Any:
    """Return calor's function of a name such as "linalg.inv"."""
    module, _, name = ours.rpartition(".")
    return getattr(getattr(xp, module) if module else xp, name)


def called(
    xp: ModuleType, theirs: str, ours: str, args: tuple[Any, ...], options: Mapping[str, Any]
) -> Any:
    """Call a function of calor with NumPy's arguments; TypeError for one that it does not take."""
    made = _home(xp, ours)
    accepted = inspect.signature(made).parameters
    given = {}
    for name, value in options.items():
        known = _ARGUMENTS.get(name, name)
        if known in accepted:
            given[known] = value
        elif not (value is None or value is np._NoValue or _says_nothing(name, value)):
            raise TypeError(
                f"{theirs} of a tensor has no argument {name}=; see calor.{ours}, or give "
                f"{theirs} x.numpy()"
            )
    return made(*args, **given)


def _says_nothing(name: str, value: Any) -> bool:
    """Return whether an argument that calor does not have has the value that NumPy gives it."""
    return name in _SILENT and type(value) in (str, bool) and value == _SILENT[name]


def _hosted(value: Any) -> Any:
    """Return an argument with host arrays for its tensors; TypeError where they would move."""
    if isinstance(value, list | tuple):
        return type(value)(map(_hosted, value)) if type(value) in (list, tuple) else value
    if not isinstance(value, Tensor):
        return value
    if value._record is not None:
        raise TypeError("NumPy records no gradients; give it x.detach()")
    if not value.device.info.feature("host_views"):
        raise TypeError(f"a tensor on {value.device.name} is not the host's; give it x.numpy()")
    return np.asarray(value)


def refused(name: str) -> TypeError:
    """Return the error for a function of NumPy that calor does not have."""
    from calor.migration import numpy_function

    return numpy_function(name)


def _at_least(xp: Any, arrays: Any, ndim: int, alone: bool = True) -> Any:
    made = tuple(
        xp.reshape(xp.asarray(a), (1,)) if np.ndim(a) < ndim else xp.asarray(a) for a in arrays
    )
    return made[0] if alone and len(made) == 1 else made


def _rows(xp: Any, a: Any) -> Any:
    made = xp.asarray(a)
    return xp.reshape(made, (1, -1)) if made.ndim < 2 else made


def _on_host(write: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """Call a function that writes elements out, with host arrays."""
    hosted = [a.numpy() if isinstance(a, Tensor) else a for a in args]
    named = {k: a.numpy() if isinstance(a, Tensor) else a for k, a in options.items()}
    return write(*hosted, **named)
