"""Entries of OpInfo that read and write at places in tensors, sort and search."""

from __future__ import annotations

from typing import Any

from .names import Table, c

_UPDATES = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "mean",
            "add": "add", "multiply": "mul"}  # fmt: skip


def _line(x: Any) -> Any:
    return c.reshape(x, (1,)) if not x.ndim else x


def _window(x: Any, index: Any, dim: int) -> Any:
    """Return the part of x that PyTorch's smaller indices speak of."""
    axis = dim % x.ndim
    return x[tuple(slice(None if a == axis else n) for a, n in enumerate(index.shape))]


def _gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    if not index.size:
        return c.zeros(index.shape, dtype=input.dtype)
    found = c.take_along_axis(_window(_line(input), _line(index), dim), _line(index), axis=dim)
    return c.reshape(found, index.shape)


def _scatter(input: Any, dim: int, index: Any, src: Any, *, reduce: Any = None,
             include_self: bool = True) -> Any:  # fmt: skip
    x, places = _line(input), _line(index)
    update = "assign" if reduce is None else _UPDATES[reduce]
    if not isinstance(src, (int, float, complex)):
        src = _line(src)
        src = src[tuple(slice(n) for n in places.shape)] if src.shape != places.shape else src
    axis = dim % x.ndim
    inside = tuple(slice(None if a == axis else n) for a, n in enumerate(places.shape))
    part = c.scatter_along_axis(
        x[inside], places, src, axis=axis, update=update, include_self=include_self
    )
    made = x.copy()
    made[inside] = part
    return c.reshape(made, input.shape)


def _reduced(input: Any, dim: int, index: Any, src: Any, reduce: str, *,
             include_self: bool = True) -> Any:  # fmt: skip
    return _scatter(input, dim, index, src, reduce=reduce, include_self=include_self)


def _at(update: str) -> Any:
    def call(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
        source = source if alpha == 1 else source * alpha
        made = c.index_update(
            _line(input), _line(index), source if isinstance(source, (int, float, complex))
            else _line(source) if not input.ndim or source.ndim else source,
            axis=dim, update=update,
        )  # fmt: skip
        return c.reshape(made, input.shape)

    return call


def _index_reduce(input: Any, dim: int, index: Any, source: Any, reduce: str, *,
                  include_self: bool = True) -> Any:  # fmt: skip
    made = c.index_update(
        _line(input), _line(index), _line(source), axis=dim, update=_UPDATES[reduce],
        include_self=include_self,
    )  # fmt: skip
    return c.reshape(made, input.shape)


def _added_at(input: Any, indices: Any, values: Any) -> Any:
    places: list[Any] = []
    for i in indices:
        places.extend(c.nonzero(i) if i.dtype is c.bool_ else (i,))
    vectors = c.stack(c.broadcast_arrays(*places), axis=-1)
    return c.scatter_nd(input, vectors, values, update="add")


def _index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    made = input.copy()
    if accumulate:
        return _added_at(input, tuple(indices), values)
    made[tuple(indices)] = values
    return made


def _unsafe_masked_index(input: Any, mask: Any, indices: Any, fill: Any) -> Any:
    places = tuple(c.clip(i, 0, n - 1) for i, n in zip(indices, input.shape, strict=True))
    return c.where(mask, input[places], fill)


def _unsafe_put(input: Any, mask: Any, indices: Any, values: Any) -> Any:
    places = tuple(c.clip(i, -n, n - 1) for i, n in zip(indices, input.shape, strict=True))
    return _added_at(input, places, c.where(mask, values, 0))


def _sort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    if not input.ndim:
        return input, c.zeros((), dtype=c.int64)
    places = c.argsort(input, axis=dim, descending=descending)
    return c.sort(input, axis=dim, descending=descending), places


def _topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    if not input.ndim:
        return input, c.zeros((), dtype=c.int64)
    return tuple(c.topk(input, k, axis=dim, largest=largest))


def _unique(input: Any, sorted: bool = True, return_inverse: bool = False,
            return_counts: bool = False, dim: Any = None) -> Any:  # fmt: skip
    found = c.unique_all(input, axis=dim)
    parts = [found.values]
    if return_inverse:
        parts.append(found.inverse_indices)
    if return_counts:
        parts.append(found.counts)
    return parts[0] if len(parts) == 1 else tuple(parts)


def _unique_consecutive(input: Any, return_inverse: bool = False, return_counts: bool = False,
                        dim: Any = None) -> Any:  # fmt: skip
    found = c.unique_consecutive(input, axis=dim)
    parts = [found.values]
    if return_inverse:
        parts.append(found.inverse_indices)
    if return_counts:
        parts.append(found.counts)
    return parts[0] if len(parts) == 1 else tuple(parts)


def _searchsorted(line: Any, input: Any, *, out_int32: bool = False, right: bool = False,
                  side: Any = None, sorter: Any = None) -> Any:  # fmt: skip
    side = side or ("right" if right else "left")
    return c.searchsorted(line, input, side=side, sorter=sorter).astype(
        c.int32 if out_int32 else c.int64
    )


def _nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    return tuple(c.nonzero(input)) if as_tuple else c.argwhere(input)


TABLE: Table = {
    "gather": _gather, "scatter": _scatter,
    "scatter_add": lambda input, dim, index, src: _scatter(input, dim, index, src, reduce="add"),
    "scatter_reduce/sum": _reduced, "scatter_reduce/prod": _reduced,
    "scatter_reduce/mean": _reduced, "scatter_reduce/amin": _reduced,
    "scatter_reduce/amax": _reduced,
    "index_add": _at("add"), "index_copy": _at("assign"), "index_fill": _at("assign"),
    "index_reduce/mean": _index_reduce, "index_reduce/prod": _index_reduce,
    "index_reduce/amin": _index_reduce, "index_reduce/amax": _index_reduce,
    "index_select": lambda input, dim, index: c.reshape(
        c.take(_line(input), _line(index), axis=dim),
        () if not input.ndim else _taken(input, dim, index),
    ),
    "index_put": _index_put, "__getitem__": lambda input, key: input[_key(key)],
    "_unsafe_masked_index": _unsafe_masked_index,
    "_unsafe_masked_index_put_accumulate": _unsafe_put,
    "masked_fill": lambda input, mask, value: c.where(
        mask, c.asarray(value).astype(input.dtype), input
    ),
    "masked_scatter": lambda input, mask, source: c.masked_scatter(input, mask, source),
    "masked_select": lambda input, mask: _selected(input, mask),
    "put": lambda input, index, source, accumulate=False: c.put(
        input, index, source, update="add" if accumulate else "assign"
    ),
    "take": lambda input, index: c.take(c.reshape(input, -1), index),
    "take_along_dim": lambda input, indices, dim=None: (
        c.take(c.reshape(input, -1), c.reshape(indices, -1)) if dim is None
        else c.take_along_axis(input, indices, axis=dim)
    ),
    "sort": _sort, "topk": _topk,
    "argsort": lambda input, dim=-1, descending=False, stable=False: _sort(
        input, dim, descending
    )[1],
    "msort": lambda input: _sort(input, 0)[0],
    "unique": _unique, "unique_consecutive": _unique_consecutive,
    "searchsorted": _searchsorted,
    "bucketize": lambda input, boundaries, *, out_int32=False, right=False: _searchsorted(
        boundaries, input, out_int32=out_int32, right=right
    ),
    "nonzero": _nonzero, "argwhere": lambda input: c.argwhere(input),
    "nonzero_static": lambda input, *, size, fill_value=-1: c.argwhere(
        input, size=size, fill_value=fill_value
    ),
    "unravel_index": lambda indices, shape: tuple(c.unravel_index(
        indices, (shape,) if isinstance(shape, int) else tuple(shape)
    )),
}  # fmt: skip


def _taken(input: Any, dim: int, index: Any) -> tuple[int, ...]:
    axis = dim % input.ndim
    return (*input.shape[:axis], index.size, *input.shape[axis + 1 :])


def _key(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) and any(isinstance(k, slice) for k in key) else key


def _selected(input: Any, mask: Any) -> Any:
    input, mask = c.broadcast_arrays(input, mask)
    return input[mask]
