"""Entries of OpInfo that convert dtypes, copy, or make tensors."""

from __future__ import annotations

from typing import Any

from .names import Table, c


def _to(dtype: str) -> Any:
    return lambda input: input.astype(getattr(c, dtype))


def _full(like: Any) -> Any:
    return lambda *size, dtype=None: like(_size(size), dtype=dtype)


def _size(size: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size


def _arange(*bounds: Any, end: Any = None, dtype: Any = None) -> Any:
    bounds = bounds if end is None else (*bounds, end)
    if len(bounds) == 1:
        bounds = (0, bounds[0])
    return c.arange(*bounds, dtype=dtype)


def _number(x: Any) -> Any:
    return x.item() if hasattr(x, "item") else x


TABLE: Table = {
    "bfloat16": _to("bfloat16"),
    "bool": _to("bool_"),
    "byte": _to("uint8"),
    "char": _to("int8"),
    "double": _to("float64"),
    "float": _to("float32"),
    "half": _to("float16"),
    "int": _to("int32"),
    "long": _to("int64"),
    "short": _to("int16"),
    "cdouble": _to("complex128"),
    "cfloat": _to("complex64"),
    "to": lambda input, *a, **k: input.astype(
        next(v for v in (*a, *k.values()) if isinstance(v, c.DType))
        if any(isinstance(v, c.DType) for v in (*a, *k.values()))
        else a[0].dtype
        if a and hasattr(a[0], "dtype")
        else input.dtype
    ),
    "clone": lambda input: input.copy(),
    "contiguous": lambda input: input.copy(),
    "alias_copy": lambda input: input.copy(),
    "item": lambda input: input.item(),
    "fill": lambda input, value: c.full_like(input, value),
    "zero_": lambda input: c.zeros_like(input),
    "empty_like": lambda input, dtype=None: c.empty_like(input, dtype=dtype),
    "zeros_like": lambda input, dtype=None: c.zeros_like(input, dtype=dtype),
    "ones_like": lambda input, dtype=None: c.ones_like(input, dtype=dtype),
    "full_like": lambda input, fill_value, dtype=None: c.full_like(input, fill_value, dtype=dtype),
    "empty": lambda *size, dtype=None: c.empty(_size(size), dtype=dtype),
    "zeros": lambda *size, dtype=None: c.zeros(_size(size), dtype=dtype),
    "ones": lambda *size, dtype=None: c.ones(_size(size), dtype=dtype),
    "full": lambda size, fill_value, dtype=None: c.full(size, fill_value, dtype=dtype),
    "new_empty": lambda input, size, dtype=None: c.empty(size, dtype=dtype or input.dtype),
    "new_zeros": lambda input, size, dtype=None: c.zeros(size, dtype=dtype or input.dtype),
    "new_ones": lambda input, size, dtype=None: c.ones(size, dtype=dtype or input.dtype),
    "new_full": lambda input, size, fill_value, dtype=None: c.full(
        size, fill_value, dtype=dtype or input.dtype
    ),
    "scalar_tensor": lambda value, dtype=None: c.asarray(value, dtype=dtype),
    "eye": lambda n, m=None, dtype=None: c.eye(n, m, dtype=dtype),
    "arange": _arange,
    "linspace": lambda start, end, steps, dtype=None: c.linspace(start, end, steps, dtype=dtype),
    "linspace/tensor_overload": lambda start, end, steps, dtype=None: c.linspace(
        _number(start), _number(end), steps, dtype=dtype
    ),
    "logspace": lambda start, end, steps, base=10.0, dtype=None: c.logspace(
        start, end, steps, base=base, dtype=dtype
    ),
    "logspace/tensor_overload": lambda start, end, steps, base=10.0, dtype=None: c.logspace(
        _number(start), _number(end), steps, base=base, dtype=dtype
    ),
    "tril_indices": lambda row, col, offset=0, dtype=None: c.stack(
        c.tril_indices(row, col, k=offset)
    ).astype(dtype or c.int64),
    "triu_indices": lambda row, col, offset=0, dtype=None: c.stack(
        c.triu_indices(row, col, k=offset)
    ).astype(dtype or c.int64),
    "view_as_complex": lambda input: c.complex(input[..., 0], input[..., 1]),
    "view_as_real": lambda input: c.stack((c.real(input), c.imag(input)), axis=-1),
    "broadcast_shapes": lambda *shapes: c.asarray(
        list(c.broadcast_shapes(*((s,) if isinstance(s, int) else tuple(s) for s in shapes))),
        dtype=c.int64,
    ),
}
