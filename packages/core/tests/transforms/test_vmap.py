"""vmap: a function of one element, applied to all of an axis at once.

The conformance suite maps every row of the op table; here are functions of several ops, their
gradients, and what a function may do besides computing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import ArgumentError, AxisError, TraceError
from calor.ops.base import TABLE, op, table
from calor.ops.elementwise import add, mul
from calor.transforms.batching.graphs import FLOWS
from calor.transforms.batching.rules import rule_of
from calor.transforms.state import Stateful

SIZE = 4
rng = np.random.default_rng(0)


def drawn(*shape: int) -> Any:
    return calor.asarray(rng.standard_normal(shape))


WEIGHT: Any = None
SQUARE: Any = None


@pytest.fixture(autouse=True)
def captured() -> None:
    """Make the tensors that functions capture on the device of the test."""
    global WEIGHT, SQUARE
    WEIGHT, SQUARE = drawn(3, 5), drawn(3, 3)


def product(x: Any) -> Any:
    return calor.tanh(x @ WEIGHT).sum()


def scanned(x: Any) -> Any:
    last, rows = calor.scan(lambda c, t: (c * 0.5 + t @ SQUARE, (c * x).sum()), x, SQUARE)
    return last.sum() + (rows * rows).sum()


def counted(x: Any) -> Any:
    return calor.fori_loop(0, 3, lambda i, c: c * x + i, calor.ones(3, dtype=calor.float64)).sum()


def chosen(x: Any) -> Any:
    return calor.cond(x.sum() > 0, lambda t: (t * t).sum(), lambda t: (t * WEIGHT[:, 0]).sum(), x)


def chosen_outside(x: Any) -> Any:
    return calor.cond(WEIGHT.sum() > 0, lambda t: t.sum(), lambda t: (t * t).prod(), x)


def written(x: Any) -> Any:
    y = calor.zeros((4, 3), dtype=x.dtype)
    y[1] = x * 2
    y[2:, 0] += x[1]
    return (y * y).sum()


def checkpointed(x: Any) -> Any:
    return calor.checkpoint(lambda t: calor.sin(t @ SQUARE))(x).sum()


@calor.custom_vjp
def doubled(x: Any, factor: Any) -> Any:
    return calor.exp(x) * factor


doubled.defvjp(
    lambda x, factor: (calor.exp(x) * factor, (x, factor)),
    lambda kept, g: (g * 2 * kept[1], (g * kept[0]).sum()),
)


@doubled.defjvp
def doubled_along(primals: Any, tangents: Any) -> Any:
    (x, factor), (dx, dfactor) = primals, tangents
    return doubled(x, factor), dx * 2 * factor + dfactor * x


@calor.custom_jvp
def sine(x: Any, factor: Any) -> Any:
    return calor.sin(x) * factor, x


@sine.defjvp
def sine_along(primals: Any, tangents: Any) -> Any:
    (x, factor), (dx, dfactor) = primals, tangents
    return sine(x, factor), (dx * calor.cos(x) * 3 * factor + dfactor * x, dx * 2)


def custom_forward(x: Any) -> Any:
    a, b = sine(x, WEIGHT[0, 0])
    return (a * b).sum()


def custom(x: Any) -> Any:
    return doubled(x, WEIGHT[0, 0]).sum()


FUNCTIONS = [
    product,
    scanned,
    counted,
    chosen,
    chosen_outside,
    written,
    checkpointed,
    custom,
    custom_forward,
    lambda x: calor.vmap(lambda row: (row * x).sum(), in_axes=1)(WEIGHT).prod(),
    lambda x: x[calor.argmax(x)] * calor.sort(x)[0],
]


def by_loop(function: Callable[..., Any], *xs: Any) -> Any:
    made = [function(*[x[i] for x in xs]) for i in range(xs[0].shape[0])]
    return calor.tree.map(lambda *parts: calor.stack(parts), *made)


def same(got: Any, want: Any) -> None:
    flat, structure = calor.tree.flatten(got)
    others, wanted = calor.tree.flatten(want)
    assert structure == wanted
    for a, b in zip(flat, others, strict=True):
        assert a.dtype is b.dtype
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_values_and_gradients_are_those_of_a_loop(function: Any) -> None:
    x, t = drawn(SIZE, 3), drawn(SIZE, 3)
    mapped, pulled = calor.vmap(function), calor.grad(function)
    same(mapped(x), by_loop(function, x))
    want = by_loop(pulled, x)
    same(calor.vmap(pulled)(x), want)
    same(calor.grad(lambda x: mapped(x).sum())(x), want)
    same(calor.jit(calor.vmap(pulled))(x), want)

    def moved(x: Any, t: Any) -> Any:
        return calor.jvp(function, (x,), (t,))[1]

    want = by_loop(moved, x, t)
    same(calor.vmap(moved)(x, t), want)
    same(calor.jvp(mapped, (x,), (t,))[1], want)


@pytest.mark.parametrize("function", [doubled, sine])
def test_custom_rules_of_mapped_and_shared_arguments(function: Any) -> None:
    def total(x: Any, factor: Any) -> Any:
        return sum((t * t).sum() for t in calor.tree.leaves(function(x, factor)))

    x, factor = drawn(SIZE, 3), drawn()
    wanted = [calor.grad(total, (0, 1))(row, factor) for row in x]
    got = calor.grad(lambda *p: calor.vmap(total, (0, None))(*p).sum(), (0, 1))(x, factor)
    same(got, (calor.stack([g for g, _ in wanted]), sum(g for _, g in wanted)))
    tangent = drawn()
    moved = calor.jvp(lambda f: calor.vmap(total, (0, None))(x, f), (factor,), (tangent,))[1]
    want = [calor.jvp(lambda f, row=row: total(row, f), (factor,), (tangent,))[1] for row in x]
    same(moved, calor.stack(want))


def test_while_loops_run_until_all_elements_are_done() -> None:
    def doubling(n: Any) -> Any:
        return calor.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 2), (0, 1))

    same(calor.vmap(doubling)(calor.arange(5)), by_loop(doubling, calor.arange(5)))


def test_a_branch_that_returns_its_operand_leaves_it_unmapped() -> None:
    def function(x: Any, y: Any) -> Any:
        return calor.cond(x > 0, lambda y: (y, y + x), lambda y: (y, y), y)

    x, y = drawn(SIZE), drawn()
    kept, changed = calor.vmap(function, (0, None), (None, 0))(x, y)
    same(kept, y)
    same(changed, by_loop(lambda x: function(x, y)[1], x))


def test_axes_of_arguments_and_results() -> None:
    x, y = drawn(3, SIZE), drawn(SIZE)
    made = calor.vmap(
        lambda t, k: {"sum": t["x"] + t["y"], "same": k},
        in_axes=({"x": -1, "y": 0}, None),
        out_axes={"sum": 1, "same": None},
    )({"x": x, "y": y}, WEIGHT)
    same(made, {"sum": x + y, "same": WEIGHT})


def test_results_that_do_not_depend_on_mapped_arguments_are_repeated() -> None:
    ones, three, none = calor.vmap(lambda x: (calor.ones(2), 3, None))(drawn(SIZE))
    assert ones.tolist() == [[1.0, 1.0]] * SIZE
    assert three.tolist() == [3] * SIZE
    assert none is None


def test_keywords_are_passed_on() -> None:
    x = drawn(SIZE, 3)
    same(calor.vmap(calor.sum)(x, axis=0), x.sum(axis=1))


def test_host_arrays_and_empty_axes() -> None:
    assert calor.vmap(lambda x: x * 2)(np.arange(3)).tolist() == [0, 2, 4]
    made = calor.vmap(lambda x: (x @ SQUARE, calor.argmax(x)))(drawn(0, 3))
    assert [(t.shape, t.dtype) for t in made] == [((0, 3), calor.float64), ((0,), calor.int64)]


def test_what_does_not_differ_is_computed_once() -> None:
    def function(x: Any, w: Any) -> Any:
        return x @ (w @ w)

    graph = calor.trace(calor.vmap(function, (0, None)), drawn(SIZE, 3), SQUARE)
    assert [n.op.name for n in graph.nodes] == ["dot_general", "dot_general"]
    assert graph.output_specs[0].shape == (SIZE, 3)
    assert [graph.specs[n.outputs[0]].shape for n in graph.nodes] == [(3, 3), (SIZE, 3)]


@pytest.mark.parametrize("mapped", [(0, 0), (0, None), (None, 0)])
def test_convolutions_become_one_convolution(mapped: Any) -> None:
    from calor.ops.contraction import conv

    geometry = {"stride": (1,), "padding": ((0, 0),), "dilation": (1,), "groups": 1}
    x, w = drawn(SIZE, 2, 3, 8), drawn(SIZE, 5, 3, 2)
    given = [t if axis == 0 else t[0] for t, axis in zip((x, w), mapped, strict=True)]
    graph = calor.trace(calor.vmap(lambda x, w: conv(x, w, **geometry), mapped), *given)
    found = [n for n in graph.nodes if n.op.name not in ("reshape", "permute")]
    assert [n.op.name for n in found] == ["conv"]
    assert found[0].attributes["groups"] == (SIZE if mapped == (0, 0) else 1)


def test_arguments_may_be_changed_in_place() -> None:
    def function(x: Any) -> Any:
        x[0] = 7
        return x.sum()

    x = calor.zeros((SIZE, 2))
    assert calor.vmap(function)(x).tolist() == [7.0] * SIZE
    assert x.tolist() == [[7.0, 0.0]] * SIZE


def test_state_may_change_alike_for_all_elements() -> None:
    count = calor.asarray(0)

    def function(x: Any) -> Any:
        nonlocal count
        count += 1
        return x * count

    assert calor.vmap(function)(calor.arange(3)).tolist() == [0, 1, 2]
    assert count.item() == 1


def test_state_that_would_differ_is_refused_and_kept() -> None:
    total = calor.asarray(0)

    def function(x: Any) -> None:
        nonlocal total
        total += x

    with pytest.raises(TraceError, match="differ along the mapped axis"):
        calor.vmap(function)(calor.arange(3))
    assert total.item() == 0


class Held(Stateful):
    def __init__(self, *tensors: Any) -> None:
        self.first, self.rest = tensors[0], list(tensors[1:])


def test_objects_may_get_other_tensors() -> None:
    held = Held(calor.asarray([[1.0, 2.0], [3.0, 4.0]]), calor.asarray([[0.0, 1.0], [2.0, 3.0]]))
    before = held.first

    def function(held: Held, x: Any) -> Any:
        held.first = held.first + x
        held.rest[0] = held.rest[0] * x
        return held.first.sum()

    made = calor.vmap(function, in_axes=(1, 0))(held, calor.asarray([10.0, 20.0]))
    assert made.tolist() == [24.0, 46.0]
    assert held.first.tolist() == [[11.0, 22.0], [13.0, 24.0]]
    assert held.rest[0].tolist() == [[0.0, 20.0], [20.0, 60.0]]
    assert before.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_an_object_that_all_elements_share_keeps_its_tensors() -> None:
    held = Held(calor.asarray([1.0, 2.0]))

    def function(held: Held, x: Any) -> Any:
        held.first = held.first + x
        return x

    with pytest.raises(TraceError, match="replaced 'first' of a Held"):
        calor.vmap(function, in_axes=(None, 0))(held, calor.asarray([10.0, 20.0]))
    assert held.first.tolist() == [1.0, 2.0]


def test_an_error_gives_objects_their_tensors_back() -> None:
    held = Held(calor.asarray([1.0, 2.0]))

    def function(held: Held) -> Any:
        held.first = held.first + 1
        raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        calor.vmap(function)(held)
    assert held.first.tolist() == [1.0, 2.0]


def test_one_tensor_of_objects_may_be_given_twice() -> None:
    first, second = Held(calor.asarray([[1.0, 2.0], [3.0, 4.0]])), Held(calor.zeros(1))
    second.first = first.first

    def function(one: Held, other: Held) -> Any:
        one.first += 1
        return other.first.sum()

    mapped = calor.vmap(function, in_axes=(1, 1))
    assert mapped(first, second).tolist() == [6.0, 8.0]
    assert mapped(first, first).tolist() == [8.0, 10.0]
    assert second.first.tolist() == [[3.0, 4.0], [5.0, 6.0]]


@pytest.mark.parametrize("axes", [(0, 1), (0, None), (None, 1)])
def test_one_tensor_along_two_axes_is_refused(axes: Any) -> None:
    held = Held(calor.asarray([[1.0, 2.0], [3.0, 4.0]]))
    with pytest.raises(ArgumentError, match="'first' of a Held is given more than once"):
        calor.vmap(lambda one, other: one.first + other.first, in_axes=axes)(held, held)
    assert held.first.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_random_numbers_need_a_choice() -> None:
    def function(x: Any) -> Any:
        return x + calor.random.uniform((2,))

    zeros = calor.zeros(50)
    with pytest.raises(TraceError, match="randomness='different'"):
        calor.vmap(function)(zeros)
    alike = calor.vmap(function, randomness="same")(zeros).numpy()
    assert (alike == alike[0]).all()
    apart = calor.vmap(function, randomness="different")(zeros).numpy()
    assert len(np.unique(apart)) == 100
    with pytest.raises(ArgumentError, match="error, different, same"):
        calor.vmap(function, randomness="any")


def test_loops_inside_draw_different_numbers_too() -> None:
    def function(x: Any) -> Any:
        return calor.scan(lambda c, _: (c, calor.random.uniform(())), x, length=5)[1]

    calor.random.seed(3)
    made = calor.vmap(function, randomness="different")(calor.zeros(20)).numpy()
    assert made.shape == (20, 5)
    assert len(np.unique(made)) == 100
    calor.random.seed(3)
    again = calor.vmap(function, randomness="different")(calor.zeros(20)).numpy()
    assert (made == again).all()


def test_nested_axes_differ_as_they_say() -> None:
    def draw(how: str, outer: str) -> Any:
        inner = calor.vmap(lambda x: x + calor.random.uniform(()), randomness=how)
        return calor.vmap(inner, randomness=outer)(calor.zeros((3, 4))).numpy()

    assert len(np.unique(draw("different", "different"))) == 12
    assert len(np.unique(draw("different", "same"))) == 4
    assert len(np.unique(draw("same", "different"))) == 3


def test_a_generator_must_not_go_on_differently() -> None:
    def function(x: Any) -> Any:
        return calor.cond(x > 0, lambda: calor.random.uniform((), dtype=x.dtype), lambda: x)

    with pytest.raises(TraceError, match="in a branch or loop"):
        calor.vmap(function, randomness="different")(drawn(SIZE))


def test_keys_decide_alone() -> None:
    keys = calor.random.split(calor.random.key(0), SIZE)

    def function(key: Any) -> Any:
        return calor.random.normal((3,), key=key, dtype=calor.float64)

    same(calor.vmap(function)(keys), by_loop(function, keys))
    same(
        calor.vmap(lambda x, k: x + function(k), (0, None))(drawn(SIZE) * 0, keys[0])[2],
        function(keys[0]),
    )


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"in_axes": (0,)}, ArgumentError, "1 entries and the call 2"),
        ({"in_axes": 5}, AxisError, "no axis 5"),
        ({"in_axes": None}, ArgumentError, "give axis_size="),
        ({"in_axes": {"a": 0}}, ArgumentError, "whose structure is"),
        ({"axis_size": 9}, ArgumentError, r"sizes \[4, 9\]"),
        ({"out_axes": None}, ArgumentError, "depends on mapped"),
        ({"out_axes": (0, 0)}, ArgumentError, "out_axes has"),
        ({"out_axes": 3}, AxisError, "no axis 3"),
    ],
)
def test_wrong_axes_are_refused(options: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        calor.vmap(lambda x, y: x + y, **options)(drawn(SIZE, 3), drawn(SIZE, 3))


@pytest.mark.parametrize("other", [2.0, "text"])
def test_arguments_without_axes_are_refused(other: Any) -> None:
    with pytest.raises(ArgumentError, match=r"in_axes=\(0, None\)"):
        calor.vmap(lambda x, y: x)(drawn(SIZE), other)


def test_results_that_are_no_tensors_are_refused() -> None:
    with pytest.raises(TraceError, match="returns a str"):
        calor.vmap(lambda x: "text")(drawn(SIZE))


@pytest.mark.parametrize(
    "function",
    [lambda x: calor.nonzero(x), lambda x: x[x > 0], lambda x: x if x.sum() > 0 else -x],
)
def test_shapes_and_branches_that_depend_on_elements_are_refused(function: Any) -> None:
    with pytest.raises(TraceError, match=r"calor\.vmap of <lambda> is being traced"):
        calor.vmap(function)(drawn(SIZE, 3))


@pytest.fixture
def rows() -> Iterator[None]:
    """Take rows that a test adds out of the table again."""
    before = set(TABLE)
    yield
    for name in set(TABLE) - before:
        del TABLE[name]


@pytest.mark.usefixtures("rows")
def test_an_op_of_a_package_brings_its_rule_or_is_decomposed() -> None:
    def whole(size: int, mapped: Any, x: Any, y: Any, *, times: int) -> Any:
        assert (size, mapped) == (SIZE, (True, False))
        return plain(x, calor.broadcast_to(y, x.shape), times=times)

    def definition(x: Any, y: Any, *, times: int) -> Any:
        return add(mul(x, x), y)

    def rule(x: Any, y: Any, *, times: int) -> Any:
        return x

    plain = op("vmaptest.plain", rule, decompose=definition)
    own = op("vmaptest.own", rule, decompose=definition, batch=whole)
    x, y = drawn(SIZE, 3), drawn(3)
    for row, name in ((plain, "mul"), (own, "vmaptest.plain")):
        mapped = calor.vmap(lambda x, y, row=row: row(x, y, times=2), in_axes=(0, None))
        same(mapped(x, y), x * x + y)
        assert name in [n.op.name for n in calor.trace(mapped, x, y).nodes]


@pytest.mark.usefixtures("rows")
def test_a_row_without_a_rule_says_how_to_give_it_one() -> None:
    row = op("vmaptest_unknown", lambda x: x, lambda x: x)
    with pytest.raises(TraceError, match=r"batch=rule"):
        rule_of(row)


def test_every_row_of_the_table_can_be_mapped() -> None:
    # The rules of control flow are imported with it.
    calor.vmap(lambda x: x)
    sources = {"constant", "full", "input", "iota"}
    without = []
    for name, row in table().items():
        try:
            rule_of(row)
        except TraceError:
            without.append(name)
    assert set(without) <= sources | set(FLOWS), "give a new primitive its batching rule"
