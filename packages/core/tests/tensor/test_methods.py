"""Methods are sugar: each gives what the function of its name gives."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor
from calor import methods
from calor.errors import ArgumentError, DTypeError, ShapeError

X = np.array([[0.5, -0.25, 0.75], [0.1, 0.9, -0.6]], np.float32)

# Method, arguments, the function where its name differs.
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    *(
        (name, (), {}, name)
        for name in [
            "abs",
            "sign",
            "square",
            "reciprocal",
            "floor",
            "ceil",
            "trunc",
            "conj",
            "exp",
            "exp2",
            "expm1",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
            "tanh",
            "asinh",
            "atanh",
            "erf",
            "erfinv",
            "lgamma",
            "digamma",
            "isnan",
            "isinf",
            "isfinite",
            "signbit",
            "logical_not",
            "real",
            "imag",
            "sum",
            "prod",
            "mean",
            "var",
            "std",
            "max",
            "min",
            "any",
            "all",
            "count_nonzero",
            "logsumexp",
            "argmax",
            "argmin",
            "sort",
            "argsort",
            "nonzero",
            "flatten",
            "squeeze",
            "expand_dims",
            "transpose",
            "flip",
            "unstack",
            "tril",
            "triu",
            "nan_to_num",
            "round",
            "relu",
            "leaky_relu",
            "elu",
            "sigmoid",
            "silu",
            "gelu",
            "softplus",
            "softmax",
            "log_softmax",
        ]
    ),
    *((name, (), {}, name) for name in ("sqrt", "log", "log2", "log10", "log1p", "acosh")),
    *(
        (name, (calor.asarray(X) + 1,), {}, name)
        for name in [
            "pow",
            "maximum",
            "minimum",
            "atan2",
            "logical_and",
            "logical_or",
            "logical_xor",
        ]
    ),
    ("sum", (0,), {"keepdims": True, "dtype": "float64"}, "sum"),
    ("prod", (-1,), {"dtype": "float64"}, "prod"),
    ("mean", ((0, 1),), {"keepdims": True}, "mean"),
    ("var", (1,), {"correction": 1}, "var"),
    ("std", (1,), {"correction": 1, "keepdims": True}, "std"),
    ("argmax", (1,), {"keepdims": True}, "argmax"),
    ("cumsum", (1,), {}, "cumulative_sum"),
    ("cumprod", (0,), {"dtype": "float64"}, "cumulative_prod"),
    ("cummax", (1,), {}, "cumulative_max"),
    ("cummin", (1,), {}, "cumulative_min"),
    ("sort", (0,), {"descending": True}, "sort"),
    ("argsort", (0,), {"descending": True}, "argsort"),
    ("topk", (2,), {"largest": False}, "topk"),
    ("round", (1,), {}, "round"),
    ("clip", (-0.1, 0.2), {}, "clip"),
    ("nan_to_num", (), {"nan": 1.0}, "nan_to_num"),
    ("reshape", ((3, 2),), {}, "reshape"),
    ("permute_dims", ((1, 0),), {}, "permute_dims"),
    ("transpose", ((1, 0),), {}, "transpose"),
    ("swapaxes", (0, 1), {}, "swapaxes"),
    ("moveaxis", (0, 1), {}, "moveaxis"),
    ("broadcast_to", ((2, 2, 3),), {}, "broadcast_to"),
    ("flip", (0,), {}, "flip"),
    ("roll", (1,), {"axis": 1}, "roll"),
    ("repeat", (2,), {"axis": 0}, "repeat"),
    ("tile", ((2, 1),), {}, "tile"),
    ("split", ([1, 2],), {"axis": 1}, "split"),
    ("chunk", (3,), {"axis": 1}, "chunk"),
    ("take", (calor.asarray([0, 0, 1]),), {"axis": 0}, "take"),
    ("take_along_axis", (calor.asarray([[0], [2]]),), {"axis": 1}, "take_along_axis"),
    ("softmax", (0,), {}, "softmax"),
    ("log_softmax", (0,), {}, "log_softmax"),
    ("gelu", ("tanh",), {}, "gelu"),
    ("matmul", (calor.asarray(X.T),), {}, "matmul"),
]
# Positional in the method as in NumPy and PyTorch, by keyword in the function.
AXIS_FIRST = [
    "sum",
    "prod",
    "mean",
    "var",
    "std",
    "argmax",
    "cumsum",
    "cumprod",
    "cummax",
    "cummin",
    "sort",
    "argsort",
    "flip",
    "softmax",
    "log_softmax",
]


def function_of(name: str) -> Callable[..., Any]:
    found = getattr(calor, name)
    assert callable(found)
    return found  # type: ignore[no-any-return]


def plain(result: Any) -> Any:
    if isinstance(result, tuple | list):
        return [plain(r) for r in result]
    return result.tolist()


@pytest.mark.parametrize(("name", "args", "options", "function"), CALLS)
def test_method_is_the_function(
    name: str, args: tuple[Any, ...], options: dict[str, Any], function: str
) -> None:
    x = calor.asarray(np.abs(X) + 1 if name in ("pow", "sqrt", "acosh") or "log" in name else X)
    by_method = getattr(x, name)
    by_method = by_method if isinstance(by_method, calor.Tensor) else by_method(*args, **options)
    if name in AXIS_FIRST and args:
        args, options = (), {"axis": args[0], **options}
    if name == "round" and args:
        args, options = (), {"decimals": args[0]}
    assert plain(by_method) == plain(function_of(function)(x, *args, **options))


SUGAR = (
    methods.elementwise.ElementwiseMethods,
    methods.reductions.ReductionMethods,
    methods.shape.ShapeMethods,
    methods.neural.NeuralMethods,
    methods.types.TypeMethods,
)


def public_methods() -> set[str]:
    return {name for theme in SUGAR for name in vars(theme) if not name.startswith("_")}


def test_every_method_is_called_here() -> None:
    types = {"astype", "view", "half", "bfloat16", "float", "double", "int", "long", "bool"}
    # Of an op that is declared in one place the method is the function.
    same = {
        name for name in public_methods() if getattr(calor.Tensor, name) is vars(calor).get(name)
    }
    assert public_methods() - types - {"ravel"} - same == {name for name, *_ in CALLS}


@pytest.mark.parametrize("name", sorted(public_methods()))
def test_signatures_are_explicit(name: str) -> None:
    method = inspect.getattr_static(calor.Tensor, name)
    parameters = inspect.signature(getattr(method, "fget", method)).parameters.values()
    assert all(p.kind is not p.VAR_KEYWORD for p in parameters)
    assert method.__doc__


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("half", "float16"),
        ("bfloat16", "bfloat16"),
        ("float", "float32"),
        ("double", "float64"),
        ("int", "int32"),
        ("long", "int64"),
        ("bool", "bool"),
    ],
)
def test_type_shortcuts(name: str, dtype: str) -> None:
    x = calor.asarray([0, 1, 2], dtype="int16")
    made = getattr(x, name)()
    assert made.dtype.name == dtype
    assert made.tolist() == [0, 1, 1 if dtype == "bool" else 2]
    assert getattr(made, name)() is made
    assert x.astype(dtype).dtype.name == dtype
    assert x.astype("int16", copy=False) is x


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint32", "float64", "bfloat16"])
def test_view_reads_bits_as_numpy_does(dtype: str) -> None:
    array = np.arange(8, dtype=np.float32).reshape(2, 4)
    made = calor.asarray(array).view(dtype)
    assert made.dtype.name == dtype
    expected = array.view(made.dtype.numpy)
    assert made.shape == expected.shape
    assert made.numpy().tobytes() == expected.tobytes()
    assert made.view("float32").tolist() == array.tolist()


def test_view_of_a_shape_reshapes() -> None:
    x = calor.asarray(X)
    assert x.view(3, -1).shape == x.view((3, 2)).shape == (3, 2)
    with pytest.raises(DTypeError, match="no last axis of a multiple of 8 bytes, which float64"):
        x.view("float64")


def test_sizes_one_by_one_or_as_a_tuple() -> None:
    x = calor.asarray(X)
    assert x.reshape(3, -1).shape == x.reshape((3, -1)).shape == (3, 2)
    assert x.reshape(-1).shape == x.ravel().shape == (6,)
    assert x.permute_dims(1, 0).shape == x.transpose(1, 0).shape == x.transpose().shape == (3, 2)
    with pytest.raises(ArgumentError, match=r"x.swapaxes\(0, 1\) or x.T exchanges"):
        x.transpose(0, 1)
    with pytest.raises(ShapeError, match=r"x.swapaxes\(1, 2\) exchanges"):
        calor.ones((2, 3, 4)).transpose(1, 2)
    assert x.transpose((0, 1)).shape == (2, 3)
    assert x.broadcast_to(1, 2, 3).shape == (1, 2, 3)
    assert x.tile(2, 2).shape == (4, 6)
