"""What is prepared of operands that stay is kept, and never used when they did not stay."""

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.dtypes import float32
from calor.specs import spec
from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.contract.work import Build, Input, Launch, Output, Scratch, Work
from calor_kernel.planning import operand_cache
from calor_kernel.planning.operand_cache import preparations
from calor_kernel.planning.plan import Plan, copied
from calor_kernel.runtime.backend import KernelBackend

from .small_ops import FUNCTIONS, SIZE, Buffer, elementwise

# More rows than a product packs its operand for inside its own launch.
ROWS, DEPTH, COLUMNS = 340, 2, 20
X = np.random.default_rng(0).random((ROWS, DEPTH), np.float32)
WEIGHTS = [np.random.default_rng(seed).random((COLUMNS, DEPTH), np.float32) for seed in range(1, 4)]
WEIGHT = spec(WEIGHTS[0].shape, float32)
RESULT = spec((ROWS, COLUMNS), float32)


class Linear:
    """``x @ w.T`` on a backend, with the labels of what it launched at its last call."""

    def __init__(self):
        self.backend = KernelBackend("kept", lambda index: LanesDevice(ONE_UNIT, checks=False))
        with calor.device("numpy"):
            x, w = calor.zeros(X.shape), calor.zeros(WEIGHT.shape)
            graph = calor.trace(lambda x, w: (x @ w.T, w * 1.0), x, w)
        self.executable = self.backend.compile(0, graph)
        self.engine = self.backend.engine(0)
        self.x = self.backend.upload(0, X)
        self.labels = []
        self.engine.profiler = self._note

    def _note(self, launches, start, seconds):
        self.labels += [launched.launch.label for launched in launches]

    def __call__(self, w, x=None, expected=None):
        """Return whether the weights were packed; the result is right."""
        self.labels.clear()
        made = self.executable([x or self.x, w])
        found = self.backend.download(0, made[0], RESULT)
        wanted = np.array(self.backend.download(0, w, WEIGHT)) if expected is None else expected
        np.testing.assert_allclose(found, X @ wanted.T, rtol=1e-5)
        return "matmul pack" in self.labels

    def upload(self, array):
        return self.backend.upload(0, array)


@pytest.fixture
def linear(monkeypatch):
    monkeypatch.delenv("CALOR_KEEP", raising=False)
    return Linear()


def test_weights_that_stay_are_packed_at_two_calls_only(linear):
    w = linear.upload(WEIGHTS[0])
    assert [linear(w) for _ in range(5)] == [True, True, False, False, False]


def test_other_activations_change_nothing(linear):
    w = linear.upload(WEIGHTS[0])
    packed = [linear(w, linear.upload(X)) for _ in range(4)]
    assert packed == [True, True, False, False]


def test_other_weights_are_packed(linear):
    first, second = map(linear.upload, WEIGHTS[:2])
    assert [linear(first) for _ in range(3)] == [True, True, False]
    assert linear(second)
    assert linear(first)
    assert not any([linear(first) for _ in range(4)][2:])


def test_weights_written_in_place_are_packed_again(linear):
    w = linear.upload(WEIGHTS[0])
    assert [linear(w) for _ in range(3)] == [True, True, False]
    made = linear.executable([linear.x, linear.upload(WEIGHTS[1])], [None, w])
    assert made[1] is w
    assert linear(w, expected=WEIGHTS[1])


def test_weights_that_a_copy_overwrites_are_packed_again(linear):
    """Programs with control flow copy their results to the targets."""
    w = linear.upload(WEIGHTS[0])
    assert [linear(w) for _ in range(3)] == [True, True, False]
    (made,) = copied(linear.engine.pool.memory, [linear.upload(WEIGHTS[1])], [w])
    assert made is w
    assert linear(w, expected=WEIGHTS[1])


def test_memory_that_others_write_is_packed_each_time(linear):
    w = linear.upload(WEIGHTS[0])
    view = w.view(WEIGHT, writable=True)
    for array in WEIGHTS * 2:
        view[...] = array
        assert linear(w, expected=array)


def test_adopted_memory_is_packed_each_time(linear):
    array = np.array(WEIGHTS[0])
    w = linear.backend.adopt(0, array)
    for other in WEIGHTS * 2:
        array[...] = other
        assert linear(w, expected=other)


def test_weights_that_alternate_are_left_alone(linear, monkeypatch):
    # What is tried again after ever more calls is tried after this many at the latest.
    monkeypatch.setattr(operand_cache, "_MOST_PATIENCE", 8)
    first, second = map(linear.upload, WEIGHTS[:2])
    assert all(linear(w) for _ in range(10) for w in (first, second))
    held = linear.engine.pool.held
    assert all(linear(w) for _ in range(10) for w in (first, second))
    assert linear.engine.pool.held == held


def test_what_is_kept_goes_where_memory_is_short(linear):
    w = linear.upload(WEIGHTS[0])
    assert [linear(w) for _ in range(3)] == [True, True, False]
    linear.engine.pool.trim()
    assert linear(w)
    linear.engine.pool.trim()
    needed = linear.engine.pool.in_use + linear.executable.required_bytes
    linear.backend.set_memory_limit(0, needed)
    assert all(linear(w) for _ in range(5))


def test_weights_of_a_function_of_many_sizes_are_packed_at_its_first_new_size(monkeypatch):
    monkeypatch.delenv("CALOR_KEEP", raising=False)
    packed = []
    prepare = Plan.prepare
    monkeypatch.setattr(Plan, "prepare", lambda *given: (packed.append(1), prepare(*given)))
    device = device_of(KernelBackend("kept", lambda index: LanesDevice(ONE_UNIT, checks=False)), 0)
    w = calor.asarray(WEIGHTS[0], device=device)
    function = calor.jit(lambda x: x @ w.T, dynamic=True)
    # The pool returns what is idle while that is most of its memory, and what is kept with it.
    others = calor.asarray(np.zeros(1 << 20, np.uint8), device=device)

    def packs(rows):
        packed.clear()
        x = np.random.default_rng(rows).random((rows, DEPTH), np.float32)
        found = function(calor.asarray(x, device=device)).numpy()
        np.testing.assert_allclose(found, x @ w.numpy().T, rtol=1e-5)
        return len(packed)

    assert [packs(rows) for rows in (340, 350, 360, 350)] == [0, 1, 0, 0]
    w[:] = calor.asarray(WEIGHTS[1], device=device)
    assert sum(packs(rows) for rows in (370, 350, 380, 390, 400)) == 1
    del others


def test_it_can_be_switched_off(monkeypatch):
    monkeypatch.setenv("CALOR_KEEP", "0")
    linear = Linear()
    w = linear.upload(WEIGHTS[0])
    assert all(linear(w) for _ in range(4))


def _launch(arguments, prepares):
    signature = tuple(
        SIZE if isinstance(a, int) else Buffer(float32, writable=i == len(arguments) - 2)
        for i, a in enumerate(arguments)
    )
    build = Build(elementwise, signature, (("function", FUNCTIONS["add"]),))
    return Launch(build, (1, 1, 1), arguments, prepares=prepares)


CHAINS = {
    "a table": ([((Scratch(0), 4), True)], {0: set()}),
    "of one operand": ([((Input(1), Scratch(0), 4), True)], {0: {1}}),
    "of what was prepared": (
        [((Input(1), Scratch(0), 4), True), ((Scratch(0), Scratch(1), 4), True)],
        {0: {1}, 1: {1}},
    ),
    "of what was computed": (
        [((Input(1), Scratch(0), 4), False), ((Scratch(0), Scratch(1), 4), True)],
        {},
    ),
    "written over later": (
        [((Input(1), Scratch(0), 4), True), ((Input(0), Scratch(0), 4), False)],
        {},
    ),
    "one after another in one place": (
        [((Input(1), Scratch(0), 4), True), ((Input(0), Scratch(0), 4), True)],
        {0: {1}, 1: {0, 1}},
    ),
}


@pytest.mark.parametrize("case", CHAINS)
def test_preparations(case):
    given, expected = CHAINS[case]
    launches = [_launch(arguments, prepares) for arguments, prepares in given]
    result = _launch((Scratch(0), Output(), 4), False)
    found = preparations(Work((*launches, result), (16, 16)))
    assert {k: set(v) for k, v in found.items()} == expected


@pytest.mark.parametrize("rows", [1, 2, 3, 8])
def test_few_rows_read_weights_that_stay_by_tiles(rows, monkeypatch):
    monkeypatch.delenv("CALOR_KEEP", raising=False)
    rng = np.random.default_rng(rows)
    x, w = rng.random((rows, 48), np.float32), rng.random((24, 48), np.float32)
    backend = KernelBackend("kept", lambda index: LanesDevice(ONE_UNIT, checks=False))
    with calor.device("numpy"):
        graph = calor.trace(lambda x, w: x @ w.T, calor.asarray(x), calor.asarray(w))
    executable, labels = backend.compile(0, graph), []
    given = [backend.upload(0, x), backend.upload(0, w)]
    for _ in range(3):
        (made,) = executable(given)
    backend.engine(0).profiler = lambda launches, *_: labels.extend(
        launched.launch.label for launched in launches
    )
    (made,) = executable(given)
    found = backend.download(0, made, spec((rows, 24), float32))
    np.testing.assert_allclose(found, x @ w.T, rtol=1e-5)
    assert all(("dots" in label) == (rows <= 2) for label in labels), labels
