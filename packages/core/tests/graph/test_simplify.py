"""Simplification: the same bits from fewer nodes, rule by rule and for random graphs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor
from calor.dtypes import (
    bfloat16,
    bool_,
    complex64,
    complex128,
    float8_e4m3fn,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint32,
)
from calor.graph.graph import Builder, Graph
from calor.graph.interpreter import interpret
from calor.graph.verify import verify
from calor.ops import elementwise as e
from calor.ops import movement as m
from calor.ops import reductions as r
from calor.ops.base import Op, Scalar
from calor.ops.composites import rms_norm
from calor.ops.control import cond, scan, while_loop
from calor.ops.sources import HostArray, constant, full, iota
from calor.ops.spectral import random_bits
from calor.specs import Spec, spec
from calor.transforms.custom import barrier
from calor.transforms.simplify import simplify

from . import random_graphs


class Sketch(Builder):
    """A Builder of one-output nodes with short names for the rows below."""

    def __call__(self, op: Op, *inputs: int, **attributes: Any) -> int:
        return self.add(op, inputs, attributes)[0]

    def full(self, number: Any, dtype: Any = float32, shape: tuple[int, ...] = ()) -> int:
        return self(full, value=Scalar.of(number, dtype), shape=shape, dtype=dtype)

    def constant(self, numbers: Any, dtype: Any = float32, weak: bool = False) -> int:
        return self(constant, array=HostArray.of(np.array(numbers, dtype.numpy)), weak=weak)


Make = Callable[..., int]


def build(inputs: tuple[Spec, ...], make: Make) -> Graph:
    """Return the graph whose output is the value that ``make(sketch, *inputs)`` returns."""
    sketch = Sketch()
    numbers = [sketch.input(s) for s in inputs]
    return sketch.build([make(sketch, *numbers)])


def body(graph: Graph) -> str:
    """Return the text of a graph's nodes and outputs, without its inputs."""
    return "; ".join(line.strip() for line in graph.text().splitlines()[1:-1])


X = spec((2, 3), float32)
ROW = spec((3,), float32)
WEAK = spec((), float64, True)
FLAG = spec((2, 3), bool_)


def of(shape: tuple[int, ...], dtype: Any) -> Spec:
    return spec(shape, dtype)


SIMPLER: list[tuple[str, tuple[Spec, ...], Make, str]] = [
    (
        "dead",
        (X,),
        lambda s, x: (s(e.exp, x), s(e.sin, x))[1],
        "%1: float32[2, 3] = sin(%0); return %1",
    ),
    (
        "repeated",
        (X,),
        lambda s, x: s(e.add, s(e.sin, x), s(e.sin, x)),
        "%1: float32[2, 3] = sin(%0); %2: float32[2, 3] = add(%1, %1); return %2",
    ),
    (
        "random bits repeated",
        (of((2,), uint32), of((4,), uint32)),
        lambda s, k, c: s(
            e.bit_xor,
            s(random_bits, k, c, shape=(3,), bits=32),
            s(random_bits, k, c, shape=(3,), bits=32),
        ),
        (
            "%2: uint32[3] = random_bits(%0, %1, shape=(3,), bits=32); "
            "%3: uint32[3] = bit_xor(%2, %2); return %3"
        ),
    ),
    (
        "reshape twice",
        (X,),
        lambda s, x: s(m.reshape, s(m.reshape, x, shape=(6,)), shape=(3, 2)),
        "%1: float32[3, 2] = reshape(%0, shape=(3, 2)); return %1",
    ),
    (
        "reshape back",
        (X,),
        lambda s, x: s(m.reshape, s(m.reshape, x, shape=(6,)), shape=(2, 3)),
        "return %0",
    ),
    (
        "permute twice",
        (of((2, 3, 4), float32),),
        lambda s, x: s(m.permute, s(m.permute, x, axes=(1, 2, 0)), axes=(0, 2, 1)),
        "%1: float32[3, 2, 4] = permute(%0, axes=(1, 0, 2)); return %1",
    ),
    (
        "transposed twice",
        (X,),
        lambda s, x: s(m.permute, s(m.permute, x, axes=(1, 0)), axes=(1, 0)),
        "return %0",
    ),
    (
        "expand twice",
        (ROW,),
        lambda s, x: s(m.expand, s(m.expand, x, shape=(1, 3)), shape=(4, 3)),
        "%1: float32[4, 3] = expand(%0, shape=(4, 3)); return %1",
    ),
    ("expand to itself", (X,), lambda s, x: s(m.expand, x, shape=(2, 3)), "return %0"),
    (
        "whole slice",
        (X,),
        lambda s, x: s(m.slice_, x, starts=(0, 0), stops=(2, 3), steps=(1, 1)),
        "return %0",
    ),
    (
        "flip back",
        (X,),
        lambda s, x: s(m.flip, s(m.flip, x, axes=(0, 1)), axes=(1, 0)),
        "return %0",
    ),
    ("flip of nothing", (X,), lambda s, x: s(m.flip, x, axes=()), "return %0"),
    ("concat of one", (X,), lambda s, x: s(m.concat, x, axis=1), "return %0"),
    (
        "pad by nothing",
        (X,),
        lambda s, x: s(m.pad, x, s.full(1.0), low=(0, 0), high=(0, 0), interior=(0, 0)),
        "return %0",
    ),
    (
        "a join whose axes are merged in another order",
        (of((1, 2, 3), float32), of((1, 2, 3), float32)),
        lambda s, x, y: s(
            m.reshape, s(m.permute, s(m.concat, x, y, axis=0), axes=(1, 0, 2)), shape=(2, 6)
        ),
        (
            "%2: float32[2, 1, 3] = permute(%0, axes=(1, 0, 2)); "
            "%3: float32[2, 1, 3] = permute(%1, axes=(1, 0, 2)); "
            "%4: float32[2, 2, 3] = concat(%2, %3, axis=1); "
            "%5: float32[2, 6] = reshape(%4, shape=(2, 6)); return %5"
        ),
    ),
    ("cast to itself", (X,), lambda s, x: s(e.cast, x, dtype=float32), "return %0"),
    (
        "pad of a pad",
        (X, of((), float32)),
        lambda s, x, v: s(
            m.pad,
            s(m.pad, x, v, low=(1, 0), high=(0, 2), interior=(1, 0)),
            v,
            low=(0, 3),
            high=(4, 0),
            interior=(0, 0),
        ),
        ("%2: float32[8, 8] = pad(%0, %1, low=(1, 3), high=(4, 2), interior=(1, 0)); return %2"),
    ),
    ("neg neg", (X,), lambda s, x: s(e.neg, s(e.neg, x)), "return %0"),
    ("not not", (FLAG,), lambda s, x: s(e.bit_not, s(e.bit_not, x)), "return %0"),
    ("conj conj", (of((2,), complex64),), lambda s, x: s(e.conj, s(e.conj, x)), "return %0"),
    ("conj of real", (X,), lambda s, x: s(e.conj, x), "return %0"),
    ("times one", (X,), lambda s, x: s(e.mul, x, s.full(1, float32, (2, 3))), "return %0"),
    (
        "one times",
        (X,),
        lambda s, x: s(e.mul, s(m.expand, s.full(1), shape=(2, 3)), x),
        "return %0",
    ),
    (
        "times one, integers",
        (of((), int8),),
        lambda s, x: s(e.mul, x, s.full(1, int8)),
        "return %0",
    ),
    ("by one", (X,), lambda s, x: s(e.div, x, s.full(1, float32, (2, 3))), "return %0"),
    (
        "whole by one",
        (of((), int8),),
        lambda s, x: s(e.floor_divide, x, s.full(1, int8)),
        "return %0",
    ),
    ("minus 0", (X,), lambda s, x: s(e.sub, x, s.full(0.0, float32, (2, 3))), "return %0"),
    ("plus −0", (X,), lambda s, x: s(e.add, x, s.full(-0.0, float32, (2, 3))), "return %0"),
    ("plus 0, integers", (of((), int8),), lambda s, x: s(e.add, s.full(0, int8), x), "return %0"),
    (
        "where true",
        (X, X),
        lambda s, x, y: s(e.where, s.full(True, bool_, (2, 3)), x, y),
        "return %0",
    ),
    (
        "where false",
        (X, X),
        lambda s, x, y: s(e.where, s.full(False, bool_, (2, 3)), x, y),
        "return %1",
    ),
    ("where either", (FLAG, X), lambda s, c, x: s(e.where, c, x, x), "return %1"),
    (
        "dynamic slice",
        (of((5, 4), float32),),
        lambda s, x: s(m.dynamic_slice, x, s.constant([-3, 9], int64), sizes=(2, 3)),
        "%1: float32[2, 3] = slice(%0, starts=(0, 1), stops=(2, 4), steps=(1, 1)); return %1",
    ),
    (
        "dynamic slice of all",
        (X, of((2,), int32)),
        lambda s, x, i: s(m.dynamic_slice, x, i, sizes=(2, 3)),
        "return %0",
    ),
    (
        "full moved",
        (),
        lambda s: s(
            m.flip,
            s(
                m.permute,
                s(m.expand, s(m.reshape, s.full(2.0), shape=(1,)), shape=(9, 8)),
                axes=(1, 0),
            ),
            axes=(0,),
        ),
        "%0: float32[8, 9] = full(value=2.0, shape=(8, 9), dtype=float32); return %0",
    ),
    (
        "full cast",
        (),
        lambda s: s(e.cast, s.full(-1.7, float32, (99,)), dtype=int8),
        "%0: int8[99] = full(value=-1, shape=(99,), dtype=int8); return %0",
    ),
    (
        "full cast saturates",
        (),
        lambda s: s(e.cast, s.full(1e9, float32), dtype=int8),
        "%0: int8[] = full(value=127, shape=(), dtype=int8); return %0",
    ),
    (
        "full padded",
        (),
        lambda s: s(
            m.pad, s.full(2.0, float32, (70,)), s.full(2.0), low=(1,), high=(0,), interior=(1,)
        ),
        "%0: float32[140] = full(value=2.0, shape=(140,), dtype=float32); return %0",
    ),
    (
        "weak expanded",
        (),
        lambda s: s(
            m.expand, s(e.cast, s.constant(0.5, float64, True), dtype=float32), shape=(80,)
        ),
        "%0: float32[80] = full(value=0.5, shape=(80,), dtype=float32); return %0",
    ),
    (
        "uniform constant",
        (),
        lambda s: s.constant([3.0, 3.0]),
        "%0: float32[2] = full(value=3.0, shape=(2,), dtype=float32); return %0",
    ),
    (
        "zeros of both signs",
        (),
        lambda s: s.constant([0.0, -0.0]),
        "%0: float32[2] = constant(array=<float32[2], 8 bytes>, weak=False); return %0",
    ),
    (
        "small constant",
        (),
        lambda s: s(e.add, s(iota, length=3, dtype=int32), s.full(1, int32, (3,))),
        "%0: int32[3] = constant(array=<int32[3], 12 bytes>, weak=False); return %0",
    ),
    (
        "small sum",
        (),
        lambda s: s(r.sum, s(iota, length=4, dtype=float32), axes=(0,), dtype=float32),
        "%0: float32[] = full(value=6.0, shape=(), dtype=float32); return %0",
    ),
    (
        "integers wrap",
        (),
        lambda s: s(e.mul, s.full(100, int8, (99,)), s.full(2, int8, (99,))),
        "%0: int8[99] = full(value=-56, shape=(99,), dtype=int8); return %0",
    ),
    (
        "zero divided",
        (),
        lambda s: s(e.div, s.full(1.0), s.full(-0.0)),
        "%0: float32[] = full(value=-inf, shape=(), dtype=float32); return %0",
    ),
    (
        "weak stays weak",
        (),
        lambda s: s(e.add, s.constant(1.0, float64, True), s.constant(2.0, float64, True)),
        "%0: weak float64[] = constant(array=<float64[], 8 bytes>, weak=True); return %0",
    ),
]


@pytest.mark.parametrize("row", SIMPLER, ids=lambda row: row[0])
def test_becomes(row: tuple[str, tuple[Spec, ...], Make, str]) -> None:
    _, inputs, make, after = row
    assert body(simplify(build(inputs, make))) == after


LOSSLESS = [
    (bool_, int8),
    (bool_, float8_e4m3fn),
    (int8, int16),
    (uint8, int16),
    (uint8, bfloat16),
    (int8, float16),
    (int16, float32),
    (int32, float64),
    (float16, float32),
    (bfloat16, float64),
    (float8_e4m3fn, bfloat16),
    (float32, float64),
    (float32, complex64),
    (float64, complex128),
    (complex64, complex128),
]
LOSSY = [
    (int8, uint8),
    (int8, bool_),
    (uint8, int8),
    (int16, float16),
    (int32, float32),
    (int64, float64),
    (int16, bfloat16),
    (float16, bfloat16),
    (bfloat16, float16),
    (float64, float32),
    (float32, int64),
    (float64, complex64),
    (complex64, float32),
    (complex128, complex64),
]


@pytest.mark.parametrize(("kept", "pair"), [(0, p) for p in LOSSLESS] + [(2, p) for p in LOSSY])
def test_casts_there_and_back(kept: int, pair: tuple[Any, Any]) -> None:
    narrow, wide = pair
    graph = build(
        (of((4,), narrow),), lambda s, x: s(e.cast, s(e.cast, x, dtype=wide), dtype=narrow)
    )
    assert len(simplify(graph).nodes) == kept


def test_lossless_casts_hold_every_number() -> None:
    for narrow, wide in LOSSLESS:
        if narrow.itemsize > 2:
            continue
        count = 2 if narrow is bool_ else 256**narrow.itemsize
        x = np.arange(count).astype(f"uint{8 * narrow.itemsize}").view(narrow.numpy)
        there = e.cast.reference(x, dtype=wide)  # type: ignore[misc]
        back = e.cast.reference(there, dtype=narrow)  # type: ignore[misc]
        random_graphs.assert_same_bits(back, x)


C = of((2,), complex64)
STAYS: list[tuple[str, tuple[Spec, ...], Make]] = [
    (
        "a permuted join that reshapes without a copy",
        (X, X),
        lambda s, x, y: s(
            m.reshape, s(m.permute, s(m.concat, x, y, axis=0), axes=(1, 0)), shape=(3, 4, 1)
        ),
    ),
    ("x + 0 is 0 for −0", (X,), lambda s, x: s(e.add, x, s.full(0.0, float32, (2, 3)))),
    ("x − (−0) is 0 for −0", (X,), lambda s, x: s(e.sub, x, s.full(-0.0, float32, (2, 3)))),
    ("0 − x is no negation", (X,), lambda s, x: s(e.sub, s.full(0.0, float32, (2, 3)), x)),
    ("x · 0 is NaN for NaN", (X,), lambda s, x: s(e.mul, x, s.full(0.0, float32, (2, 3)))),
    ("x − x is NaN for inf", (X,), lambda s, x: s(e.sub, x, x)),
    ("x / x is NaN for 0", (X,), lambda s, x: s(e.div, x, x)),
    ("x = x is false for NaN", (X,), lambda s, x: s(e.equal, x, x)),
    ("1 / x", (X,), lambda s, x: s(e.div, s.full(1.0, float32, (2, 3)), x)),
    ("x // 1 rounds", (X,), lambda s, x: s(e.floor_divide, x, s.full(1.0, float32, (2, 3)))),
    ("complex times one", (C,), lambda s, x: s(e.mul, x, s.full(1, complex64, (2,)))),
    ("complex by one", (C,), lambda s, x: s(e.div, x, s.full(1, complex64, (2,)))),
    ("barriers are two", (X,), lambda s, x: s(e.add, s(barrier, x), s(barrier, x))),
    ("barrier of a constant", (), lambda s: s(barrier, s.full(1.0))),
    ("weak to strong", (WEAK,), lambda s, x: s(e.cast, x, dtype=float64)),
    ("weak one", (WEAK,), lambda s, x: s(m.reshape, x, shape=(1,))),
    (
        "backward slice",
        (X,),
        lambda s, x: s(m.slice_, x, starts=(1, 2), stops=(-1, -1), steps=(-1, -1)),
    ),
    (
        "narrowed and widened",
        (of((2,), int16),),
        lambda s, x: s(e.cast, s(e.cast, x, dtype=int8), dtype=int16),
    ),
    ("operands in another order", (X, X), lambda s, x, y: s(e.add, s(e.sub, x, y), s(e.sub, y, x))),
    (
        "eps 0.0 and −0.0",
        (X,),
        lambda s, x: s(
            e.add, s(rms_norm, x, axes=(1,), eps=0.0), s(rms_norm, x, axes=(1,), eps=-0.0)
        ),
    ),
    (
        "other elements in each part",
        (),
        lambda s: s(m.concat, s.full(1, float32, (1,)), s.full(2.0, float32, (70,)), axis=0),
    ),
]


@pytest.mark.parametrize("row", STAYS, ids=lambda row: row[0])
def test_stays(row: tuple[str, tuple[Spec, ...], Make]) -> None:
    _, inputs, make = row
    graph = build(inputs, make)
    assert simplify(graph) is graph


def test_inputs_stay_and_outputs_may_repeat() -> None:
    sketch = Sketch()
    x, unused = sketch.input(X), sketch.input(WEAK, host=True)
    graph = sketch.build([sketch(e.neg, sketch(e.neg, x)), sketch(e.sin, x), sketch(e.sin, x), x])
    after = simplify(graph)
    assert after.inputs == (x, unused)
    assert after.host == {unused}
    assert after.outputs == (0, 2, 2, 0)
    assert after.output_specs == graph.output_specs


def _turned(s: Sketch, x: int) -> int:
    return s(e.neg, s(e.neg, s(e.sin, s(e.cast, x, dtype=float32))))


def test_bodies_of_control_flow() -> None:
    scalar, flag = of((), float32), of((), bool_)
    turned = build((scalar,), _turned)
    same = build((scalar,), lambda s, x: s(e.cast, x, dtype=float32))
    less = build((scalar,), lambda s, x: s(e.less, x, s(e.cast, s.full(3, int8), dtype=float32)))
    sketch = Sketch()
    p, x, xs = sketch.input(flag), sketch.input(scalar), sketch.input(of((4,), float32))
    a = sketch(cond, p, x, then=turned, otherwise=same)
    b = sketch(while_loop, a, condition=less, body=same, captures=(0, 0))
    attributes = {"captures": 0, "carries": 1, "length": 4, "reverse": False, "keep": False}
    two = Sketch()
    carry, row = two.input(scalar), two.input(scalar)
    step = two.build([two(e.add, carry, two(e.mul, row, two.full(1.0))), carry])
    c = sketch.add(scan, [b, xs], {"body": step, **attributes})
    graph = sketch.build([*c])
    after = simplify(graph)
    counts = [
        len(value.nodes)
        for node in after.nodes
        for value in node.attributes.values()
        if isinstance(value, Graph)
    ]
    assert counts == [1, 0, 2, 0, 1]
    verify(after)
    # From 4 on, the loop ends at once; its body changes nothing.
    given = [np.array(False), np.float32(4.0), np.arange(4, dtype=np.float32)]
    for expected, found in zip(interpret(graph, given), interpret(after, given), strict=True):
        random_graphs.assert_same_bits(found, expected)


@pytest.mark.parametrize("seed", range(150))
def test_random_graphs_keep_every_bit(seed: int) -> None:
    graph, inputs = random_graphs.graph_and_inputs(seed, nodes=40)
    after = simplify(graph)
    verify(after)
    assert after.input_specs == graph.input_specs
    assert after.output_specs == graph.output_specs
    assert len(after.nodes) <= len(graph.nodes)
    with np.errstate(all="ignore"):
        expected, found = interpret(graph, inputs), interpret(after, inputs)
    for x, y in zip(expected, found, strict=True):
        random_graphs.assert_same_bits(y, x)


@pytest.mark.parametrize("seed", range(30))
def test_a_second_time_changes_nothing(seed: int) -> None:
    once = simplify(random_graphs.graph_and_inputs(seed, nodes=60)[0])
    assert simplify(once) is once


def test_random_graphs_become_smaller() -> None:
    before = after = 0
    for seed in range(20):
        graph, _ = random_graphs.graph_and_inputs(seed, nodes=60)
        before, after = before + len(graph.nodes), after + len(simplify(graph).nodes)
    assert after < 0.7 * before


def test_cost_is_linear() -> None:
    def chain(count: int) -> Graph:
        sketch = Sketch()
        x = sketch.input(X)
        for i in range(count // 4):
            one = sketch(m.expand, sketch.full(i % 3), shape=(2, 3))
            x = sketch(e.sin, sketch(e.mul, x, one))
        return sketch.build([x])

    def seconds(graph: Graph) -> float:
        start = time.process_time()
        simplify(graph)
        return time.process_time() - start

    best = {count: min(seconds(chain(count)) for _ in range(5)) for count in (500, 4000)}
    assert best[4000] < 24 * best[500]


def _negated_twice(x: Any) -> Any:
    y = -x
    return -y


def test_jitted_results_that_are_inputs_or_constants() -> None:
    @calor.jit
    def f(x: Any) -> Any:
        zeros = calor.where(calor.full((3,), True), calor.zeros(3), x)
        return _negated_twice(x), x * 1, zeros, _negated_twice(x)

    x = calor.asarray(np.array([1.0, -0.0, np.inf], np.float32))
    first, second, zeros, again = f(x)
    first += 1
    np.testing.assert_array_equal(x.numpy(), np.array([1.0, -0.0, np.inf], np.float32))
    for y in (second, again):
        random_graphs.assert_same_bits(y.numpy(), x.numpy())
    assert zeros.numpy().tolist() == [0.0, 0.0, 0.0]


def test_gradients_through_a_simplified_program() -> None:
    chosen = calor.jit(lambda x: calor.where(calor.full((3,), True), calor.zeros(3), x).sum())
    same = calor.jit(lambda x: (_negated_twice(x) * 1).sum())
    x = calor.asarray(np.array([1.0, 2.0, 3.0], np.float32))
    assert calor.grad(chosen)(x).numpy().tolist() == [0.0, 0.0, 0.0]
    assert calor.grad(same)(x).numpy().tolist() == [1.0, 1.0, 1.0]
