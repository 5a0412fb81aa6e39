"""Is elementwise work behind a join done for each part, with the same numbers, in one launch?"""

from random import Random

import numpy as np
import pytest

import calor
from calor.graph.interpreter import interpret
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.planning.work_behind_joins import with_work_before_joins
from calor_kernel.runtime.backend import KernelBackend

SHAPE = (2, 3, 4, 8)


def _halves(x, c, s):
    """A rotary embedding of pairs that are half a line apart."""
    half = x.shape[-1] // 2
    return x * c + calor.concat([-x[..., half:], x[..., :half]], axis=-1) * s


def _pairs(x, c, s):
    """A rotary embedding of neighbours, joined in turns before the work."""
    turned = calor.stack([-x[..., 1::2], x[..., ::2]], axis=-1).reshape(x.shape)
    return x * c + turned * s


def _turns(x, c, s):
    """The same, joined in turns after the work."""
    a, b, c, s = x[..., ::2], x[..., 1::2], c[..., ::2], s[..., ::2]
    return calor.stack([a * c - b * s, b * c + a * s], axis=-1).reshape(x.shape)


def _gradient(function):
    def run(x, c, s):
        _, pull = calor.vjp(lambda x: function(x, c, s), x)
        return pull(calor.exp(x))[0]

    return run


def _gated(x, c, s):
    """A gated value's gradient, joined of both halves'."""
    a, b = calor.chunk(x * c, 2, axis=-1)
    return calor.concat([a * calor.tanh(b), calor.exp(a)], axis=-1) + s


def _other_axis(x, c, s):
    return calor.concat([x[:, 2:], x[:, :1], -x[:, 1:2]], axis=1) * c + s


ROTARY = {"halves": _halves, "pairs": _pairs, "turns": _turns}
ONE_LAUNCH = {
    **ROTARY,
    "gradient of halves": _gradient(_halves),
    "gated": _gated,
    "three parts": _other_axis,
}


def _plan(function, operands, info, fusers=None):
    with calor.device("numpy"):
        tensors = [calor.asarray(a) for a in operands]
        graph = calor.trace(function, *tensors)
        expected = [x.numpy() for x in _several(function(*tensors))]
    fusers = [ElementwiseFuser()] if fusers is None else fusers
    backend = KernelBackend("lanes", lambda i: LanesDevice(info), fusers=fusers)
    plan = backend.compile(0, graph)
    made = plan([backend.upload(0, np.ascontiguousarray(a)) for a in operands])
    found = [
        np.array(backend.download(0, m, s)) for m, s in zip(made, graph.output_specs, strict=True)
    ]
    return found, expected, [task.op for task in plan.draft.tasks]


def _several(made):
    return list(made) if isinstance(made, list | tuple) else [made]


def _drawn(shapes, dtype="float32", seed=0):
    rng = np.random.default_rng(seed)
    return [rng.uniform(-2, 2, shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("info", [MANY_UNITS, ONE_UNIT], ids=["many units", "one unit"])
@pytest.mark.parametrize("case", ONE_LAUNCH)
def test_work_around_a_join_is_one_launch(case, info):
    operands = _drawn([SHAPE, SHAPE[-2:], SHAPE[-2:]])
    if case == "three parts":
        operands[1:] = _drawn([(3, 4, 8), (3, 4, 8)])
    found, expected, ops = _plan(ONE_LAUNCH[case], operands, info)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6)
    assert ops == ["elementwise_joined"]


def test_without_a_fuser_parts_are_no_launches_of_their_own():
    operands = _drawn([SHAPE, SHAPE[-2:], SHAPE[-2:]])
    found, expected, ops = _plan(_halves, operands, MANY_UNITS, fusers=[])
    np.testing.assert_array_equal(found[0], expected[0])
    assert sorted(ops) == ["add", "concat", "mul", "mul", "neg"]


def _random_work(seed):
    """Return a function with joins, slices, and elementwise work before, between and behind."""
    random = Random(seed)
    unary = [lambda a: -a, calor.exp, abs, lambda a: a * 0.5, calor.tanh]
    binary = [lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - b, calor.maximum]
    count, axis = random.choice([2, 2, 3, 4]), random.randrange(3)
    steps = [random.random() for _ in range(40)]
    picks = [random.randrange(1000) for _ in range(40)]

    def run(x, y):
        pick, chance = iter(picks), iter(steps)
        size = x.shape[axis] // count

        def part(value, number):
            at = [slice(None)] * 3
            if next(chance) < 0.3:
                at[axis] = slice(number, None, count)
            else:
                at[axis] = slice(number * size, (number + 1) * size)
            return value[tuple(at)]

        source = unary[next(pick) % 5](x) if next(chance) < 0.5 else x
        parts = []
        for _ in range(count):
            made = part(source if next(chance) < 0.7 else y, next(pick) % count)
            parts.append(unary[next(pick) % 5](made) if next(chance) < 0.6 else made)
        if axis == 2 and next(chance) < 0.5:
            joined = calor.stack(parts, axis=-1).reshape(x.shape)
        else:
            joined = calor.concat(parts, axis=axis)
        values, made = [joined, source, y], joined
        for _ in range(1 + next(pick) % 4):
            other = values[next(pick) % len(values)]
            made = binary[next(pick) % 4](made, other)
            values.append(made)
        beside = [joined] if next(chance) < 0.2 else []
        if next(chance) < 0.3:
            beside.append(values[next(pick) % len(values)])
        if next(chance) < 0.3:
            beside.append(part(made, next(pick) % count) + 1)
        return [made, *beside]

    return run


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
@pytest.mark.parametrize("seed", range(60))
def test_drawn_graphs_keep_their_bits(seed):
    operands = _drawn([(4, 12, 24), (4, 12, 24)], seed=seed)
    random = Random(seed)
    if random.random() < 0.5:
        operands = [np.round(a * 4).astype(random.choice(["float64", "float16"])) for a in operands]
    operands = [np.ascontiguousarray(np.resize(a, (12, 12, 12))) for a in operands]
    with calor.device("numpy"):
        graph = calor.trace(_random_work(seed), *map(calor.asarray, operands))
    made = with_work_before_joins(graph)
    for a, b in zip(interpret(made, operands), interpret(graph, operands), strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype
    again = with_work_before_joins(made)
    assert len(again.nodes) <= len(made.nodes) + 2


def _part_of_part(x):
    return calor.exp((-calor.concat([x, x + 1]))[:8][::3])


def _part_of_two_joins(x):
    first = (-calor.concat([x, x + 1]))[:8]
    return calor.concat([x[:4], x[4:] * 2]) * first


@pytest.mark.parametrize("function", [_part_of_part, _part_of_two_joins])
def test_parts_are_cut_where_what_they_are_parts_of_is_not_made(function):
    (operand,) = _drawn([(8,)])
    with calor.device("numpy"):
        graph = calor.trace(function, calor.asarray(operand))
    made = with_work_before_joins(graph)
    assert made is not graph
    (found,), (expected,) = interpret(made, [operand]), interpret(graph, [operand])
    np.testing.assert_array_equal(found, expected)


def test_many_of_the_drawn_graphs_are_rewritten():
    given = [calor.zeros((12, 12, 12))] * 2
    graphs = [calor.trace(_random_work(seed), *given) for seed in range(60)]
    assert sum(with_work_before_joins(graph) is not graph for graph in graphs) >= 20


def _read_whole(x, c, s):
    joined = calor.concat([-x[..., 4:], x[..., :4]], axis=-1)
    return joined, joined * c


def _unequal(x, c, s):
    return calor.concat([-x[..., 5:], x[..., :5]], axis=-1) * c


def _of_products(x, c, s):
    a = x @ calor.ones((8, 4))
    return calor.concat([a, a + 1], axis=-1).sum(axis=-1)


@pytest.mark.parametrize("function", [_read_whole, _unequal, _of_products])
def test_other_joins_stay(function):
    operands = _drawn([SHAPE, SHAPE[-2:], SHAPE[-2:]])
    graph = calor.trace(function, *map(calor.asarray, operands))
    assert with_work_before_joins(graph) is graph


def test_sizes_that_vary_are_rewritten_too():
    rotate = calor.jit(lambda x, c, s: _halves(x, c, s))
    for count in (1, 2, 5, 3, 7, 4):
        operands = _drawn([(count, 3, 4, 8), (4, 8), (4, 8)], seed=count)
        found = rotate(*map(calor.asarray, operands)).numpy()
        x, c, s = operands
        turned = np.concatenate([-x[..., 4:], x[..., :4]], axis=-1)
        np.testing.assert_allclose(found, x * c + turned * s, rtol=2e-6, atol=2e-6)
