"""Programs of many sizes from one trace with symbolic sizes."""

import numpy as np
import pytest

import calor
from calor.graph.graph import Graph
from calor.ops.sources import iota
from calor.transforms.families import Families
from calor.transforms.state import Stateful


def shared(function):
    """Return a jitted function whose sizes share traces."""
    made = calor.jit(function)
    made.families = Families()
    return made


def given(*shape, dtype=np.float32):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


FUNCTIONS = {
    "reshape": lambda x: calor.reshape(x, (-1, 2)) + 1,
    "rows": lambda x: calor.reshape(x, (x.shape[1], x.shape[0], 1)),
    "part": lambda x: x[1:, -2:] * x[:-1, :2],
    "reversed": lambda x: x[::-1, ::2],
    "mean": lambda x: calor.mean(x) + calor.mean(x, axis=0),
    "ramp": lambda x: x + iota(length=x.shape[0], dtype=calor.float32)[:, None],
    "joined": lambda x: calor.concat([x, x, calor.zeros((x.shape[0], 3))], axis=1),
    "product": lambda x: calor.matmul(x, calor.swapaxes(x, 0, 1)),
    "spread": lambda x: calor.broadcast_to(x[:, None], (x.shape[0], 4, x.shape[1])),
    "scan": lambda x: calor.scan(lambda c, row: (c + row, c * row), calor.zeros((x.shape[1],)), x),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_sizes_are_computed_as_without_a_shared_trace(name):
    function = FUNCTIONS[name]
    program = shared(function)
    with calor.device("numpy"):
        for rows, columns in ((4, 6), (5, 8), (7, 10), (9, 6), (1, 8), (4, 2), (33, 4), (6, 6)):
            x = calor.asarray(given(rows, columns))
            expected, found = (calor.tree.flatten(f(x))[0] for f in (calor.jit(function), program))
            for a, b in zip(expected, found, strict=True):
                np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert program.families.reason is None
    assert 1 <= program.families.made <= 4


def test_a_branch_on_a_size_is_a_guard():
    traced = []

    def function(x):
        traced.append(None)
        return x * 2 if x.shape[0] > 10 else x * 3

    program = shared(function)
    with calor.device("numpy"):
        for n in (3, 4, 20, 5, 11, 10, 30, 6, 8, 9, 7):
            x = calor.ones(n)
            assert program(x).tolist() == ([2.0] * n if n > 10 else [3.0] * n)
    assert program.families.made < len(traced) <= 11


def test_code_that_needs_numbers_is_traced_at_each_size():
    program = shared(lambda x: x * float(np.zeros(x.shape[0]).size))
    with calor.device("numpy"):
        for n in (3, 4, 5, 6):
            assert program(calor.ones(n)).tolist() == [float(n)] * n
    assert "depends on each size" in program.families.reason


def test_a_function_that_changes_tensors_is_traced_at_each_size():
    total = calor.zeros((), device="numpy")

    def function(x):
        nonlocal total
        total += calor.sum(x)
        return x

    program = shared(function)
    with calor.device("numpy"):
        for n in (3, 4, 5):
            program(calor.ones(n))
    assert total.item() == 12
    assert program.families.reason is not None


def test_gradients_through_a_program_of_another_size_are_right():
    weight = calor.asarray([2.0, 3.0], device="numpy").requires_grad_()
    program = shared(lambda x: calor.sum((x * weight) ** 2))
    with calor.device("numpy"):
        for n in (3, 4, 5, 6):
            weight.grad = None
            program(calor.ones((n, 2))).backward()
            assert weight.grad.tolist() == [4.0 * n, 6.0 * n]


def test_settings_are_those_of_the_call():
    program = shared(lambda x: x / 2)
    with calor.device("numpy"):
        for n in (3, 4, 5):
            with calor.default_dtype("float64" if n == 4 else "float32"):
                assert program(calor.ones(n, dtype=calor.int32)).dtype is (
                    calor.float64 if n == 4 else calor.float32
                )


def test_a_program_of_another_size_makes_its_graph_on_demand():
    program = shared(FUNCTIONS["reshape"])
    with calor.device("numpy"):
        for n in (3, 4, 5):
            program(calor.ones((n, 2)))
    graph = program.programs[0].graph
    assert isinstance(graph, Graph)
    assert graph.input_specs[0].shape == (5, 2)


class _Held(Stateful):
    """A weight and settings, which a program reads."""

    def __init__(self):
        self.weight, self.scale, self.parts = calor.full((), 2.0), 1.0, [3.0]


@pytest.mark.parametrize(
    ("change", "back"),
    [
        (lambda o: setattr(o, "scale", 5.0), lambda o: setattr(o, "scale", 1.0)),
        (lambda o: o.parts.append(1.0), lambda o: o.parts.pop()),
        (
            lambda o: setattr(o, "weight", calor.full((2, 1), 7.0)),
            lambda o: setattr(o, "weight", calor.full((), 2.0)),
        ),
        (
            lambda o: setattr(o, "weight", calor.full((), 7, dtype="int32")),
            lambda o: setattr(o, "weight", calor.full((), 2.0)),
        ),
    ],
)
@pytest.mark.parametrize("given_object", [False, True])
def test_a_new_size_after_a_change_of_state_is_computed_with_that(change, back, given_object):
    held = _Held()
    plain = lambda o, x: x * o.weight * o.scale + sum(o.parts)  # noqa: E731 - called twice
    program = calor.jit(plain) if given_object else calor.jit(lambda x: plain(held, x))
    lead = (held,) if given_object else ()
    for size in (2, 3, 4, 5):
        program(*lead, calor.ones(size))
    count = program.trace_count
    for number, act in enumerate((change, back, change)):
        act(held)
        for size in (6 + 2 * number, 7 + 2 * number):
            x = calor.ones(size)
            assert program(*lead, x).tolist() == plain(held, x).tolist()
    assert program.trace_count <= count + 3
