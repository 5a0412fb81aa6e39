"""Random graphs over many ops, with inputs full of −0, NaN, infinities and extreme integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.dtypes import (
    DType,
    bfloat16,
    bool_,
    complex64,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
)
from calor.errors import CalorError
from calor.graph.graph import Builder, Graph
from calor.ops import elementwise as e
from calor.ops import movement as m
from calor.ops import reductions as r
from calor.ops.base import Scalar
from calor.ops.control import cond
from calor.ops.sources import HostArray, constant, full, iota
from calor.specs import spec
from calor.transforms.custom import barrier

Array = np.ndarray[Any, Any]

DTYPES = (bool_, int8, uint8, int32, int64, float16, bfloat16, float32, float64, complex64)
SHAPES = ((), (1,), (3,), (2, 3), (3, 2), (1, 3), (0, 3), (2, 1, 3), (80,))
NUMBERS = (0, 0.0, -0.0, 1, 1, 1, -1, 2, 0.1, 100, 3e38, np.inf, -np.inf, np.nan)
UNARY = (
    *(e.neg, e.neg, e.bit_not, e.conj, e.floor, e.sign, e.abs, e.sqrt, e.exp, e.sin),
    *(e.real, e.imag, e.isnan, e.signbit, barrier),
)  # fmt: skip
BINARY = (
    *(e.add, e.add, e.sub, e.sub, e.mul, e.mul, e.div, e.div, e.floor_divide, e.remainder),
    *(e.maximum, e.equal, e.less, e.bit_and, e.bit_xor, e.shift_left, e.copysign, e.power),
)  # fmt: skip


def assert_same_bits(found: Array, expected: Array) -> None:
    """Fail unless shape, dtype and bits agree; one NaN is as good as another."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert _plain(found) == _plain(expected), (found, expected)


@np.errstate(all="ignore")
def _plain(array: Array) -> bytes:
    array = np.array(array, order="C")
    if array.dtype.kind == "c":
        array = array.reshape(-1).view(f"f{array.dtype.itemsize // 2}")
    if array.dtype.kind not in "biu":
        array = np.where(np.isnan(array), array.dtype.type(np.nan), array)
    return array.tobytes()


def _values(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    if dtype.kind in ("int", "uint"):
        limits = np.iinfo(dtype.numpy)
        edges = np.array([limits.min, limits.max, 0, 1, 2], dtype.numpy)
        return rng.choice(edges, shape)
    if dtype.kind == "bool":
        return rng.random(shape) < 0.5
    with np.errstate(all="ignore"):
        drawn = rng.choice(np.array(NUMBERS), shape).astype(dtype.numpy)
        return drawn + drawn.dtype.type(1j) * drawn if dtype.is_complex else drawn


class Grower:
    """Adds random nodes to a graph."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.builder = Builder()

    def pick(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def number(self) -> int:
        count = len(self.builder.specs)
        # Late values more often, so that nodes build on one another.
        return int(count - 1 - min(int(self.rng.exponential(6.0)), count - 1))

    def like(self, number: int) -> int:
        wanted = self.builder.specs[number]
        found = [i for i, s in enumerate(self.builder.specs) if s is wanted]
        return int(self.pick(*found))

    def add(self, op: Any, *inputs: int, **attributes: Any) -> int:
        return self.builder.add(op, inputs, attributes)[0]

    def source(self) -> None:
        shape, dtype = self.pick(*SHAPES), self.pick(*DTYPES)
        kind = self.pick("full", "full", "iota", "constant", "weak")
        if kind == "full":
            element = self.filler(dtype)
            self.add(full, value=element, shape=shape, dtype=dtype)
        elif kind == "iota":
            self.add(iota, length=self.pick(1, 3, 80), dtype=dtype)
        elif kind == "weak":
            array = _values(self.rng, (), float64)
            self.add(constant, array=HostArray.of(np.asarray(array)), weak=True)
        else:
            array = np.asarray(_values(self.rng, shape, dtype))
            self.add(constant, array=HostArray.of(array), weak=False)

    def filler(self, dtype: DType) -> Scalar:
        element = np.asarray(_values(self.rng, (), dtype))
        return Scalar(dtype.name, element.tobytes())

    def unary(self) -> None:
        self.add(self.pick(*UNARY), self.number())

    def binary(self) -> None:
        x = self.number()
        self.add(self.pick(*BINARY), *self.pick((x, self.like(x)), (self.like(x), x)))

    def with_number(self) -> None:
        x = self.number()
        known = self.builder.specs[x]
        element = self.filler(known.dtype)
        if self.rng.random() < 0.6:
            element = Scalar.of(self.pick(0, 0.0, -0.0, 1, 1), known.dtype)
        y = self.add(full, value=element, shape=known.shape, dtype=known.dtype)
        self.add(self.pick(*BINARY), *self.pick((x, y), (y, x)))

    def cast(self) -> None:
        x = self.number()
        if self.rng.random() < 0.5:
            there = self.add(e.cast, x, dtype=self.pick(*DTYPES))
            self.add(e.cast, there, dtype=self.builder.specs[x].dtype)
        else:
            self.add(e.cast, x, dtype=self.pick(*DTYPES))

    def view(self) -> None:
        x = self.number()
        known = self.builder.specs[x]
        kind = self.pick(
            "reshape", "permute", "expand", "flip", "slice", "dynamic", "pad", "concat"
        )
        axes = tuple(range(known.ndim))
        if kind == "reshape":
            shapes = [s for s in (*SHAPES, known.shape) if np.prod(s) == known.size]
            self.add(m.reshape, x, shape=self.pick(*shapes))
        elif kind == "permute":
            self.add(m.permute, x, axes=tuple(int(a) for a in self.rng.permutation(known.ndim)))
        elif kind == "expand":
            self.add(m.expand, x, shape=self.pick(*SHAPES, known.shape))
        elif kind == "flip":
            self.add(m.flip, x, axes=tuple(a for a in axes if self.rng.random() < 0.5))
        elif kind == "slice":
            starts = tuple(int(self.rng.integers(2)) for _ in axes)
            self.add(m.slice_, x, starts=starts, stops=known.shape, steps=(1,) * known.ndim)
        elif kind == "dynamic":
            sizes = tuple(max(n - int(self.rng.integers(2)), 0) for n in known.shape)
            array = self.rng.integers(-2, 4, known.ndim).astype(np.int32)
            starts = self.add(constant, array=HostArray.of(array), weak=False)
            self.add(m.dynamic_slice, x, starts, sizes=sizes)
        elif kind == "pad":
            value = self.add(full, value=self.filler(known.dtype), shape=(), dtype=known.dtype)
            low, high, inside = (
                tuple(int(self.rng.random() < 0.3) for _ in axes) for _ in range(3)
            )
            self.add(m.pad, x, value, low=low, high=high, interior=inside)
        else:
            parts = [x] if self.rng.random() < 0.3 else [x, self.like(x)]
            self.add(m.concat, *parts, axis=self.pick(*axes, 0))

    def choose(self) -> None:
        x = self.number()
        known = self.builder.specs[x]
        flags = [
            i
            for i, s in enumerate(self.builder.specs)
            if (s.shape, s.dtype) == (known.shape, bool_)
        ]
        if flags and self.rng.random() < 0.5:
            flag = self.pick(*flags)
        else:
            flag = self.add(full, value=self.filler(bool_), shape=known.shape, dtype=bool_)
        self.add(e.where, flag, x, self.like(x))

    def reduce(self) -> None:
        x = self.number()
        known = self.builder.specs[x]
        axes = tuple(a for a in range(known.ndim) if self.rng.random() < 0.5)
        if self.rng.random() < 0.5:
            self.add(r.sum, x, axes=axes, dtype=known.dtype)
        else:
            self.add(r.any_, x, axes=axes)

    def branch(self) -> None:
        x = self.number()
        known = self.builder.specs[x]
        flag = self.add(full, value=self.filler(bool_), shape=(), dtype=bool_)
        self.add(cond, flag, x, then=self.body(known), otherwise=self.body(known))

    def body(self, known: Any) -> Graph:
        inner = Grower(self.rng)
        x = inner.builder.input(spec(known.shape, known.dtype))
        for _ in range(5):
            inner.step()
        result = inner.like(x)
        return inner.builder.build([result])

    def step(self) -> None:
        """Add a node, or none when the op refuses the operands drawn."""
        makers = [self.source, self.unary, self.binary, self.with_number, self.cast, self.view]
        try:
            self.pick(
                *makers, *makers, self.view, self.view, self.choose, self.reduce, self.branch
            )()
        except (CalorError, ValueError):
            return


def graph_and_inputs(seed: int, nodes: int) -> tuple[Graph, list[Array]]:
    """Return a random graph of about that many nodes, and host arrays for its inputs."""
    rng = np.random.default_rng(seed)
    grower = Grower(rng)
    inputs = []
    for _ in range(3):
        shape, dtype = grower.pick(*SHAPES), grower.pick(*DTYPES)
        grower.builder.input(spec(shape, dtype))
        inputs.append(np.asarray(_values(rng, shape, dtype)))
    while len(grower.builder.nodes) < nodes:
        grower.step()
    count = len(grower.builder.specs)
    outputs = [int(i) for i in rng.choice(count, min(count, 12), replace=False)]
    return grower.builder.build([*outputs, count - 1]), inputs
