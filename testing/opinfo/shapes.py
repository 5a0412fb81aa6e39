"""Entries of OpInfo that move, join, split or repeat elements."""

from __future__ import annotations

from typing import Any

from .names import Table, c, linalg, nn, renamed, same


def _sizes(size: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size


def _view(input: Any, *size: Any) -> Any:
    if len(size) == 1 and isinstance(size[0], c.DType):
        return input.view(size[0])
    return c.reshape(input, _sizes(size))


def _expand(input: Any, *size: Any, implicit: bool = False) -> Any:
    shape = _sizes(size)
    lead = len(shape) - input.ndim
    return c.broadcast_to(
        input, tuple(input.shape[a - lead] if n == -1 else n for a, n in enumerate(shape))
    )


def _split(input: Any, size: Any, dim: int = 0) -> Any:
    if isinstance(size, int):
        n = input.shape[dim]
        size = [min(size, n - i) for i in range(0, n, size)] if size else [0]
    return tuple(c.split(input, tuple(size), axis=dim))


def _unflatten(input: Any, dim: int, sizes: Any) -> Any:
    axis = dim % input.ndim
    return c.reshape(input, (*input.shape[:axis], *sizes, *input.shape[axis + 1 :]))


def _chunk(input: Any, chunks: int, dim: int = 0) -> Any:
    return tuple(c.chunk(input, chunks, axis=dim))


def _parts(split: str) -> Any:
    return lambda input, parts: tuple(getattr(c, split)(input, _plain(parts)))


def _plain(parts: Any) -> Any:
    if hasattr(parts, "tolist"):
        parts = parts.tolist()
    return tuple(parts) if isinstance(parts, (list, tuple)) else parts


def _joined(name: str) -> Any:
    return lambda tensors, dim=0: getattr(c, name)(tensors, axis=dim)


def _diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return c.diagonal(input, offset=offset, axis1=dim1, axis2=dim2)


def _meshgrid(*tensors: Any, indexing: str = "ij") -> Any:
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    return tuple(c.meshgrid(*given, indexing=indexing))


def _atleast(name: str) -> Any:
    return lambda *t: (
        tuple(getattr(c, name)(x) for x in t[0]) if isinstance(t[0], (list, tuple))
        else getattr(c, name)(t[0]) if len(t) == 1 else tuple(getattr(c, name)(x) for x in t)
    )  # fmt: skip


def _repeat_interleave(input: Any, repeats: Any, dim: Any = None, output_size: Any = None) -> Any:
    return c.repeat(input, repeats, axis=dim)


def _slice(input: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return input[(slice(None),) * (dim % input.ndim) + (slice(start, end, step),)]


def _slice_scatter(input: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None,
                   step: int = 1) -> Any:  # fmt: skip
    made = input.copy()
    made[(slice(None),) * (dim % input.ndim) + (slice(start, end, step),)] = src
    return made


def _select_scatter(input: Any, src: Any, dim: int, index: int) -> Any:
    made = input.copy()
    made[(slice(None),) * (dim % input.ndim) + (index,)] = src
    return made


def _tuple(x: Any) -> Any:
    return tuple(x) if isinstance(x, list) else x


def _narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    first = start.item() if hasattr(start, "item") else start
    axis = dim % input.ndim
    first = first + input.shape[axis] if first < 0 else first
    return input[(slice(None),) * axis + (slice(first, first + length),)]


def _roll(input: Any, shifts: Any, dims: Any = None) -> Any:
    return c.roll(input, _tuple(shifts), axis=_tuple(dims) if dims not in ((), []) else None)


TABLE: Table = {
    **same( "vstack", "hstack", "dstack", "column_stack", "kron", "outer", "inner",
           "block_diag", "fliplr", "flipud", "cartesian_prod"),
    **renamed({"ravel": "flatten"}),
    "T": lambda input: c.transpose(input), "t": lambda input: c.transpose(input),
    "t_copy": lambda input: c.transpose(input),
    "H": lambda input: c.conj(c.transpose(input)),
    "mT": lambda input: c.matrix_transpose(input),
    "mH": lambda input: c.conj(c.matrix_transpose(input)),
    "transpose": lambda input, dim0, dim1: c.swapaxes(input, dim0, dim1) if input.ndim else input,
    "transpose_copy": lambda input, dim0, dim1: (
        c.swapaxes(input, dim0, dim1) if input.ndim else input
    ),
    "permute": lambda input, dims: c.permute_dims(input, tuple(dims)),
    "permute_copy": lambda input, dims: c.permute_dims(input, tuple(dims)),
    "movedim": lambda input, source, destination: c.moveaxis(
        input, _tuple(source), _tuple(destination)
    ),
    "reshape": lambda input, shape: c.reshape(input, tuple(shape)),
    "reshape_as": lambda input, other: c.reshape(input, other.shape),
    "view": _view, "view_copy": _view,
    "view_as": lambda input, other: c.reshape(input, other.shape),
    "resize_": lambda input, size: c.reshape(input, tuple(size)),
    "resize_as_": lambda input, other: c.reshape(input, other.shape),
    "flatten": lambda input, start_dim=0, end_dim=-1: c.flatten(
        input, start_axis=start_dim, end_axis=end_dim
    ),
    "unflatten": _unflatten,
    "squeeze": lambda input, dim=None: _squeeze(input, dim),
    "squeeze_copy": lambda input, dim=None: _squeeze(input, dim),
    "squeeze/multiple": lambda input, dim=None: _squeeze(input, dim),
    "unsqueeze": lambda input, dim: c.expand_dims(input, axis=dim),
    "unsqueeze_copy": lambda input, dim: c.expand_dims(input, axis=dim),
    "expand": _expand, "expand_copy": _expand,
    "expand_as": lambda input, other: c.broadcast_to(input, other.shape),
    "broadcast_to": lambda input, size: _expand(input, size),
    "broadcast_tensors": lambda *tensors: tuple(c.broadcast_arrays(*tensors)),
    "atleast_1d": _atleast("atleast_1d"), "atleast_2d": _atleast("atleast_2d"),
    "atleast_3d": _atleast("atleast_3d"),
    "cat": _joined("concat"), "stack": _joined("stack"),
    "_chunk_cat": lambda tensors, dim, num_chunks: _chunk_cat(tensors, dim, num_chunks),
    "chunk": _chunk, "unsafe_chunk": _chunk,
    "split": _split, "split/list_args": _split, "unsafe_split": _split,
    "split_with_sizes": _split, "split_with_sizes_copy": _split,
    "tensor_split": lambda input, parts, dim=0: tuple(
        c.array_split(input, _plain(parts), axis=dim)
    ),
    "hsplit": _parts("hsplit"), "vsplit": _parts("vsplit"), "dsplit": _parts("dsplit"),
    "unbind": lambda input, dim=0: tuple(c.unstack(input, axis=dim)),
    "unbind_copy": lambda input, dim=0: tuple(c.unstack(input, axis=dim)),
    "flip": lambda input, dims: c.flip(input, axis=_tuple(dims)) if dims not in ((), []) else input,
    "roll": _roll,
    "rot90": lambda input, k=1, dims=(0, 1): c.rot90(input, k, axes=tuple(dims)),
    "repeat": lambda input, *sizes: c.tile(input, _sizes(sizes)),
    "tile": lambda input, dims: c.tile(input, tuple(dims)),
    "repeat_interleave": _repeat_interleave,
    "tril": lambda input, diagonal=0: c.tril(input, k=diagonal),
    "triu": lambda input, diagonal=0: c.triu(input, k=diagonal),
    "diag": lambda input, diagonal=0: c.diag(input, k=diagonal),
    "diagflat": lambda input, offset=0: c.diag(c.reshape(input, -1), k=offset),
    "diag_embed": lambda input, offset=0, dim1=-2, dim2=-1: c.diag_embed(
        input, offset=offset, axis1=dim1, axis2=dim2
    ),
    "diagonal": _diagonal, "diagonal_copy": _diagonal,
    "diagonal_scatter": lambda input, src, offset=0, dim1=0, dim2=1: c.diagonal_scatter(
        input, src, offset=offset, axis1=dim1, axis2=dim2
    ),
    "linalg.diagonal": lambda A, *, offset=0, dim1=-2, dim2=-1: _diagonal(A, offset, dim1, dim2),
    "trace": lambda input: linalg.trace(input),
    "meshgrid/variadic_tensors": _meshgrid, "meshgrid/list_of_tensors": _meshgrid,
    "combinations": lambda input, r=2, with_replacement=False: c.combinations(
        input, r, with_replacement=with_replacement
    ),
    "linalg.vander": lambda x, *, N=None: c.vander(
        x if x.ndim else c.reshape(x, (1,)), N, increasing=True
    ),
    "narrow": _narrow, "narrow_copy": _narrow,
    "select": lambda input, dim, index: c.take(input, index, axis=dim),
    "select_scatter": _select_scatter, "slice": _slice, "slice_scatter": _slice_scatter,
    "unfold": lambda input, dimension, size, step: c.unfold(
        input, axis=dimension, size=size, step=step
    ),
    "unfold_copy": lambda input, dimension, size, step: c.unfold(
        input, axis=dimension, size=size, step=step
    ),
    "constant_pad_nd": lambda input, pad, value=0: nn.pad(input, pad, "constant", value),
    **{
        f"nn.functional.pad/{mode}": lambda input, pad, mode="constant", value=None: nn.pad(
            input, pad, mode, value
        )
        for mode in ("constant", "reflect", "replicate", "replicate_negative", "circular")
    },
}  # fmt: skip


def _squeeze(input: Any, dim: Any) -> Any:
    if dim is None:
        return c.squeeze(input)
    axes = tuple(dim) if isinstance(dim, (list, tuple)) else (dim,)
    kept = tuple(a for a in axes if input.ndim and input.shape[a] == 1)
    return c.squeeze(input, axis=kept) if kept else input


def _chunk_cat(tensors: Any, dim: int, chunks: int) -> Any:
    lead = dim % tensors[0].ndim
    pieces = []
    for t in tensors:
        n = t.shape[lead]
        size = -(-n // chunks)
        t = c.pad(t, [(0, size * chunks - n if a == lead else 0) for a in range(t.ndim)])
        pieces.append(c.reshape(t, (*t.shape[:lead], chunks, -1)))
    return c.concat(pieces, axis=-1)
