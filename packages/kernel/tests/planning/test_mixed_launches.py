"""Short work of unlike kernels in one launch: which is joined, and whether it has the same bits."""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.errors import ElementIndexError
from calor_interpreter.device import MANY_UNITS
from calor_kernel.library.conv import winograd_launch, winograd_plan
from calor_kernel.planning import common_launches, side_by_side

from ..library.test_many_cubes import FAMILIES
from .test_side_by_side import both, device_with, floats, run

# Launches are dear on such a device.
DEAR = replace(MANY_UNITS, launch_ns=1700, arguments=256)
SQUARE = floats(16, 16), floats(16, 16, seed=1)


def moved(x, y):
    """Elements, a transposition and other elements, none of which waits."""
    return calor.exp(x), y.T, abs(y[:5])


# A function, its operands, and the launches left of so many.
JOINED = {
    "unlike work": (moved, SQUARE, 3, 1),
    "after each other": (lambda x, y: (calor.exp(x).sum(axis=1), y.T), SQUARE, 3, 2),
    "a chain": (lambda x, y: calor.exp(x).sum(axis=1).max(axis=0), SQUARE, 3, 3),
    "nothing": (lambda x, y: (calor.exp(x), y[:0].T), SQUARE, 1, 1),
}


@pytest.mark.parametrize("name", JOINED)
def test_joined(monkeypatch, name):
    function, arrays, launches, left = JOINED[name]
    before, after = both(monkeypatch, device_with(DEAR), function, *arrays)
    assert (sum(before.values()), sum(after.values())) == (launches, left), (before, after)


def test_unlike_work_of_longer_plans_is_joined(monkeypatch):
    """A plan of so many tasks as a step of some ops has, of which each layer has two that fit."""

    def layers(x, y):
        for _ in range(12):
            x, y = calor.exp(x).sum(axis=1, keepdims=True) * x, abs(y.T)
        return x, y

    before, after = both(monkeypatch, device_with(DEAR), layers, *SQUARE)
    assert 16 <= sum(before.values()) < 64
    assert sum(after.values()) <= sum(before.values()) * 3 / 4, (before, after)


@pytest.mark.parametrize(
    "name",
    """reduce rows, reduce columns, softmax, pool, concat, copying, matmul, matmul gradients, matmul
    vector, conv, conv gradients, attention, attention gradients, sort, fft, look-back""".replace(
        "\n    ", " "
    ).split(", "),
)
def test_families_beside_elements(monkeypatch, name):
    """Each family's work, with as many units and barriers as it has, beside work on elements."""
    function, given = FAMILIES[name]
    given = [array[: max(2, len(array) // 4)] if array.shape[0] > 1 else array for array in given]

    def two(other, *arrays):
        return calor.exp(other), function(*arrays)

    both(monkeypatch, device_with(DEAR), two, floats(7, 9), *given)


# Without matrix instructions products have shared memory of one kind.
PLAIN = replace(DEAR, features=DEAR.features - {"matrix", "async_copy"})


def test_gradients_of_a_product_are_one_launch(monkeypatch):
    """Both products, and the sum of a bias, whose last cubes count the others."""

    def gradients(x, w, g):
        return g @ w.T, x.T @ g, g.sum(axis=0)

    given = floats(24, 40), floats(40, 136), floats(24, 136)
    before, after = both(monkeypatch, device_with(PLAIN), gradients, *given)
    assert sum(before.values()) - sum(after.values()) >= 1
    assert sum("matmul" in part for label in after for part in label.split(" + ")) >= 2


def test_equal_work_of_several_launches_shares_all_of_them(monkeypatch):
    """Where two products do not fit a launch of unlike work, one beside elements saves less."""
    fit = common_launches._fit

    def one_product(every, info):
        return sum("matmul" in launch.label for launch in every) < 2 and fit(every, info)

    monkeypatch.setattr(common_launches, "_fit", one_product)

    def two(x, g, h, y):
        return x.T @ g, x.T @ h, calor.exp(y)

    given = floats(600, 24), floats(600, 16, seed=1), floats(600, 16, seed=2), floats(7, 9)
    # Its products have a launch of parts and one that adds them.
    info = replace(PLAIN, features=PLAIN.features - {"together"})
    before, after = both(monkeypatch, device_with(info), two, *given)
    assert sum(before.values()) == 5
    assert sum(after.values()) == 3
    assert sum(" x 2" in label for label in after) == 2


def test_a_smaller_cube_ends_before_the_barriers_of_a_larger(monkeypatch):
    """Where units may end early, cubes of 128 units and of fewer are one launch."""

    def three(x, w, y):
        return x @ w, y.sum(axis=0), calor.softmax(y, axis=-1)

    given = floats(24, 40), floats(40, 136), floats(33, 70)
    left = {}
    for name in ("", "early_exit"):
        info = replace(PLAIN, features=PLAIN.features | {name} - {""})
        _, after = both(monkeypatch, device_with(info), three, *given)
        left[name] = sum(after.values())
    assert left["early_exit"] < left[""]


def test_shared_memory_is_that_of_one(monkeypatch):
    """Cubes of several products have about as much as those of the largest."""
    taken = []
    unlike = common_launches._unlike

    def watched(members, order):
        for launch in unlike(members, order):
            having = [m for m in members if order < len(m.work.launches)]
            builds = [launch.build, *(m.work.launches[order].build for m in having)]
            taken.append([build.kernel(PLAIN.features).shared_bytes for build in builds])
            yield launch

    monkeypatch.setattr(common_launches, "_unlike", watched)

    def products(x, w, g):
        return x @ w, x.T @ g

    both(monkeypatch, device_with(PLAIN), products, floats(24, 40), floats(40, 136), floats(24, 13))
    (together, *alone), *_ = taken
    assert max(alone) <= together < sum(alone)


def test_gradients_of_queries_and_keys_are_one_launch(monkeypatch):
    """Two launches of one work do not wait for each other, and those that do stay apart."""
    function, given = FAMILIES["attention gradients"][0], (floats(1, 2, 70, 16),) * 2
    info = replace(PLAIN, features=PLAIN.features | {"early_exit"})
    before, after = both(monkeypatch, device_with(info), function, *given)
    (joined,) = (label for label in after if "query_gradient" in label)
    assert "key_gradient" in joined
    assert joined not in before


def test_chunks_of_a_convolution_overlap(monkeypatch):
    """The sums of a chunk are transformed beside the tiles of the next one."""
    monkeypatch.setattr(winograd_plan, "BOUND", 1 << 18)
    monkeypatch.setattr(winograd_launch, "_direct", lambda one: float("inf"))

    def layer(x, w):
        return calor.nn.functional.conv2d(x, w, padding=1)

    given = floats(3, 64, 8, 8), floats(64, 64, 3, 3)
    _, after = both(monkeypatch, device_with(PLAIN), layer, *given)
    assert after["conv sums transformed + conv tiles transformed"] >= 1


def test_parts_of_a_large_value_are_copied_in_one_launch(monkeypatch):
    """A part is no state that is written in place, however large what it is a part of."""
    monkeypatch.setattr(side_by_side, "_COPIED", 100)

    def parts(x):
        return x[:9], x[9:20], x[20:]

    before, after = both(monkeypatch, device_with(DEAR), parts, floats(40, 90))
    assert (sum(before.values()), sum(after.values())) == (3, 1)


def test_equal_work_of_short_plans_is_one_launch(monkeypatch):
    """Of works that are too long to be beside others, equal ones are one launch."""
    monkeypatch.setattr(common_launches, "_SHORT_BYTES", 100)

    def sums(x, y):
        return x.sum(axis=1), y.sum(axis=1)

    before, after = both(
        monkeypatch, device_with(DEAR), sums, floats(70, 90), floats(70, 90, seed=1)
    )
    assert (sum(before.values()), sum(after.values())) == (2, 1)


@pytest.mark.parametrize(
    "info",
    [MANY_UNITS, replace(DEAR, features=DEAR.features - {"pointers"}), replace(DEAR, arguments=8)],
)
def test_left_alone(monkeypatch, info):
    """Where launches are cheap, buffers cannot be chosen, or arguments are few."""
    before, after = both(monkeypatch, device_with(info), moved, *SQUARE)
    assert before == after


@pytest.mark.parametrize("limit", ["_SHORT_BYTES", "_TEXT", "_SHORT_TEXT"])
def test_long_work_is_left_alone(monkeypatch, limit):
    monkeypatch.setattr(common_launches, limit, 10)
    before, after = both(monkeypatch, device_with(DEAR), moved, *SQUARE)
    assert before == after


def test_state_is_written_in_place(monkeypatch):
    """What one launch overwrites, another in the same launch does not read."""
    state, x = floats(64), floats(64, seed=1)
    for beside in ("0", "1"):
        monkeypatch.setenv("CALOR_BESIDE", beside)
        device = device_with(DEAR)
        with calor.device(device):
            held = calor.asarray(state)
            given = calor.asarray(x)

            @calor.jit
            def step(given):
                nonlocal held
                read = calor.sin(held) * 2
                held += given
                return read, given.sum(axis=0)

            for _ in range(3):
                read, total = step(given)
            found = [np.array(t.numpy()) for t in (read, total, held)]
        if beside == "0":
            expected = found
    assert [a.tobytes() for a in expected] == [b.tobytes() for b in found]


ROWS, PLACES = floats(9, 6), np.array([3, 0, 8, 3], np.int64)
OTHERS = np.array([7, 1, 8, 2], np.int64)


def looked_up(x, i, y):
    return calor.take(x, i, axis=0), calor.exp(y)


def looked_up_twice(x, i, j):
    return calor.take(x, i, axis=0), calor.take(x, j, axis=0)


def looked_up_elsewhere(x, i, y):
    return calor.take(x, i, axis=0), calor.take(y, i, axis=0)


def embedded(x, i, g):
    """Rows, and the gradient of a table, which begins with zeros."""
    rows = calor.take(x, i, axis=0)
    return rows, calor.grad(lambda table: calor.sum(calor.take(table, i, axis=0) * g))(x)


# A function, its operands, the launches by themselves and together, and a place that is outside.
FALLIBLE = {
    "beside elements": (looked_up, (ROWS, PLACES, SQUARE[0]), 2, 1, 9),
    "one table": (looked_up_twice, (ROWS, PLACES, OTHERS), 2, 2, -10),
    "tables of two sizes": (looked_up_elsewhere, (ROWS, PLACES, floats(12, 6)), 2, 2, 9),
    "zeros of a gradient": (embedded, (ROWS, PLACES, floats(4, 6, seed=1)), 3, 2, 9),
}


@pytest.mark.parametrize("name", FALLIBLE)
def test_work_that_may_fail_tells_the_same_together(monkeypatch, name):
    function, arrays, launches, left, outside = FALLIBLE[name]
    device = device_with(DEAR)
    before, after = both(monkeypatch, device, function, *arrays)
    assert (sum(before.values()), sum(after.values())) == (launches, left), (before, after)
    for number in [n for n, array in enumerate(arrays) if array.dtype == np.int64]:
        wrong = [array.copy() for array in arrays]
        wrong[number][2] = outside
        told = []
        for beside in "01":
            monkeypatch.setenv("CALOR_BESIDE", beside)
            with pytest.raises(ElementIndexError) as error:
                run(device, function, *wrong)
            told.append((str(error.value), error.value.op, error.value.index, error.value.size))
        assert told[0] == told[1]
        # The next call has a word of zero.
        run(device, function, *arrays)


@pytest.mark.parametrize("further", [0, 1])
def test_a_failure_is_that_of_its_own_results(further):
    """What shares a launch, a group or only an op with work that fails is read."""
    with calor.device(device_with(DEAR)):
        rows, y, sound = calor.asarray(ROWS), calor.asarray(SQUARE[0]), calor.asarray(OTHERS)
        wrong = PLACES.copy()
        wrong[2] = 9
        others = [
            calor.take(rows, sound, axis=0) + 1, rows * 2, calor.take(rows, sound, axis=0),
            calor.exp(y),
        ]  # fmt: skip
        failed = calor.take(rows, calor.asarray(wrong), axis=0) + further
        with pytest.raises(ElementIndexError, match="index 9"):
            failed.numpy()
        wanted = [ROWS[OTHERS] + 1, ROWS * 2, ROWS[OTHERS], np.exp(SQUARE[0])]
        for got, want in zip(others, wanted, strict=True):
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-5)
