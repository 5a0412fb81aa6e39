"""Operators that move, join, choose and scatter elements."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .language import Draw, Node, Rng, axes_of, axis_of, coin, numbers, option, shape_of, some


def _reshape(rng: Rng) -> Node:
    x = some(rng, *rng.permutation([2, 3, 4]))
    size = int(rng.choice([1, 2, 3, 4, 6, 8, 12, 24]))
    wanted = [(size, -1), (0, -1), (-1, size), (0, 0, -1), (1, -1, 1)][int(rng.integers(5))]
    return Node([x, numbers(*wanted)], fixed=(1,))


def _transpose(rng: Rng) -> Node:
    x = some(rng, *shape_of(rng, 2))
    return Node([x], option(rng, {"perm": [int(n) for n in rng.permutation(x.ndim)]}, 0.8))


def _squeeze(rng: Rng) -> Node:
    shape = [1, int(rng.integers(2, 5)), 1, int(rng.integers(2, 5))]
    axes = [a for a in (0, -2) if coin(rng)]
    return Node([some(rng, *shape), *([numbers(*axes)] if axes else [])], fixed=(1,))


def _unsqueeze(rng: Rng) -> Node:
    x = some(rng, *shape_of(rng, 1, 3))
    count = int(rng.integers(1, 3))
    axes = [int(a) for a in rng.permutation(x.ndim + count)[:count]]
    turned = [a - x.ndim - count if coin(rng) else a for a in axes]
    return Node([x, numbers(*turned)], fixed=(1,))


def _flatten(rng: Rng) -> Node:
    x = some(rng, *shape_of(rng, 2))
    return Node([x], option(rng, {"axis": int(rng.integers(-x.ndim, x.ndim + 1))}, 0.8))


def _concat(rng: Rng) -> Node:
    shape = list(shape_of(rng))
    axis = int(rng.integers(-len(shape), len(shape)))
    parts = []
    for _ in range(int(rng.integers(1, 4))):
        shape[axis] = int(rng.integers(1, 5))
        parts.append(some(rng, *shape))
    return Node(parts, {"axis": axis})


def _split(rng: Rng) -> Node:
    x = some(rng, *rng.permutation([7, 2, 3]))
    axis = x.shape.index(7) - 3 * coin(rng)
    if coin(rng):
        count = int(rng.integers(2, 4))
        return Node([x], {"axis": axis, "num_outputs": count}, count, opset=18)
    cut = int(rng.integers(1, 6))
    return Node([x, numbers(cut, 7 - cut)], {"axis": axis}, 2, opset=13, fixed=(1,))


def _slice(rng: Rng) -> Node:
    x = some(rng, *(int(n) for n in rng.integers(2, 7, int(rng.integers(1, 4)))))
    axes = axes_of(rng, x.ndim)
    starts = [int(rng.integers(-x.shape[a], x.shape[a])) for a in axes]
    ends = rng.integers(-8, 9, len(axes))
    steps = rng.choice([-2, -1, 1, 1, 2, 3], len(axes))
    given: list[Any] = [x, numbers(*starts), numbers(*ends), numbers(*axes), numbers(*steps)]
    return Node(given, fixed=(1, 2, 3, 4) if coin(rng) else ())


def _pad(rng: Rng) -> Node:
    x = some(rng, *(int(n) for n in rng.integers(3, 6, int(rng.integers(1, 4)))))
    mode = str(rng.choice(["constant", "reflect", "edge", "wrap"]))
    pads = rng.integers(0, 3, 2 * x.ndim)
    given: list[Any] = [x, numbers(*pads)]
    if mode == "constant" and coin(rng):
        given.append(np.asarray(rng.normal(), np.float32))
    return Node(given, {"mode": mode}, opset=19, fixed=(1, 2))


def _expand(rng: Rng) -> Node:
    shape = shape_of(rng)
    x = some(rng, *(n if coin(rng) else 1 for n in shape))
    wanted = [n if coin(rng) else 1 for n in (2, *shape)] if coin(rng) else list(shape)
    wanted[-len(shape) :] = [
        n if s == 1 else (s if coin(rng) else 1)
        for n, s in zip(wanted[-len(shape) :], x.shape, strict=True)
    ]
    return Node([x, numbers(*wanted)], fixed=(1,))


def _tile(rng: Rng) -> Node:
    x = some(rng, *shape_of(rng, 1, 3))
    return Node([x, numbers(*rng.integers(1, 4, x.ndim))], fixed=(1,))


def _gather(rng: Rng) -> Node:
    x = some(rng, *shape_of(rng))
    axis = axis_of(rng, x)
    size = x.shape[axis]
    at = rng.integers(-size, size, shape_of(rng, 0, 2))
    return Node([x, np.asarray(at, np.int32 if coin(rng) else np.int64)], {"axis": axis})


def _elements(rng: Rng) -> Node:
    x = some(rng, *(int(n) for n in rng.integers(2, 5, 2)))
    axis = axis_of(rng, x)
    shape = list(x.shape)
    shape[axis] = int(rng.integers(1, 5))
    at = rng.integers(-x.shape[axis], x.shape[axis], shape)
    return Node([x, at], {"axis": axis}, want=[np.take_along_axis(x, at, axis)])


def _gather_nd(rng: Rng) -> Node:
    x = some(rng, 2, 3, 4)
    batch = int(rng.integers(0, 2))
    depth = int(rng.integers(1, 4 - batch))
    sizes = x.shape[batch : batch + depth]
    lead = (2, 2) if batch else (3,)
    at = np.stack([rng.integers(-n, n, lead) for n in sizes], -1)
    return Node([x, at], {"batch_dims": batch} if batch else {})


def _scatter_elements(rng: Rng) -> Node:
    x = some(rng, 3, 4)
    axis = axis_of(rng, x)
    along = axis % 2
    shape = [int(rng.integers(1, n + 1)) for n in x.shape]
    # Different places along the axis: the order of writes to one place is not stated.
    at = np.argsort(rng.random(x.shape), along)[: shape[0], : shape[1]]
    reduction = str(rng.choice(["none", "add", "mul", "max", "min"]))
    turned = np.where(rng.random(at.shape) < 0.3, at - x.shape[axis], at)
    return Node(
        [x, turned, some(rng, *at.shape)],
        {"axis": axis, **({} if reduction == "none" else {"reduction": reduction})},
        opset=18,
    )


def _scatter_nd(rng: Rng) -> Node:
    x = some(rng, 4, 3)
    reduction = str(rng.choice(["none", "add", "mul", "max", "min"]))
    at = rng.permutation(4)[:3, None]
    if coin(rng):
        at = np.concatenate([at, rng.integers(0, 3, (3, 1))], 1)
    values = some(rng, *at.shape[:-1], *x.shape[at.shape[-1] :])
    return Node(
        [x, np.asarray(at, np.int64), values],
        {} if reduction == "none" else {"reduction": reduction},
        opset=18,
    )


def _one_hot(rng: Rng) -> Node:
    at = rng.integers(-4, 4, shape_of(rng, 1, 2))
    values = np.asarray([0.5, 3.0], np.float32)
    return Node(
        [np.asarray(at, np.int64), np.asarray(4, np.int64), values],
        option(rng, {"axis": int(rng.integers(-at.ndim - 1, at.ndim + 1))}),
        fixed=(1,),
    )


def _depth(rng: Rng) -> Node:
    x = some(rng, 2, 8, 2, 3)
    return Node([x], {"blocksize": 2, **option(rng, {"mode": str(rng.choice(["DCR", "CRD"]))})})


def _trilu(rng: Rng) -> Node:
    x = some(rng, *shape_of(rng, 2))
    k = np.asarray(int(rng.integers(-3, 4)), np.int64)
    upper = option(rng, {"upper": int(coin(rng))})
    return Node([x, k] if coin(rng, 0.7) else [x], upper, fixed=(1,))


def _compress(rng: Rng) -> Node:
    x = some(rng, 3, 4)
    axis = axis_of(rng, x)
    if coin(rng, 0.3):
        return Node([x, rng.random(7) < 0.5])
    return Node([x, rng.random(int(rng.integers(1, x.shape[axis] + 1))) < 0.5], {"axis": axis})


def _unique(rng: Rng) -> Node:
    x = np.asarray(rng.integers(0, 4, (5,)), np.float32)
    return Node([x], {"sorted": 1}, outputs=4)


def _shape(rng: Rng) -> Node:
    x = some(rng, *shape_of(rng))
    ends = {"start": int(rng.integers(-4, 4)), "end": int(rng.integers(-x.ndim, 5))}
    return Node([x], option(rng, ends), opset=19)


def _range(rng: Rng) -> Node:
    kind: Any = np.int64 if coin(rng) else np.float32
    start, step = int(rng.integers(-5, 6)), int(rng.choice([-2, -1, 1, 3]))
    limit = start + step * int(rng.integers(0, 5)) + int(np.sign(step)) * int(coin(rng))
    return Node([np.asarray(v, kind) for v in (start, limit, step)])


def _reverse(rng: Rng) -> Node:
    x = some(rng, 4, 4, 2)
    batch = int(coin(rng))
    lengths = numbers(*rng.integers(1, 5, 4))
    return Node([x, lengths], {"batch_axis": batch, "time_axis": 1 - batch})


def _eye(rng: Rng) -> Node:
    x = some(rng, *shape_of(rng, 2, 2))
    return Node([x], option(rng, {"k": int(rng.integers(-3, 4)), "dtype": 6}))


def _constant(rng: Rng) -> Node:
    from onnx import numpy_helper

    value = np.asarray([rng.integers(-5, 5)], np.int32 if coin(rng) else np.float32)
    tensor = {"value": numpy_helper.from_array(value)}
    return Node([numbers(*shape_of(rng))], option(rng, tensor), fixed=(0,))


def _crop(rng: Rng) -> Node:
    x = some(rng, *(int(n) for n in rng.integers(2, 8, 3)))
    axes = sorted(int(a) for a in rng.permutation(3)[:2])
    return Node([x, numbers(*rng.integers(1, 9, 2))], {"axes": axes}, opset=18, fixed=(1,))


ROWS: Final[dict[str, Draw]] = {
    "Reshape": _reshape, "Transpose": _transpose, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze,
    "Flatten": _flatten, "Concat": _concat, "Split": _split, "Slice": _slice, "Pad": _pad,
    "Expand": _expand, "Tile": _tile, "Gather": _gather, "GatherElements": _elements,
    "GatherND": _gather_nd, "ScatterElements": _scatter_elements, "ScatterND": _scatter_nd,
    "OneHot": _one_hot, "DepthToSpace": _depth, "Trilu": _trilu, "Compress": _compress,
    "Unique": _unique, "Shape": _shape, "Range": _range, "ReverseSequence": _reverse,
    "EyeLike": _eye, "ConstantOfShape": _constant, "CenterCropPad": _crop,
    "SpaceToDepth": lambda rng: Node([some(rng, 1, 2, 4, 6)], {"blocksize": 2}),
    "Size": lambda rng: Node([some(rng, *shape_of(rng))]),
    "NonZero": lambda rng: Node([np.round(some(rng, *shape_of(rng)))]),
}  # fmt: skip
