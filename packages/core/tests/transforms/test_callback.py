"""Functions of the host in programs: pure ones, and those that are called in order."""

import numpy as np
import pytest

import calor
from calor.errors import (
    ArgumentError,
    CalorError,
    DTypeError,
    GradientError,
    GraphError,
    ShapeError,
)
from calor.graph.file import save
from calor.plugins.discovery import get_device
from calor.specs import spec


def present():
    names = []
    for name in ("numpy", "cpu", "strict:numpy"):
        try:
            get_device(name)
        except CalorError:
            continue
        names.append(name)
    return names


@pytest.fixture(params=present())
def x(request):
    with calor.device(request.param):
        yield calor.asarray([3.0, 1.0, 2.0])


def ordered(array):
    return np.sort(array)


FORMS = {
    "at once": lambda f, x: f(x),
    "jit": lambda f, x: calor.jit(f)(x),
    "scan": lambda f, x: calor.scan(lambda c, row: (c, f(row)), x, x[None])[1][0],
    "jitted loop": lambda f, x: calor.jit(
        lambda x: calor.fori_loop(0, 2, lambda i, c: f(calor.flip(c)), x)
    )(x),
    "cond": lambda f, x: calor.jit(lambda x: calor.cond(x.sum() > 0, f, lambda x: x, x))(x),
    "while": lambda f, x: calor.while_loop(lambda c: c[0] > 1, f, x),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_pure_function_gives_its_results_wherever_it_is_called(x, form):
    made = FORMS[form](lambda x: calor.callback(ordered, x, x) + 0, x)
    assert made.device == x.device
    assert made.tolist() == [1.0, 2.0, 3.0]


def test_arguments_and_results_are_pytrees_and_results_may_be_specs(x):
    def split(parts, factor):
        assert not parts["a"].flags.writeable
        return {"sum": parts["a"].sum() * factor, "sign": [np.sign(parts["a"]).astype(np.int8)]}

    results = {"sum": spec((), calor.float32), "sign": [spec((3,), calor.int8)]}
    for function in (split, calor.jit(lambda x: calor.callback(split, results, {"a": x}, 2))):
        made = function(x) if function is not split else calor.callback(split, results, {"a": x}, 2)
        assert made["sum"].item() == 12.0
        assert made["sign"][0].dtype is calor.int8
    empty = calor.jit(lambda: calor.callback(lambda: np.zeros((0, 2)), spec((0, 2), calor.float64)))
    with calor.device(x.device):
        assert empty().shape == (0, 2)


def test_ordered_functions_are_called_in_order_whatever_is_read(x):
    seen = []

    def step(x):
        calor.callback(seen.append, None, x[0], ordered=True)
        for _ in range(2):
            x = calor.fori_loop(0, 2, body, x)
        return x

    def body(i, x):
        calor.callback(seen.append, None, x[1], ordered=True)
        return x + 1

    wanted = [3.0, 1.0, 2.0, 3.0, 4.0]
    step(x)
    calor.synchronize(x.device)
    assert [float(n) for n in seen] == wanted
    program = calor.jit(step)
    for _ in range(2):
        seen.clear()
        program(x)
        assert [float(n) for n in seen] == wanted
    assert len(program.programs) == 1


def test_what_the_function_raises_leaves_the_program_and_the_device_goes_on(x):
    failing = calor.jit(lambda x: calor.callback(lambda a: {}[int(a[0])], x, x, ordered=True))
    for _ in range(2):
        with pytest.raises(KeyError, match="3"):
            failing(x)
    again = calor.jit(lambda x: calor.callback(ordered, x, x, ordered=True))
    assert again(x).tolist() == [1.0, 2.0, 3.0]
    assert (x + 1).tolist() == [4.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda a: a[:1], ShapeError, r"shape \(1,\) where float32\[3\] is declared"),
        (lambda a: a.astype("f8"), DTypeError, r"float64 where float32\[3\] is declared; cast it"),
    ],
)
def test_results_are_what_was_declared(x, function, error, message):
    for call in (calor.callback, calor.jit(lambda *args: calor.callback(function, *args[1:]))):
        with pytest.raises(error, match=message):
            call(function, x, x)


def test_a_pure_function_without_results_and_other_declarations_are_refused(x):
    with pytest.raises(ArgumentError, match="has no results.*: add ordered=True"):
        calor.callback(print, None, x)
    with pytest.raises(ArgumentError, match=r"hold a str; give a tensor .* or calor\.specs\.spec"):
        calor.callback(print, "float32", x)


def test_a_gradient_is_refused_with_the_way_to_give_one(x):
    def function(x):
        return calor.callback(lambda a: a * a, x, x).sum()

    for gradient in (calor.grad(function), calor.jit(calor.grad(function))):
        with pytest.raises(GradientError, match=r"no gradient; give it one: calor\.custom_vjp"):
            gradient(x)

    def squared(x):
        return calor.callback(lambda a: a * a, x, x)

    square = calor.custom_vjp(squared)
    square.defvjp(lambda x: (squared(x), x), lambda x, g: (2 * x * g,))
    gradient = calor.grad(lambda x: square(x).sum())
    assert gradient(x).tolist() == calor.jit(gradient)(x).tolist() == [6.0, 2.0, 4.0]


def test_a_graph_with_a_function_of_the_host_has_a_text_and_no_file(x):
    graph = calor.trace(lambda x: calor.callback(ordered, x, x), x)
    assert "callback" in graph.text()
    assert "ordered" in graph.text()
    with pytest.raises(GraphError, match="callback of ordered, a function of this process"):
        save(graph)


def test_mapped_functions_are_called_for_each_element(x):
    rows = calor.stack([x, x * 2])
    each = calor.vmap(lambda row: calor.callback(ordered, row, row))
    wanted = [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]
    assert each(rows).tolist() == calor.jit(each)(rows).tolist() == wanted
    with pytest.raises(ArgumentError, match="called in order.*calor.scan"):
        calor.vmap(lambda row: calor.callback(print, None, row, ordered=True))(rows)


def test_the_function_may_use_calor(x):
    def twice(array):
        with calor.device("numpy"):
            return calor.asarray(array) * 2

    function = lambda x: calor.callback(twice, x, x)  # noqa: E731
    assert calor.jit(function)(x).tolist() == [6.0, 2.0, 4.0]
    assert calor.fori_loop(0, 2, lambda i, c: function(c), x).tolist() == [12.0, 4.0, 8.0]
