"""Whole graphs: what is computed, how many launches it takes, and in which memory."""

import gc
from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.errors import ElementIndexError, OutOfMemoryError, UnsupportedError
from calor.ops.base import find
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.contract.work import Work
from calor_kernel.planning.planner import Planner, needed, renewed_last
from calor_kernel.planning.values import Piece, Task, Value
from calor_kernel.runtime.backend import KernelBackend


def arange(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def compiled(device, function, *arrays):
    """Return a function's executable, its graph, and buffers of the arguments."""
    with calor.device(device):
        tensors = [calor.asarray(a) for a in arrays]
        calor.eval(*tensors)
        graph = calor.trace(function, *tensors)
    backend = device.backend
    given = [backend.upload(0, a) for a in arrays]
    return backend.compile(0, graph), graph, given


def results(device, graph, buffers):
    pairs = zip(buffers, graph.output_specs, strict=True)
    return [np.array(device.backend.download(0, b, s)) for b, s in pairs]


def labels(plan):
    return [la.launch.label or la.op for one in plan.base.recording.launches for la in one]


@pytest.mark.parametrize(
    ("function", "want", "launches"),
    [
        (lambda x: x + x, lambda x: x + x, ["add"]),
        (lambda x: calor.reshape(x + x, (6, 4)), lambda x: (x + x).reshape(6, 4), ["add"]),
        (lambda x: x, lambda x: x, ["copy_dense"]),
        (lambda x: x.T, lambda x: x.T, ["copy_rows"]),
        (lambda x: x[::-1] + x, lambda x: x[::-1] + x, ["copy_rows", "add"]),
        (lambda x: x[1:2] * 3, lambda x: x[1:2] * 3, ["copy_dense", "mul"]),
        (lambda x: x[1] - x[2], lambda x: x[1] - x[2], ["sub"]),
        (lambda x: (x.T + x.T) * x.T, lambda x: (x.T + x.T) * x.T, ["copy_rows", "add", "mul"]),
        (lambda x: calor.zeros((2, 3)), lambda x: np.zeros((2, 3)), ["copy_dense"]),
        (lambda x: calor.reshape(x.T, (24,)), lambda x: x.T.reshape(24), ["copy_rows"]),
        (lambda x: calor.arange(5), lambda x: np.arange(5), ["copy_dense"]),
        (lambda x: x[:, :0] + 1, lambda x: x[:, :0] + 1, []),
    ],
)
def test_launches(device, function, want, launches):
    array = arange(4, 6)
    plan, graph, given = compiled(device, function, array)
    (found,) = results(device, graph, plan(given))
    assert found.tolist() == want(array).tolist()
    assert [name for name in labels(plan) if name != "cast"] == launches


def test_tasks_that_nothing_reads_are_left_out():
    """Those that may fail stay, with what they read."""
    first, second, third, alone, last = (Piece("made", 4) for _ in range(5))
    fails, plain = Work((), failures=((ElementIndexError, "an index"),)), Work(())

    def task(work, read, made):
        inputs = tuple(Value(piece, None) for piece in read)
        return Task("op", (work,), inputs, (made,))

    tasks = [
        task(plain, [], first),
        task(plain, [first], second),
        task(fails, [first], third),
        task(plain, [second], alone),
        task(plain, [], last),
    ]
    assert needed(tasks, [last]) == [tasks[0], tasks[2], tasks[4]]


def test_inputs_are_renewed_behind_their_readers():
    state, other = Piece("input", 4, 0), Piece("input", 4, 1)
    made, new, more, end = (Piece("made", 4) for _ in range(4))
    fails = Work((), failures=((ElementIndexError, "an index"),))

    def task(read, made, work=None):
        inputs = tuple(Value(piece, None) for piece in read)
        return Task("op", (work or Work(()),), inputs, (made,))

    renew, read, late = task([state], new), task([state, other], made), task([made, other], end)
    assert renewed_last([renew, read, late], [new, end]) == [read, renew, late]
    # What others read, may fail, or depends on more than inputs stays.
    assert renewed_last([renew, read, late], [end]) == [renew, read, late]
    failing = task([state], new, fails)
    assert renewed_last([failing, read, late], [new, end]) == [failing, read, late]
    first, last = task([other], more), task([more, state], new)
    assert renewed_last([first, last, read, late], [new, end]) == [first, last, read, late]


def test_outputs_have_memory_of_their_own(device):
    plan, graph, given = compiled(
        device, lambda x: (x + x, x, calor.reshape(x + x, (4,))), arange(2, 2)
    )
    first = plan(given)
    assert len({b.handle.ctypes.data for b in (*first, *given)}) == 4
    want = [[[0, 2], [4, 6]], [[0, 1], [2, 3]], [0, 2, 4, 6]]
    assert [r.tolist() for r in results(device, graph, first)] == want


def test_intermediates_share_the_arena(device):
    def chain(x):
        for _ in range(10):
            x = calor.reshape((x + x).T, x.shape) - x
        return x

    plan, graph, given = compiled(device, chain, arange(8, 8))
    want = arange(8, 8)
    for _ in range(10):
        want = (want + want).T - want
    (found,) = results(device, graph, plan(given))
    assert found.tolist() == want.tolist()
    # A sum, its transposed copy, and the operand that is still read.
    assert plan.base.recording.arena <= 3 * 256
    assert plan.required_bytes <= 4 * 256


def test_scratch_memory(device):
    plan, graph, given = compiled(
        device, lambda x: find("sum")(x, axes=(0,), dtype=x.dtype) + 1, arange(5)
    )
    (found,) = results(device, graph, plan(given))
    assert found == 11


def test_host_numbers(device):
    with calor.device(device):
        x = calor.asarray(arange(3))
        scale = calor.jit(lambda x, a, b: x * a + b)
        assert scale(x, 2.0, 1).tolist() == [1.0, 3.0, 5.0]
        assert scale(x, np.float64(3.0), True).tolist() == [1.0, 4.0, 7.0]
        made = device.plans_made
        assert scale(x, 0.5, -1).tolist() == [-1.0, -0.5, 0.0]
        assert device.plans_made == made


@pytest.mark.parametrize(
    ("function", "launches"),
    [
        # Each element is read before it is written.
        (lambda w, g: (w - g,), ["sub"]),
        (lambda w, g: (w - g * g,), ["mul", "sub"]),
        # What was there is read again, so the result is copied at the end.
        (lambda w, g: (w - g, (w - g) * w), ["sub", "mul", "copy_dense"]),
        (lambda w, g: (w.T - g,), ["copy_rows", "sub"]),
        (lambda w, g: (w * 1.0, g + w.T), None),
        # What only counts on comes last.
        (lambda w, g: (w + w, w * g), ["mul", "add"]),
        (lambda w, g: (w + w, g * g, (w * g).T - g), ["mul", "add", "copy_rows", "sub", "mul"]),
        (lambda w, g: (w,), []),
    ],
)
def test_in_place(device, function, launches):
    w, g = arange(4, 4), arange(4, 4) + 1
    plan, graph, given = compiled(device, function, w, g)
    apart = [r.tolist() for r in results(device, graph, plan(given))]
    into = [given[0], *[None] * (len(apart) - 1)]
    gc.collect()
    for _ in range(2):
        before = device.backend.memory(0).in_use
        made = plan(given, into)
        assert made[0] is given[0]
        assert device.backend.memory(0).in_use - before == 64 * (len(apart) - 1)
        assert [r.tolist() for r in results(device, graph, made)] == apart
        del made
        device.backend.engine(0).pool.memory.copy_in(given[0].handle, 0, w)
    (variant,) = plan._variants
    if launches is not None:
        found = [
            la.op if la.op != "copy" else la.launch.label
            for one in variant.recording.launches
            for la in one
        ]
        assert found == launches


def test_what_runs_in_place_alone_is_recorded_once(device):
    """The variant without targets of a training step is neither laid out nor recorded."""
    plan, _, given = compiled(device, lambda w, g: (w - g * g, g.T + g), arange(4, 4), arange(4, 4))
    plan(given, [given[0], None])
    assert "base" not in vars(plan)
    (variant,) = plan._variants
    assert not variant.exceeds
    assert variant.required <= plan.required_bytes
    for known in (True, False):
        if not known:
            del plan.base
        assert not plan._exceeds(plan.required_bytes)
        assert plan._exceeds(plan.required_bytes + 1)


def test_in_place_of_what_is_no_input_or_two(device):
    plan, graph, given = compiled(device, lambda x, y: (x + y, x - y.T), arange(2, 2), arange(2, 2))
    other = device.backend.upload(0, arange(2, 2))
    made = plan(given, [other, None])
    assert made[0] is other
    assert [r.tolist() for r in results(device, graph, made)] == [
        [[0, 2], [4, 6]],
        [[0, -1], [1, 0]],
    ]
    both = given[0]
    made = plan([both, both], [None, both])
    assert [r.tolist() for r in results(device, graph, made)] == [
        [[0, 2], [4, 6]],
        [[0, -1], [1, 0]],
    ]


def test_an_op_that_fails_leaves_what_it_would_overwrite(device):
    def step(w, i):
        return w + find("gather")(w, i, axis=0), w[:1] * 2

    plan, graph, given = compiled(device, step, arange(3), np.array([0, 1, 2]))
    bad = device.backend.upload(0, np.array([0, 9, 1]))
    with pytest.raises(ElementIndexError, match="out of range") as caught:
        plan([given[0], bad], [given[0], None])
    assert caught.value.op == "gather"
    found = device.backend.download(0, given[0], graph.input_specs[0]).tolist()
    assert found == [0.0, 1.0, 2.0]
    with pytest.raises(ElementIndexError, match="out of range"):
        plan([given[0], bad])
    made = plan(given, [given[0], None])
    assert [r.tolist() for r in results(device, graph, made)] == [[0.0, 2.0, 4.0], [0.0]]


def test_running_out_before_anything_is_written(device):
    plan, graph, given = compiled(
        device, lambda w, x: (w + x, (x * x).T + x), *[arange(40, 40)] * 2
    )
    backend = device.backend
    backend.set_memory_limit(0, backend.memory(0).in_use + plan.required_bytes // 2)
    with pytest.raises(OutOfMemoryError) as caught:
        plan(given, [given[0], None])
    assert caught.value.op
    backend.set_memory_limit(0, None)
    assert np.array_equal(backend.download(0, given[0], graph.input_specs[0]), arange(40, 40))
    before = backend.memory(0).in_use
    made = plan(given, [given[0], None])
    assert backend.memory(0).in_use - before == made[1].nbytes


def test_a_known_graph_at_another_size_compiles_nothing(device):
    def function(x):
        return (x + x).T * 2 - x.T

    # Both sizes are copied in squares of the same side.
    compiled(device, function, arange(28, 30))
    engine = device.backend.engine(0)
    before = engine.kernels.compiled
    plan, graph, given = compiled(device, function, arange(30, 70))
    (found,) = results(device, graph, plan(given))
    assert engine.kernels.compiled == before
    assert np.array_equal(found, (arange(30, 70) * 2).T * 2 - arange(30, 70).T)


def test_equal_constants_are_one(backend, device):
    _, graph, _ = compiled(device, lambda x: (x * 2 + calor.full((4, 6), 2.0)) * 2.0, arange(4, 6))
    draft = Planner(backend.engine(0).lowerings, graph).draft()
    assert len(draft.constants) == 64


def test_a_launch_of_too_many_cubes_is_refused_by_name():
    few = replace(MANY_UNITS, max_cubes=(4, 2, 8))
    device = device_of(KernelBackend("few", lambda index: LanesDevice(few, checks=False)), 0)
    x = calor.asarray(np.ones((9, 12, 12), np.float32), device=device)
    with pytest.raises(UnsupportedError, match="9.* cubes.*at most 8.*in op 'dot_general'"):
        (x @ x).numpy()
    assert (x[:8] @ x[:8]).sum().item() == 8 * 12.0**3


def test_a_launch_is_folded_at_sizes_where_it_must_be():
    few = replace(MANY_UNITS, max_cubes=(1 << 20, 8, 8))
    backend = KernelBackend("few", lambda index: LanesDevice(few, checks=False))
    device = device_of(backend, 0)
    for count in (5, 6, 7, 9, 12, 8):
        x = np.arange(count * 6, dtype=np.float32).reshape(count, 2, 3)
        plan, graph, given = compiled(device, lambda x: x @ x.swapaxes(1, 2), x)
        (found,) = results(device, graph, plan(given))
        assert np.array_equal(found, x @ x.swapaxes(1, 2))
    assert backend.engine(0).replanning.used
