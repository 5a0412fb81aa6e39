"""jit: what makes a new trace and what does not, and what a call gives."""

from __future__ import annotations

import functools
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest

import calor
from calor.config import config
from calor.errors import TraceError
from calor.transforms.state import Stateful


def tensor(*values: float) -> Any:
    return calor.asarray(values, dtype=calor.float64)


class Point(NamedTuple):
    x: Any
    y: Any


def test_one_trace_serves_all_calls_of_a_structure() -> None:
    runs = []

    @calor.jit
    def double(x: Any) -> Any:
        runs.append(x.shape)
        return x * 2

    assert double(tensor(1, 2)).tolist() == [2.0, 4.0]
    assert double(tensor(3, 4)).tolist() == [6.0, 8.0]
    assert (len(runs), double.trace_count) == (1, 1)


def test_shapes_and_dtypes_are_structure() -> None:
    double = calor.jit(lambda x: x * 2)
    double(tensor(1, 2))
    double(tensor(1, 2, 3))
    double(calor.asarray([1.0, 2.0], dtype=calor.float32))
    assert double(calor.asarray([1, 2])).tolist() == [2, 4]
    assert double.trace_count == 4
    double(tensor(5, 6))
    assert double.trace_count == 4
    text = double.explain()
    assert "4 traces" in text
    assert "first call" in text
    assert "float64[2]" in text
    assert "float64[3]" in text


def test_python_numbers_are_dynamic() -> None:
    scale = calor.jit(lambda x, a, b: x * a + b)
    for a in range(10):
        assert scale(tensor(1, 2), float(a), 0.5).tolist() == [a + 0.5, 2 * a + 0.5]
    assert scale.trace_count == 1
    assert scale(tensor(1, 2), 3, 0.5).tolist() == [3.5, 6.5]
    assert scale.trace_count == 2
    assert scale(tensor(1, 2), 7, 0.5).tolist() == [7.5, 14.5]
    assert scale(tensor(1, 2), 1j, 0.5).tolist() == [0.5 + 1j, 0.5 + 2j]
    assert scale.trace_count == 3


def test_dynamic_numbers_stay_weak() -> None:
    half = calor.asarray([1.0], dtype=calor.float16)
    assert calor.jit(lambda x, a: x * a)(half, 2.0).dtype is calor.float16
    whole = calor.asarray([1], dtype=calor.int8)
    assert calor.jit(lambda x, a: x + a)(whole, 2).dtype is calor.int8
    assert calor.jit(lambda x, a: x + a)(whole, 2.5).dtype is calor.float32


def test_bools_strings_and_none_are_static() -> None:
    def choose(x: Any, double: bool, mode: str, nothing: None) -> Any:
        assert nothing is None
        y = x * 2 if double else x
        return y + 1 if mode == "plus" else y

    jitted = calor.jit(choose)
    assert jitted(tensor(1), True, "plus", None).tolist() == [3.0]
    assert jitted(tensor(1), False, "plus", None).tolist() == [2.0]
    assert jitted(tensor(1), False, "minus", None).tolist() == [1.0]
    assert jitted(tensor(1), True, "plus", None).tolist() == [3.0]
    assert jitted.trace_count == 3


def test_static_arguments_are_known_inside() -> None:
    @functools.partial(calor.jit, static_argnames="axis", static_argnums=1)
    def reduced(x: Any, times: int, *, axis: int) -> Any:
        for _ in range(times):
            x = x * 2
        return x.sum(axis=axis)

    x = calor.ones((2, 3))
    assert reduced(x, 2, axis=0).tolist() == [8.0, 8.0, 8.0]
    assert reduced(x, 1, axis=1).tolist() == [6.0, 6.0]
    assert reduced(x, 2, axis=0).tolist() == [8.0, 8.0, 8.0]
    assert reduced.trace_count == 2


def test_static_arguments_may_be_given_by_either_way() -> None:
    f = calor.jit(lambda x, n: x.sum(axis=n), static_argnames="n")
    assert f(calor.ones((2, 3)), 0).tolist() == [2.0, 2.0, 2.0]
    assert f(calor.ones((2, 3)), n=1).tolist() == [3.0, 3.0]


def test_a_tensor_cannot_be_static() -> None:
    with pytest.raises(TraceError, match="tensor cannot be a static argument"):
        calor.jit(lambda x: x, static_argnums=0)(tensor(1))


def test_pytrees_go_in_and_come_out() -> None:
    def swap(tree: Any, *, more: Any) -> Any:
        return {"p": Point(tree["b"][1], more.x), "l": [tree["b"][0], None, "text", 3]}

    jitted = calor.jit(swap)
    for _ in range(2):
        made = jitted(
            {"a": 1.5, "b": (tensor(1), tensor(2))}, more=Point(tensor(3), OrderedDict(z=tensor(4)))
        )
        assert type(made["p"]) is Point
        assert [made["p"].x.item(), made["p"].y.item(), made["l"][0].item()] == [2.0, 3.0, 1.0]
        assert made["l"][1:] == [None, "text", 3]
    assert jitted.trace_count == 1
    jitted({"a": 1.5, "b": (tensor(1), tensor(2), tensor(3))}, more=Point(tensor(3), None))
    assert jitted.trace_count == 2


def test_arrays_of_numpy_are_tensors() -> None:
    f = calor.jit(lambda x: x + 1)
    assert f(np.array([1.0, 2.0])).tolist() == [2.0, 3.0]
    assert f(np.array([5.0, 6.0])).tolist() == [6.0, 7.0]
    assert f.trace_count == 1
    f(np.array([5.0], np.float32))
    assert f.trace_count == 2


def test_scalars_of_numpy_are_numbers() -> None:
    f = calor.jit(lambda x, a: x * a)
    assert f(tensor(2), np.float64(3)).tolist() == [6.0]
    assert f(tensor(2), np.float64(4)).tolist() == [8.0]
    assert f(calor.asarray([2.0], dtype=calor.float16), np.float32(4)).tolist() == [8.0]


def test_default_and_variable_arguments() -> None:
    @calor.jit
    def total(x: Any, *rest: Any, scale: float = 2.0, **named: Any) -> Any:
        for r in [*rest, *named.values()]:
            x = x + r
        return x * scale

    assert total(tensor(1)).tolist() == [2.0]
    assert total(tensor(1), tensor(2), a=tensor(3)).tolist() == [12.0]
    assert total(tensor(1), tensor(2), a=tensor(3), scale=1.0).tolist() == [6.0]


def test_outputs_may_be_arguments_repeated_or_constant() -> None:
    def several(x: Any) -> Any:
        y = x + 1
        return x, y, y, calor.ones(2), 7, y.shape

    x = tensor(1, 2)
    for _ in range(2):
        a, b, c, d, e, f = calor.jit(several)(x)
        assert (a.tolist(), b.tolist(), c.tolist()) == ([1.0, 2.0], [2.0, 3.0], [2.0, 3.0])
        assert (d.tolist(), e, f) == ([1.0, 1.0], 7, (2,))
        b += 10
        assert c.tolist() == [2.0, 3.0]
        a += 10
        assert x.tolist() == [1.0, 2.0]


def test_outputs_are_fresh() -> None:
    f = calor.jit(lambda x: x * 2)
    first = f(tensor(1))
    second = f(tensor(5))
    assert (first.item(), second.item()) == (2.0, 10.0)


def test_a_function_without_tensors() -> None:
    assert calor.jit(lambda: calor.arange(3) * 2)().tolist() == [0, 2, 4]
    assert calor.jit(lambda n: n)(3).item() == 3


def test_empty_results() -> None:
    assert calor.jit(lambda x: None)(tensor(1)) is None
    assert calor.jit(lambda x: ())(tensor(1)) == ()


def test_pending_arguments_are_computed() -> None:
    x = tensor(1, 2) * 3
    f = calor.jit(lambda t: t + 1)
    assert f(x).tolist() == [4.0, 7.0]
    assert f(x * 2).tolist() == [7.0, 13.0]


def test_nested_jit_is_one_trace() -> None:
    inner = calor.jit(lambda x: x * 2)
    outer = calor.jit(lambda x: inner(x) + inner(x + 1))
    assert outer(tensor(1)).tolist() == [6.0]
    assert inner.trace_count == 0
    assert outer.trace_count == 1


def test_methods_are_jitted_for_each_instance() -> None:
    class Scale:
        def __init__(self, factor: float) -> None:
            self.factor = tensor(factor)

        @calor.jit
        def apply(self, x: Any) -> Any:
            return x * self.factor

    two, three = Scale(2), Scale(3)
    assert two.apply(tensor(5)).tolist() == [10.0]
    assert three.apply(tensor(5)).tolist() == [15.0]
    assert two.apply(tensor(6)).tolist() == [12.0]
    assert (two.apply.trace_count, three.apply.trace_count) == (1, 1)
    assert Scale.apply.__name__ == "apply"


def test_bind_fixes_the_first_arguments() -> None:
    f = calor.jit(lambda w, x, a: w * x + a)
    bound = f.bind(tensor(2, 3))
    assert bound(tensor(1, 1), 0.5).tolist() == [2.5, 3.5]
    assert bound(tensor(2, 2), 1.5).tolist() == [5.5, 7.5]
    assert f.trace_count == 1


def test_the_name_and_repr_say_what_it_is() -> None:
    @calor.jit
    def named(x: Any) -> Any:
        """Words."""
        return x

    assert (named.__name__, named.__doc__) == ("named", "Words.")
    assert repr(named) == "<jitted named, 0 traces>"
    named(tensor(1))
    assert repr(named) == "<jitted named, 1 trace>"


def test_jit_can_be_switched_off() -> None:
    seen = []

    @calor.jit
    def f(x: Any) -> Any:
        seen.append(x.tolist())
        return x * 2

    before, config.jit = config.jit, False
    try:
        assert f(tensor(1)).tolist() == [2.0]
    finally:
        config.jit = before
    assert seen == [[1.0]]
    assert f.trace_count == 0


def test_many_structures_do_not_pile_up() -> None:
    f = calor.jit(lambda x: x + 1, dynamic=False)
    for n in range(80):
        f(calor.zeros(n))
    assert f.trace_count == 80
    assert len(f.programs) == 64
    f(calor.zeros(79))
    assert f.trace_count == 80


def test_no_grad_is_structure() -> None:
    w = calor.asarray([2.0], requires_grad=True)
    f = calor.jit(lambda x: x * w)
    assert f(calor.ones(1)).requires_grad
    with calor.no_grad():
        assert not f(calor.ones(1)).requires_grad
    assert f(calor.ones(1)).requires_grad
    assert f.trace_count == 2
    assert "gradients were switched on or off" in f.explain()


class TestLooks:
    """What needs a number while it is traced is an error that names the line."""

    @pytest.mark.parametrize(
        "look",
        [
            lambda x: bool(x),
            lambda x: float(x),
            lambda x: int(x),
            lambda x: x.item(),
            lambda x: x.numpy(),
            lambda x: x.tolist(),
            lambda x: np.asarray(x),
            lambda x: calor.eval(x * 2),
            lambda x: list(range(x)),
            lambda x: 1 if x > 0 else 2,
            lambda x: calor.nonzero(calor.reshape(x, (1,))),
            lambda x: x[x > 0],
        ],
    )
    def test_a_traced_value_has_no_number(self, look: Any) -> None:
        with pytest.raises(TraceError, match=r"test_jit_calls.py:\d+.*calor.cond"):
            calor.jit(look)(calor.asarray(3))

    def test_a_captured_tensor_has_none_either(self) -> None:
        w = tensor(2)
        with pytest.raises(TraceError, match="asks for the value"):
            calor.jit(lambda x: x * w.item())(tensor(1))

    def test_constants_have_one(self) -> None:
        def f(x: Any) -> Any:
            table = calor.asarray(np.arange(3.0))
            return x * table.tolist()[2]

        assert calor.jit(f)(tensor(1)).tolist() == [2.0]

    def test_printing_shows_what_is_known(self, capsys: Any) -> None:
        calor.jit(lambda x: (print(x), x)[1])(calor.zeros((2, 3)))
        out = capsys.readouterr().out
        assert "(2, 3)" in out or "float32[2, 3]" in out

    def test_after_an_error_everything_works(self) -> None:
        w = tensor(2)

        def bad(x: Any) -> Any:
            y = x * w
            return y if y.sum() > 0 else x

        jitted = calor.jit(bad)
        with pytest.raises(TraceError):
            jitted(tensor(1))
        assert w.tolist() == [2.0]
        assert (w * 2).tolist() == [4.0]
        assert calor.jit(lambda x: x * w)(tensor(3)).tolist() == [6.0]

    def test_a_kept_value_is_explained(self) -> None:
        kept = []
        calor.jit(lambda x: kept.append(x * 2))(tensor(1))
        with pytest.raises(TraceError, match="was kept.*return it from the function"):
            kept[0].numpy()
        with pytest.raises(TraceError, match="was kept"):
            kept[0] + 1


@pytest.mark.parametrize("bound", [False, True])
def test_what_a_write_to_a_view_does_is_that_of_the_call(bound: bool) -> None:
    def written(x):
        row = x[0]
        row += 1
        return x * 1

    x = calor.zeros((2, 2))
    jitted = calor.jit(lambda w, x: written(w + x))
    step = jitted.bind(x) if bound else (lambda t: jitted(x, t))
    with calor.shared_views():
        assert step(x)[0].tolist() == [1.0, 1.0]
    with pytest.warns(calor.errors.ViewWarning):
        assert step(x)[0].tolist() == [0.0, 0.0]
    with calor.strict_views(), pytest.raises(calor.errors.ViewError):
        step(x)
    with calor.shared_views():
        assert step(x)[0].tolist() == [1.0, 1.0]
    assert "writes to views were shared and are warn" in jitted.explain()


@pytest.mark.parametrize("bound", [False, True])
def test_an_argument_that_is_also_the_state_it_changes(bound: bool) -> None:
    a = calor.asarray([1.0, 2.0])

    def f(b: Any) -> Any:
        nonlocal a
        a += 1
        return b * 2 + a

    g = calor.jit(f)
    call = g.bind(a) if bound else functools.partial(g, a)
    assert [call().tolist() for _ in range(3)] == [[6.0, 9.0], [9.0, 12.0], [12.0, 15.0]]
    assert a.tolist() == [4.0, 5.0]
    assert g(calor.asarray([0.0, 1.0])).tolist() == [5.0, 8.0]


def test_an_argument_that_it_changes_and_that_it_reads_as_state() -> None:
    a = calor.asarray([1.0, 2.0])

    def f(b: Any) -> Any:
        b += 1
        return b * 2 + a

    g = calor.jit(f)
    other = calor.asarray([1.0, 2.0])
    assert [g(t).tolist() for t in (other, a)] == [[5.0, 8.0], [6.0, 9.0]]


def test_an_object_that_comes_to_hold_what_the_function_captures() -> None:
    a = calor.asarray([1.0, 2.0])

    class Holder(Stateful):
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

    def f(holder: Any) -> Any:
        nonlocal a
        a += 1
        return holder.tensor * 2 + a

    g = calor.jit(f)
    assert g(Holder(calor.asarray([1.0, 2.0]))).tolist() == [4.0, 7.0]
    assert g(Holder(a)).tolist() == [9.0, 12.0]
