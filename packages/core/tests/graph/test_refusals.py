"""What a rule refuses raises an error that names the op, and in debug mode the user's line."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

import calor
from calor.config import config
from calor.dtypes import float8_e5m2, float32
from calor.errors import ArgumentError, CalorError, DTypeError, ShapeError
from calor.ops.base import TABLE, Op, find, signature
from calor.specs import spec

X = calor.ones((2, 3))
FLAGS = X > 0
CONV = {"stride": (1,), "padding": ((0, 0),), "dilation": (0,), "groups": 1}

REFUSED: dict[str, tuple[Callable[[], Any], type[CalorError], str]] = {
    "mul": (
        lambda: X * calor.ones(2),
        ShapeError,
        r"^mul: shapes \(2, 3\) and \(2,\) cannot be broadcast",
    ),
    "add": (lambda: X + X.astype(float8_e5m2), DTypeError, r"^add: .*float8_e5m2.*"),
    "neg": (lambda: -FLAGS, DTypeError, r"^needs numeric operands, .*; in op 'neg'$"),
    "bit_and": (lambda: X & X, DTypeError, r"integer or bool operands.*; in op 'bit_and'$"),
    "reshape": (lambda: find("reshape")(X, shape=(4,)), ShapeError, r"^reshape: .*has 4$"),
    "sum": (lambda: find("sum")(X, axes=(5,), dtype=float32), ShapeError, r"; in op 'sum'$"),
    "conv": (lambda: find("conv")(X[None], X[None], **CONV), ArgumentError, r"^conv: .*least 1$"),
    "conv_input_gradient": (
        lambda: find("conv_input_gradient")(X[None], X[None], input_shape=(1, 2, 3), **CONV),
        ArgumentError,
        r"^conv: .*; in op 'conv_input_gradient'$",
    ),
}


@pytest.mark.parametrize("op", REFUSED)
def test_the_error_names_its_op(op: str) -> None:
    call, kind, message = REFUSED[op]
    for run in (call, calor.jit(call)):
        with pytest.raises(kind, match=message) as caught:
            run()
        assert caught.value.op == op
        assert caught.value.line is None


# Ops of other distributions, which an import may bring, have attributes of their own.
ELEMENTWISE = [row for row in TABLE.values() if row.promotion != "none" and "." not in row.name]


@pytest.mark.parametrize("row", ELEMENTWISE, ids=lambda row: row.name)
def test_every_elementwise_op_is_named(row: Op) -> None:
    caught = None
    for count in (1, 2, 3):
        try:
            signature(row, (spec((2,), float8_e5m2),) * count, {})
        except DTypeError as error:
            caught = error
        except TypeError:
            # Rules are plain functions: this one takes another number of operands.
            continue
    assert caught is not None
    assert caught.op == row.name
    assert row.name in str(caught)


def one_window(**changes: Any) -> dict[str, Any]:
    return {"stride": (1,), "padding": ((0, 0),), "dilation": (1,), **changes}


@pytest.mark.parametrize(
    ("window", "changes", "says"),
    [
        (5, {}, "reaches over 5 elements, and axis 2 of .* has 4; pad it by 1 more"),
        (3, {"dilation": (3,)}, r"window of 3 with dilation 3 reaches over 7 .*; pad it by 3 more"),
        (7, {"padding": ((1, 1),)}, r"with padding \(1, 1\) has 6; pad it by 1 more"),
        (2, {"padding": ((-3, 0),)}, r"with padding \(-3, 0\) has 1; pad it by 1 more"),
    ],
)
def test_a_window_larger_than_its_input_is_refused(
    window: int, changes: dict[str, Any], says: str
) -> None:
    x, w = calor.ones((1, 2, 4)), calor.ones((3, 2, window))
    attributes = one_window(**changes)
    with pytest.raises(ShapeError, match=f"^conv: .*{says}$"):
        find("conv")(x, w, groups=1, **attributes)
    with pytest.raises(ShapeError, match=f"^window_reduce: .*{says}$"):
        find("window_reduce")(x, kind="max", window=(window,), **attributes)


def test_a_window_may_fill_its_input_and_an_empty_axis_has_none() -> None:
    attributes = one_window(dilation=(2,), padding=((1, 0),))
    x, w = calor.ones((1, 2, 4)), calor.ones((3, 2, 3))
    assert find("conv")(x, w, groups=1, **attributes).shape == (1, 3, 1)
    assert find("window_reduce")(x, kind="sum", window=(3,), **attributes).tolist() == [
        [[2.0], [2.0]]
    ]
    empty = calor.ones((1, 2, 0), requires_grad=True)
    made = find("conv")(empty, w, groups=1, **attributes)
    assert made.shape == (1, 3, 0)
    made.sum().backward()
    assert empty.grad is not None
    assert empty.grad.shape == (1, 2, 0)
    reduced = find("window_reduce")(empty, kind="sum", window=(3,), **attributes)
    assert reduced.shape == (1, 2, 0)


def test_the_innermost_op_is_named() -> None:
    def body(carry: Any, x: Any) -> Any:
        return carry & x, carry

    with pytest.raises(DTypeError, match="in op 'bit_and'$"):
        calor.scan(body, calor.ones(3), X)


def test_a_refusal_that_is_no_op_s_names_none() -> None:
    with pytest.raises(ArgumentError, match="the step is 0, so the range never ends$") as caught:
        calor.arange(0, 1, 0)
    assert caught.value.op is None


def test_debug_names_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "debug", True)
    for call in (lambda: X * calor.ones(2), lambda: -FLAGS):
        line = call.__code__.co_firstlineno
        with pytest.raises(
            CalorError, match=rf"; recorded at .*test_refusals\.py:{line}$"
        ) as error:
            call()
        assert error.value.line == f"{__file__}:{line}"


@pytest.mark.parametrize("kind", [ShapeError, DTypeError, ArgumentError])
def test_errors_are_pickled(kind: Any) -> None:
    again = pickle.loads(pickle.dumps(kind("text", op="add", line="a.py:3")))
    assert str(again) == "text; in op 'add'; recorded at a.py:3"
    assert (again.op, again.line) == ("add", "a.py:3")
    assert str(kind("add: text", op="add")) == "add: text"
    assert str(kind("adding", op="add")) == "adding; in op 'add'"
