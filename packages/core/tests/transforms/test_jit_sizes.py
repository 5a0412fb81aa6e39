"""Jitted functions of many sizes: what shares a trace, and which decisions are made anew."""

import numbers
from functools import lru_cache, singledispatch

import numpy as np
import pytest

import calor

# Both sides of every threshold below, a size of 1, and one that occurs again.
SIZES = (3, 4, 7, 12, 5, 33, 1, 8, 40, 12)


def given(*shape):
    data = np.random.default_rng(sum(shape)).standard_normal(shape)
    return calor.asarray(data.astype(np.float32))


def compared(function, arguments, sizes=SIZES, **options):
    """Return the jitted function, after calls that give what a trace of each size gives."""
    shared = calor.jit(function, **options)
    with calor.device("numpy"):
        for n in sizes:
            found, expected = shared(*arguments(n)), function(*arguments(n))
            pairs = zip(*(calor.tree.flatten(x)[0] for x in (found, expected)), strict=True)
            for a, b in pairs:
                assert type(a) is type(b)
                if not isinstance(a, calor.Tensor):
                    assert a == b
                    continue
                assert (a.shape, a.dtype) == (b.shape, b.dtype)
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)
    return shared


weight = given(4, 4)
SHARING = {
    "elementwise": lambda x: calor.tanh(x) * 2 + x.shape[0],
    "mean": lambda x: calor.mean(x, axis=0),
    "divided": lambda x: calor.sum(x) / x.shape[0],
    "share": lambda x: x.shape[0] / (calor.sum(x * x) + 1),
    "captured": lambda x: x @ weight,
    "cut": lambda x: x[x.shape[0] // 2 :],
    "padded": lambda x: calor.pad(x, ((0, -x.shape[0] % 8), (0, 0))),
    "positions": lambda x: x + calor.arange(x.shape[0])[:, None],
    "positions from": lambda x: calor.arange(2, x.shape[0] + 2) % 3,
    "masked": lambda x: calor.where(calor.arange(x.shape[0]) < x.shape[0] - 1, x[:, 0], 0),
    "squares": lambda x: calor.ones((x.shape[0] ** 2,)) * x.shape[0] ** 2,
    "gradient": lambda x: calor.grad(lambda w: calor.sum((x @ w) ** 2))(weight),
    "scan": lambda x: calor.scan(lambda c, row: (c + row, c), calor.zeros(4), x),
    "results": lambda x: {"a": x + 1, "b": ["text", calor.sum(x)]},
}


@pytest.mark.parametrize("name", SHARING)
def test_two_sizes_are_traced_and_the_third_shares_its_trace(name):
    shared = compared(SHARING[name], lambda n: (given(n, 4),))
    # The size of 1 has a trace of its own, and a structure is open after two.
    assert shared.trace_count <= 5
    assert "calls of other sizes share a trace" in shared.explain()


TABLE = {3: 1.0, 12: 2.0}
remembered = lru_cache(lambda n: 2.0 if n > 10 else 3.0)
DECIDING = {
    "branch": lambda x: x * 2 if x.shape[0] > 10 else x * 3,
    "table": lambda x: x * TABLE.get(x.shape[0], 5.0),
    "member": lambda x: x * (2 if x.shape[0] in {7, 8, 33} else 3),
    "list": lambda x: x * (2 if x.shape[0] in [7, 8, 33] else 3),
    "set": lambda x: x * len({x.shape[0], 12, 33}),
    "remembered": lambda x: x * remembered(x.shape[0]),
    "text": lambda x: x * float(f"{x.shape[0]}.5"),
    "words": lambda x: x * len(str(x.shape)),
    "form": lambda x: x * float(format(x.shape[0], "04d")),
    "loop": lambda x: sum(x[i] for i in range(x.shape[0])),
    "host": lambda x: x * float(np.ones(x.shape[0]).sum()),
    "root": lambda x: x / x.shape[0] ** 0.5,
    "kind": lambda x: x * (2 if isinstance(x.shape[0], int) else 3),
    "returned": lambda x: (x, x.shape[0]),
    "key": lambda x: {x.shape[0]: x},
    "match": lambda x: x * max(x.shape[0], 10),
}


@pytest.mark.parametrize("name", DECIDING)
def test_what_python_decides_of_a_size_is_decided_for_each(name):
    compared(DECIDING[name], lambda n: (given(n, 4),))


kind_of, KINDS = type, (int, np.integer)


@singledispatch
def dispatched(n):
    return 3.0


@dispatched.register
def _(n: int):
    return 2.0 if n > 10 else 3.0


def matched(n):
    match n:
        case int() if n > 10:
            return 2.0
    return 3.0


# Thresholds behind a question about the type, which is another one for a symbol.
TYPES = {
    "type": lambda n: 2.0 if type(n) is int and n > 10 else 3.0,
    "alias": lambda n: 2.0 if kind_of(n) is int and n > 10 else 3.0,
    "instance": lambda n: 2.0 if isinstance(n, KINDS) and n > 10 else 3.0,
    "union": lambda n: 2.0 if isinstance(n, float | int) and n > 10 else 3.0,
    "number": lambda n: 2.0 if isinstance(n, numbers.Number) and n > 10 else 3.0,
    "class": lambda n: 2.0 if n.__class__ is int and n > 10 else 3.0,
    "dispatch": dispatched,
    "match": matched,
}


@pytest.mark.parametrize("name", TYPES)
def test_code_that_may_ask_the_type_of_a_size_is_traced_for_each(name):
    # The threshold is beyond all sizes of the calls that open the structure.
    sizes = (3, 4, 7, 5, 33, 8, 40, 12)
    function = compared(lambda x: x * TYPES[name](x.shape[0]), lambda n: (given(n),), sizes)
    assert function.trace_count == len(set(sizes))
    assert "code may ask the type of a size" in function.explain()


def test_questions_about_other_types_share_traces():
    def function(x, name):
        return x * 2 if isinstance(x, calor.Tensor) and isinstance(name, str | bytes) else x

    shared = compared(function, lambda n: (given(n), "name"))
    assert shared.trace_count <= 5


def test_sizes_of_two_arguments_are_told_apart():
    function = compared(
        lambda x, y: x + y if {x.shape[0]} == {y.shape[0]} else x * calor.sum(y),
        lambda n: (given(n), given(n if n % 3 else n + 1)),
    )
    assert function.trace_count > 2


def test_all_sizes_are_open_from_the_first_call_where_the_user_says_so():
    shared = compared(
        lambda x, y: x @ y, lambda n: (given(n + 1, 4), given(4, n + 2)), dynamic=True
    )
    assert shared.trace_count == 1


def test_each_size_has_a_trace_where_the_user_says_so():
    shared = compared(SHARING["mean"], lambda n: (given(n, 4),), dynamic=False)
    assert shared.trace_count == len(set(SIZES))
    assert "share" not in shared.explain()


def test_numbers_objects_and_state_are_arguments_as_ever():
    def function(x, factor, parts):
        return x * factor + calor.sum(parts["bias"])

    shared = compared(
        function, lambda n: (given(n, 2), float(n), {"bias": given(n), "name": "text"})
    )
    assert shared.trace_count <= 5


def test_functions_that_change_tensors_are_traced_at_each_size():
    total = calor.zeros((), device="numpy")

    @calor.jit
    def function(x):
        nonlocal total
        total += calor.sum(x)
        return x * 2

    with calor.device("numpy"):
        for n in (3, 4, 5, 6):
            function(calor.ones(n))
    assert total.item() == 18
    assert function.trace_count == 4
    assert "the function changes tensors" in function.explain()


def test_gradients_flow_into_a_function_of_many_sizes():
    scale = calor.asarray([2.0, 3.0], device="numpy").requires_grad_()
    function = calor.jit(lambda x: calor.mean((x * scale) ** 2))
    with calor.device("numpy"):
        for n in (3, 4, 5, 6, 9):
            scale.grad = None
            function(calor.ones((n, 2))).backward()
            np.testing.assert_allclose(scale.grad.numpy(), [2.0, 3.0], rtol=1e-6)
    assert function.trace_count == 3


def test_settings_have_programs_of_their_own():
    function = calor.jit(lambda x: x / 2)
    with calor.device("numpy"):
        for n in (3, 4, 5, 6, 7):
            for dtype in ("float32", "float64"):
                with calor.default_dtype(dtype):
                    made = function(calor.ones(n, dtype=calor.int32))
                assert made.dtype.name == dtype


def test_a_size_that_code_keeps_is_the_number_of_its_trace():
    kept = []

    @calor.jit
    def function(x):
        kept.append(x.shape[0])
        return x * 2

    with calor.device("numpy"):
        for n in (3, 4, 5, 6, 7):
            function(calor.ones(n))
    assert [int(n) for n in kept] == [3, 4, 5]
    assert [list(range(n)) for n in kept[-1:]] == [[0, 1, 2, 3, 4]]
    assert f"{kept[-1]}" == "5"
    assert {5: "five"}[kept[-1]] == "five"
