"""Launches of kernels that declare their parameters: by name, and refused where they do not fit."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import Annotated, Any, Generic, TypeVar

import numpy as np
import pytest

from calor.dtypes import bfloat16, float32, int32, int64, uint64
from calor.sizes import Size as Unknown
from calor.sizes import Trace
from calor_interpreter.launch import run_on_lanes
from calor_kernel.contract.launching import Bound, Effort, Grid, Multiple, Typed, launch, operand
from calor_kernel.contract.work import Input, Launch, Output, Scratch, View
from calor_kernel.device.images import build_text
from calor_kernel.errors import KernelTypeError, LaunchError
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import (
    DivisorOf,
    Element,
    FastDivmod,
    In,
    InOut,
    Number,
    Out,
    Pointer,
    Size,
    SizeOf,
    Stride,
    StrideOf,
    absolute_position,
    kernel,
    loop_range,
)
from calor_kernel.language.declared import Access
from calor_kernel.planning.symbolic import hinted_value, sizes_in

N = TypeVar("N")
D = TypeVar("D")
Words = Annotated[Pointer, Access("InOut", True, True, uint64)]
SIZE, STRIDE = Scalar(int64, nonnegative=True), Scalar(int64)


@dataclass(frozen=True, slots=True)
class Axis(Generic[N]):
    """An axis: its size, and the strides of operands along it."""

    size: SizeOf[N]
    strides: tuple[StrideOf[N], ...]


@kernel
def scale(x: In, y: Out, n: Size, step: Stride, *, factor: float = 1.0) -> None:
    """Multiply by a factor."""
    i = absolute_position()
    if i < n:
        y[i] = x[i * step] * factor


@kernel
def weigh(
    y: Out,
    operands: tuple[In, ...],
    axes: tuple[Axis[Number], ...],
    bias: In | None,
    rows: FastDivmod,
    weight: Element,
    *,
    least: int,
) -> None:
    """Sum operands of two axes, times a weight, with a bias for each row where there is one."""
    outer, inner = axes
    for i in loop_range(absolute_position(), outer.size * inner.size):
        row, column = rows.divmod(i)
        total = weight * 0.0
        for number, operand_ in enumerate(operands):
            at = row * outer.strides[number] + column * inner.strides[number]
            total = total + operand_[at] * weight
        if bias is not None:
            total = total + bias[row]
        y[i] = total + float(least)


@dataclass(frozen=True, slots=True)
class Rows(Generic[N, D]):
    """Rows of ``length`` elements, ``step`` apart."""

    length: DivisorOf[D]
    step: StrideOf[N]


@kernel
def spread(x: In, y: Out, n: Size, rows: Rows[Number, FastDivmod]) -> None:
    """Copy rows to strided rows."""
    i = absolute_position()
    if i < n:
        row, column = rows.length.divmod(i)
        y[row * rows.step + column] = x[i]


@kernel
def count(words: Words, changed: InOut) -> None:
    """Count in words of a type."""
    words[0] = words[0] + 1
    changed[0] = changed[0] + 1.0


@kernel
def undeclared(x: Any, n: Any) -> None:
    """Declare nothing."""


@kernel
def half_declared(x: In, n: Any) -> None:
    """Declare one of two parameters."""


X, Y = Bound(Input(0, 3), float32), Bound(Output(), float32)
GIVEN: dict[str, object] = {"x": X, "y": Y, "n": 10, "step": -2, "factor": 2.0}
LINE = Grid.line(1)
AXES = (Axis(2, (3, 1)), Axis(3, (1, 2)))


def weighed(**changed: object) -> Launch:
    given = {"y": Y, "operands": (X, Bound(Input(1), float32)), "axes": AXES, "bias": None}
    given |= {"rows": 3, "weight": Typed(0.5, float32), "least": 4}
    return launch(weigh, LINE, Effort(), **{**given, **changed})


def test_signature_and_arguments_follow_from_the_declaration():
    made = launch(scale, Grid((2, 3, 1), (64, 1, 1), 32), Effort("scaled", 5, 7), **GIVEN)
    build = made.build
    assert build.signature == (Buffer(float32, writable=False), Buffer(float32), SIZE, STRIDE)
    assert made.arguments == (Input(0, 3), Output(), 10, -2)
    assert build.keywords == (("factor", 2.0),)
    assert (build.cube, build.plane, build.index, made.cubes) == ((64, 1, 1), 32, int64, (2, 3, 1))
    assert (made.label, made.flops, made.nbytes) == ("scaled", 5, 7)


def test_the_order_of_arguments_says_nothing():
    turned = dict(reversed(GIVEN.items()))
    assert launch(scale, LINE, Effort(), **turned) == launch(scale, LINE, Effort(), **GIVEN)


def test_a_build_time_parameter_with_a_default_may_be_left_out():
    del (given := dict(GIVEN))["factor"]
    assert launch(scale, LINE, Effort(), **given).build.keywords == ()


def test_what_is_known_of_numbers_and_memory_is_declared():
    given = GIVEN | {"n": Multiple(16, 8), "x": X.aligned(16), "y": Bound(Scratch(1), bfloat16)}
    made = launch(scale, Grid((1, 1, 1), index=int32), Effort(), **given)
    x, y, n, step = made.build.signature
    assert x == Buffer(float32, writable=False, align=16)
    assert y == Buffer(bfloat16)
    assert n == Scalar(int32, divisible=8, nonnegative=True)
    assert step == Scalar(int32)
    assert made.arguments == (Input(0, 3), Scratch(1), 16, -2)


def test_an_operand_begins_where_its_view_does():
    assert operand(2, View((3,), (1,), float32, 5)) == Bound(Input(2, 5), float32)


def test_groups_tuples_and_what_is_left_out():
    made = weighed()
    read, wide = Buffer(float32, writable=False), Scalar(uint64, nonnegative=True)
    axes = (SIZE, STRIDE, STRIDE) * 2
    divisor = (SIZE, wide, wide, Scalar(float32))
    assert made.build.signature == (Buffer(float32), read, read, *axes, *divisor)
    assert made.arguments[3:9] == (2, 3, 1, 3, 1, 2)
    assert made.arguments[9:12] == FastDivmod.arguments(3)
    assert made.build.counts == (2, 2, 2, 2, 0)
    names = [p.name for p in made.build.kernel().parameters]
    assert names[:4] == ["y", "operands_0", "operands_1", "axes_0_size"]
    assert names[-2:] == ["rows_shift", "weight"]
    with_bias = weighed(bias=Bound(Input(2), float32))
    assert [p.name for p in with_bias.build.kernel().parameters][9] == "bias"


def test_a_group_has_divisors_that_a_launch_gives_as_integers():
    x, y = Bound(Input(0), float32), Bound(Output(), float32)
    made = launch(spread, Grid.line(1, 8), Effort("spread"), x=x, y=y, n=6, rows=Rows(3, 4))
    assert made.arguments[2:] == (6, *FastDivmod.arguments(3), 4)
    data, result = np.arange(6, dtype=np.float32), np.zeros(8, np.float32)
    run_on_lanes(made.build.kernel(), made.cubes, [data, result, *made.arguments[2:]])
    np.testing.assert_array_equal(result, [0, 1, 2, 0, 3, 4, 5, 0])


@pytest.mark.parametrize("biased", [False, True])
def test_a_launch_computes_what_its_kernel_says(biased):
    made = weighed(bias=Bound(Input(2), float32) if biased else None)
    a, b = np.arange(6, dtype=np.float32), np.arange(10, 16, dtype=np.float32)
    bias, y = np.array([100, 200], np.float32), np.zeros(6, np.float32)
    memory = {Output(): y, Input(0, 3): a, Input(1): b, Input(2): bias}
    given = [(memory[p], 0) if isinstance(p, Input | Output) else p for p in made.arguments]
    run_on_lanes(made.build.kernel(), (1, 1, 1), given)
    wanted = (a.reshape(2, 3) + b.reshape(3, 2).T) * 0.5 + 4
    assert (y.reshape(2, 3) == wanted + bias[:, None] * biased).all()


def test_memory_that_is_changed():
    words, changed = Bound(Scratch(0), uint64), Bound(Output(), float32)
    made = launch(count, LINE, Effort(), words=words, changed=changed)
    assert made.build.signature == (Buffer(uint64), Buffer(float32))


def test_builds_with_other_counts_are_other_builds():
    one, other = weighed(), weighed(bias=Bound(Input(2), float32))
    assert build_text(one.build) != build_text(other.build)
    assert pickle.loads(pickle.dumps(one.build)) == one.build


def test_nothing_is_asked_of_a_size_that_is_not_known():
    trace = Trace([12])
    size = trace.symbols[0]
    assert isinstance(size, Unknown)
    made = launch(scale, LINE, Effort(), **GIVEN | {"n": Multiple(size * 4, 4), "step": size - 20})
    assert not trace.guards
    assert sizes_in(made.arguments) == (size * 4, size - 20)
    assert hinted_value(made).arguments == (Input(0, 3), Output(), 48, -8)
    axes = (Axis(size, (3, 1)), Axis(3, (1, 2)))
    assert sizes_in(weighed(axes=axes)) == (size,)


@pytest.mark.parametrize(
    ("changed", "parameter", "message"),
    [
        ({"m": 3}, "m", "there is none of this name; there are x, y, n, step, factor"),
        ({"n": None}, "n", "it is a number \\(Size\\), and None is none"),
        ({"n": X}, "n", "it is a number \\(Size\\), and Bound\\(place=Input"),
        ({"n": -1}, "n", "it is at least 0 \\(Size\\), not -1"),
        ({"n": True}, "n", "it is a number"),
        ({"n": 2.5}, "n", "it is a number"),
        ({"n": Multiple(10, 4)}, "n", "10 is no multiple of 4"),
        ({"x": 3}, "x", "it is memory \\(In\\), and 3 is none; give Bound"),
        ({"x": Input(0)}, "x", "it is memory"),
        ({"x": Y, "y": X}, "y", "it is written \\(Out\\), and Input\\(number=0, offset=3\\) is an"),
    ],
)
def test_an_argument_that_does_not_fit(changed, parameter, message):
    with pytest.raises(LaunchError, match=f"kernel scale, parameter {parameter}: .*{message}") as e:
        launch(scale, LINE, Effort(), **{**GIVEN, **changed})
    assert (e.value.kernel, e.value.parameter) == ("scale", parameter)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"operands": X}, "parameter operands: operands is a tuple, not Bound"),
        ({"operands": (X, 3)}, r"parameter operands\[1\]: it is memory"),
        ({"axes": ((2, 3), (4, 5))}, r"parameter axes: axes\[0\] is a Axis, not \(2, 3\)"),
        (
            {"axes": (replace(AXES[0], size=-1), AXES[1])},
            r"parameter axes\[0\].size: it is at least 0",
        ),
        (
            {"weight": 0.5},
            r"parameter weight: it is an Element; give Typed\(number, dtype\), not 0.5",
        ),
        ({"rows": 0.5}, "parameter rows: it is a number"),
    ],
)
def test_a_part_that_does_not_fit(changed, message):
    with pytest.raises(LaunchError, match=message):
        weighed(**changed)


@pytest.mark.parametrize("name", ["x", "n"])
def test_a_missing_argument(name):
    given = {key: value for key, value in GIVEN.items() if key != name}
    message = f"kernel scale, parameter {name}: it has no argument; the kernel takes x, y, n, step"
    with pytest.raises(LaunchError, match=message):
        launch(scale, LINE, Effort(), **given)


def test_a_missing_build_time_argument():
    given = {"y": Y, "operands": (), "axes": (), "bias": None, "rows": 1}
    with pytest.raises(LaunchError, match="parameter least: it has no argument"):
        launch(weigh, LINE, Effort(), **given, weight=Typed(1.0, float32))


def test_elements_of_another_type():
    with pytest.raises(LaunchError, match="parameter words: its elements are uint64, not float32"):
        launch(count, LINE, Effort(), words=Y, changed=Y)


def test_a_kernel_that_declares_nothing():
    with pytest.raises(KernelTypeError, match="undeclared does not declare its parameters"):
        launch(undeclared, LINE, Effort(), x=X, n=3)


def test_a_kernel_that_declares_some_parameters():
    with pytest.raises(KernelTypeError, match="half_declared declares x and not n; annotate each"):
        launch(half_declared, LINE, Effort(), x=X, n=3)


def test_a_build_with_another_number_of_parameters():
    with pytest.raises(KernelTypeError, match="has 4 run-time parameters .x, y, n, step."):
        scale.build([Buffer(float32)] * 3, factor=1.0)
