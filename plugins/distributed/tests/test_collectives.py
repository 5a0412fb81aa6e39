"""What members exchange: values in every dtype, gradients by differences, and their one order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.communication import Collective
from calor.distributed import (
    all_gather,
    all_reduce,
    average_gradients,
    broadcast,
    group,
    rank,
    reduce_scatter,
)
from calor.dtypes import ALL, as_dtype, float16, float32
from calor.errors import ArgumentError, DTypeError, ShapeError, TraceError, UnsupportedError
from calor.graph.graph import prune
from calor.specs import spec
from calor.transforms.simplify import simplify
from calor_distributed import rows
from calor_distributed.copies import Copies
from calor_distributed.executable import ExchangeStage, MemberStage

BOTH = group("numpy", "numpy")
THREE = group("numpy", "numpy", "numpy")
Array = np.ndarray[Any, Any]


TOKEN = calor.asarray(np.int32(0), device="numpy")


def joined(*arrays: Any, dtype: Any = np.float64) -> Any:
    """Return the tensor of which each member has one of the arrays."""
    members = group(*["numpy"] * len(arrays))
    return members.join([calor.asarray(np.asarray(a, dtype)) for a in arrays])


def each(x: Any) -> list[Any]:
    """Return what each member has."""
    return [t.tolist() for t in group(*x.device.backend.members).split(x)]


VALUES: list[tuple[str, Callable[[Any], Any], list[Any]]] = [
    ("sum", all_reduce, [[5, 9, -3]] * 3),
    ("mean", lambda x: all_reduce(x, "mean"), [[5 / 3, 3, -1]] * 3),
    ("prod", lambda x: all_reduce(x, "prod"), [[4, 24, 0]] * 3),
    ("max", lambda x: all_reduce(x, "max"), [[4, 4, 1]] * 3),
    ("min", lambda x: all_reduce(x, "min"), [[-0.0, 2, -4]] * 3),
    ("gather", all_gather, [[1, 2, 0, 4, 3, 1, 0, 4, -4]] * 3),
    ("scatter", reduce_scatter, [[5], [9], [-3]]),
    ("scatter-mean", lambda x: reduce_scatter(x, "mean"), [[5 / 3], [3], [-1]]),
    ("scatter-max", lambda x: reduce_scatter(x, "max"), [[4], [4], [1]]),
    ("broadcast", lambda x: broadcast(x, 2), [[0, 4, -4]] * 3),
    ("rank", lambda x: x * 0 + rank(x.device), [[0] * 3, [1] * 3, [2] * 3]),
]


@pytest.mark.parametrize(("run", "wanted"), [row[1:] for row in VALUES], ids=[r[0] for r in VALUES])
def test_values(run: Callable[[Any], Any], wanted: list[Any]) -> None:
    x = joined([1, 2, 0], [4, 3, 1], [0, 4, -4])
    if wanted == [[4, 24, 0]] * 3:
        x = joined([1, 2, 0], [4, 3, 1], [1, 4, -4])
    for made in (run(x), calor.jit(run)(x)):
        np.testing.assert_allclose(each(made), wanted)


def test_an_axis_may_be_another_than_the_first() -> None:
    x = joined([[1, 2], [3, 4]], [[5, 6], [7, 8]])
    assert each(all_gather(x, axis=1)) == [[[1, 2, 5, 6], [3, 4, 7, 8]]] * 2
    assert each(reduce_scatter(x, axis=-1)) == [[[6], [10]], [[8], [12]]]


def test_lists_of_tensors_are_groups_of_their_devices() -> None:
    made = all_reduce([calor.asarray([1, 2]), calor.asarray([3, 4])])
    assert [t.tolist() for t in made] == [[4, 6], [4, 6]]
    assert [t.device.name for t in made] == ["numpy:0"] * 2


@pytest.mark.parametrize("dtype", ALL, ids=lambda d: d.name)
def test_every_dtype_travels(dtype: Any) -> None:
    given = [np.array([0, 1], dtype.numpy), np.array([1, 0], dtype.numpy)]
    x = BOTH.join(given)
    for made, wanted in ((all_gather(x), [*given[0], *given[1]]), (broadcast(x, 1), given[1])):
        for part in BOTH.split(made):
            assert part.numpy().tobytes() == np.array(wanted, dtype.numpy).tobytes()
    if dtype.kind in ("int", "uint", "float", "complex"):
        assert all_reduce(x).dtype is dtype
        assert all_reduce(x).numpy().astype(complex).tolist() == [1, 1]


def test_members_meet_in_their_order_and_halves_in_float32() -> None:
    given = np.array([[60000.0], [60000.0], [-60000.0]], np.float16)
    assert all_reduce(THREE.join(given)).tolist() == [60000.0]
    parts = np.array([[1.0], [2.0**-24], [2.0**-24]], np.float32)
    forwards = np.float32(np.float32(parts[0] + parts[1]) + parts[2])
    assert all_reduce(THREE.join(parts)).tolist() == forwards.tolist() == [1.0]
    assert all_reduce(THREE.join(parts[::-1])).tolist() == [1 + 2.0**-23]


def test_a_nan_is_the_extreme() -> None:
    x = joined([np.nan, 1], [2, np.nan])
    for op in ("max", "min"):
        assert np.isnan(all_reduce(x, op).numpy()).all()


GRADIENTS: list[tuple[str, Callable[[Any], Any]]] = [
    ("sum", all_reduce),
    ("mean", lambda x: all_reduce(x, "mean")),
    ("prod", lambda x: all_reduce(x, "prod")),
    ("max", lambda x: all_reduce(x, "max")),
    ("min", lambda x: all_reduce(x, "min")),
    ("gather", all_gather),
    ("scatter", reduce_scatter),
    ("scatter-prod", lambda x: reduce_scatter(x, "prod")),
    ("scatter-max", lambda x: reduce_scatter(x, "max")),
    ("broadcast", lambda x: broadcast(x, 1)),
    ("twice", lambda x: all_reduce(x * all_reduce(x), "mean")),
]


@pytest.mark.parametrize("run", [r for _, r in GRADIENTS], ids=[n for n, _ in GRADIENTS])
def test_gradients_are_those_of_the_sum_over_all_members(run: Callable[[Any], Any]) -> None:
    rng = np.random.default_rng(1)
    given = rng.normal(size=(2, 4))
    given[0, 1] = 0.0
    shape = run(joined(*given)).shape
    weights = rng.normal(size=(2, *shape))

    def loss(x: Any) -> Any:
        return calor.sum(run(x) * joined(*weights))

    def total(arrays: Array) -> float:
        return float(sum(each(loss(joined(*arrays)))))

    found = calor.grad(loss)(joined(*given))
    inside = calor.jit(lambda x: calor.grad(lambda t: calor.sum(run(t) ** 2))(x))
    outside = calor.grad(lambda t: calor.sum(run(t) ** 2))
    np.testing.assert_allclose(each(inside(joined(*given))), each(outside(joined(*given))))
    step = 1e-6
    for place in np.ndindex(*given.shape):
        moved = np.zeros_like(given)
        moved[place] = step
        slope = (total(given + moved) - total(given - moved)) / (2 * step)
        np.testing.assert_allclose(np.array(each(found))[place], slope, rtol=1e-5, atol=1e-7)


def test_members_of_equal_extremes_share_a_gradient() -> None:
    found = calor.grad(lambda x: calor.sum(all_reduce(x, "max")))(joined([1, 3], [1, 2]))
    assert each(found) == [[1.0, 2.0], [1.0, 0.0]]


def test_members_that_give_nothing_have_no_gradient_even_of_infinities() -> None:
    found = calor.grad(lambda x: calor.sum(broadcast(x, 1) * np.inf))(joined([1.0], [2.0]))
    assert each(found) == [[0.0], [np.inf]]


def test_forward_mode_and_second_order() -> None:
    x, t = joined([1.0, 2.0], [3.0, 4.0]), joined([1.0, 0.0], [0.0, 1.0])
    _, moved = calor.jvp(lambda x: all_reduce(x * x), (x,), (t,))
    assert each(moved) == [[2.0, 8.0]] * 2
    slope = calor.grad(lambda x: calor.sum(calor.grad(lambda x: calor.sum(all_reduce(x) ** 3))(x)))
    # The sum over two members of s³, whose gradients each member sums again.
    assert each(slope(x)) == [[96.0, 144.0]] * 2


def test_gradients_flow_between_members_and_their_devices() -> None:
    a, b = (calor.asarray([v], dtype=calor.float32, requires_grad=True) for v in (2.0, 3.0))
    first, second = BOTH.split(all_reduce(BOTH.join([a, b]) ** 2))
    (first * 5 + second * 7).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([48.0], [72.0])
    c = calor.asarray([1.0, 4.0], requires_grad=True)
    BOTH.gather(BOTH.scatter(c) * 3).sum().backward()
    assert c.grad.tolist() == [3.0, 3.0]


def test_nothing_removes_or_reorders_them() -> None:
    def run(x: Any) -> Any:
        all_reduce(x)
        all_reduce(x)
        made = all_gather(x)
        broadcast(x)
        return made

    program = calor.jit(run)
    program(joined([1], [2]))
    graph = program.programs[0].graph
    names = ["all_reduce", "all_reduce", "all_gather", "broadcast"]
    assert [n.op.name for n in prune(simplify(graph)).nodes] == names
    # Each reads the token that the one before it made, and the last one's is an output.
    tokens = [n.inputs[1] for n in graph.nodes]
    assert tokens[1:] == [n.outputs[1] for n in graph.nodes[:-1]]
    assert graph.nodes[-1].outputs[1] in graph.outputs


def test_what_nobody_reads_is_run_when_the_trace_is() -> None:
    before = BOTH.device.fallbacks
    x = joined([1], [2])
    all_reduce(x)
    calor.eval(x + 1)
    calor.synchronize(BOTH.device)
    assert BOTH.device.fallbacks == before + 1


def test_collectives_that_do_not_need_each_other_go_together() -> None:
    def run(x: Any, y: Any) -> Any:
        first, second = all_reduce(x), all_reduce(y)
        return all_gather(first * second), all_reduce(first)

    program = calor.jit(run)
    program(joined([1], [2]), joined([3], [4]))
    stages = program.programs[0].executable.stages
    kinds = [type(stage) for stage in stages]
    assert kinds == [ExchangeStage, MemberStage, ExchangeStage]
    counts = [[len(calls) for _, calls in s.batches] for s in stages if type(s) is ExchangeStage]
    assert sum(map(sum, counts)) == 4
    assert counts[0][0] == 2


def test_state_is_written_in_place_and_swaps_are_whole() -> None:
    class Pair(calor.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = calor.asarray([1.0, 1.0])
            self.b = calor.asarray([5.0, 5.0])

    with BOTH:
        pair = Pair()

    @calor.jit
    def turn(pair: Any, x: Any) -> Any:
        a = pair.a.copy()
        pair.a = pair.b + all_reduce(x)
        pair.b = a
        return a

    x = joined([1.0, 2.0], [3.0, 4.0], dtype=np.float32)
    returned = [turn(pair, x).tolist() for _ in range(3)]
    assert returned == [[1.0, 1.0], [9.0, 11.0], [5.0, 7.0]]
    assert (pair.a.tolist(), pair.b.tolist()) == ([13.0, 17.0], [5.0, 7.0])
    held = pair.a._value.buffer
    turn(pair, x)
    assert pair.a._value.buffer is held


def test_numbers_and_inputs_that_are_results_have_memory_of_their_own() -> None:
    @calor.jit
    def run(x: Any, n: Any) -> Any:
        return x, n * 1, all_reduce(x) * n, x, n

    x = joined([1.0], [2.0])
    for n in (3.0, 4.0):
        same, first, total, again, second = run(x, n)
        assert total.tolist() == [3 * n]
        assert (float(first), float(second)) == (n, n)
        assert each(same) == each(again) == [[1.0], [2.0]]
    held = {id(b) for t in (same, again, x) for b in t._value.buffer.parts}
    assert len(held) == 6


def test_a_bound_call_gives_the_same() -> None:
    @calor.jit
    def run(x: Any) -> Any:
        return all_reduce(x) * 2

    bound = run.bind()
    for n in (1.0, 2.0, 3.0):
        assert bound(joined([n], [n])).tolist() == [4 * n]


def test_steps_of_several_threads_take_turns() -> None:
    @calor.jit
    def run(x: Any) -> Any:
        return all_reduce(all_reduce(x) + 1)

    found: list[Any] = []

    def work() -> None:
        found.extend(run(joined([1.0], [2.0])).item() for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [8.0] * 80


def test_recomputing_runs_collectives_again() -> None:
    def run(x: Any) -> Any:
        return calor.sum(calor.checkpoint(lambda t: all_reduce(t) ** 2)(x))

    assert each(calor.grad(run)(joined([1.0], [2.0]))) == [[12.0], [12.0]]


def test_a_device_is_a_group_of_one() -> None:
    x = calor.asarray([1.0, 2.0])
    assert (all_reduce(x).tolist(), all_gather(x).tolist()) == ([1.0, 2.0], [1.0, 2.0])
    assert (reduce_scatter(x, "mean").tolist(), rank("numpy").item()) == ([1.0, 2.0], 0)
    made = calor.scan(lambda c, row: (all_reduce(c + row), c), x * 0, calor.ones((3, 2)))[0]
    assert made.tolist() == [3.0, 3.0]


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: all_reduce(joined([1], [2]), "xor"), ArgumentError, "op is 'xor'; pass one of"),
    (lambda: reduce_scatter(joined([1], [2]), "or"), ArgumentError, "sum, prod, max, min, mean"),
    (lambda: all_reduce(joined([1], [0], dtype=bool)), DTypeError, "numeric operands"),
    (lambda: reduce_scatter(joined([1], [2])), ShapeError, "into 2 equal parts"),
    (lambda: all_gather(joined(1, 2)), ShapeError, "axis"),
    (lambda: broadcast(joined([1], [2]), 2), ArgumentError, "a group of 2 has no member 2"),
    (lambda: all_reduce(3), ArgumentError, "x has type int; pass .* list of tensors"),
    (lambda: calor.jit(BOTH.split)(joined([1], [2])), TraceError, "split"),
    (
        lambda: rows.all_reduce(calor.ones(1), TOKEN, kind="sum", world=2)[0].tolist(),
        ArgumentError,
        "runs on a group",
    ),
    (
        lambda: calor.scan(
            lambda c, r: (all_reduce(c + r), c), joined([1], [2]), joined([[1]], [[2]])
        )[0].tolist(),
        UnsupportedError,
        "inside a loop or branch",
    ),
]


@pytest.mark.parametrize(("run", "kind", "match"), REFUSED, ids=[m for _, _, m in REFUSED])
def test_refusals(run: Callable[[], Any], kind: type[Exception], match: str) -> None:
    with pytest.raises(kind, match=match):
        run()


def test_averaging_leaves_out_what_has_no_gradient() -> None:
    with BOTH:
        w, still = (calor.ones(1, requires_grad=True) for _ in range(2))
    (w * joined([1.0], [3.0], dtype=np.float32)).sum().backward()
    average_gradients([w, still])
    assert w.grad.tolist() == [2.0]
    assert still.grad is None


def test_copies_are_counted_by_who_asks() -> None:
    members = [calor.device("numpy"), calor.device("null")]
    moved: list[int] = []
    copies = Copies(members, moved.append)
    known = spec((4,), float32)
    call = Collective("broadcast", known, known, root=0)
    buffer = members[0].backend.upload(0, np.ones(4, np.float32))
    other = members[1].backend.upload(0, np.ones(4, np.float32))
    copies.prepare([call])([[buffer, other]])
    assert moved == [16]
    assert copies.takes(call)
    assert as_dtype(float16) is float16


def test_collectives_of_mapped_values_are_refused() -> None:
    x = joined(np.ones((4, 2)), np.ones((4, 2)))
    with pytest.raises(TraceError, match="all_reduce of a mapped value"):
        calor.vmap(all_reduce)(x)
    # One on a value that all elements share happens once.
    made = calor.vmap(lambda row, y: row * all_reduce(y), in_axes=(0, None))(x, x[0])
    assert each(made) == [[[2.0, 2.0]] * 4] * 2
