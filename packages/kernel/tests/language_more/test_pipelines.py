"""Pipelines of every kind do the same, and what is looked at too early is found on lanes."""

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from calor.dtypes import float32, int64
from calor_interpreter.launch import run_on_lanes
from calor_interpreter.verify import verify
from calor_kernel.errors import KernelCheckError, KernelTypeError, VerificationError
from calor_kernel.language import (
    Buffer,
    Scalar,
    barrier,
    kernel,
    loop_range,
    private,
    role,
    shared,
    unit_index,
    unravel,
)
from calor_kernel.language.layouts import Layout, Swizzle, Swizzled
from calor_kernel.language.pipelines import Pipeline, Tile
from calor_kernel.language.tensor_maps import Mbarriers, tensor_map, wait_puts

ROWS, COLUMNS, UNITS = 8, 16, 64
FEATURES = {
    "direct": frozenset[str](),
    "stores": frozenset({"barrier"}),
    "async": frozenset({"barrier", "async_copy"}),
    "engine": frozenset({"barrier", "async_copy", "tensor_copy", "mbarrier"}),
}
HOWS = list(FEATURES)
SIZE = Scalar(int64, nonnegative=True)
BUFFERS = [Buffer(float32, align=64), Buffer(float32)]


def units_of(how: str, units: int = UNITS) -> dict[str, Any]:
    one = how == "direct"
    return {
        "cube": (1 if one else units, 1, 1),
        "plane": 1 if one else 8,
        "features": FEATURES[how],
    }


@kernel
def summed(x, y, n, m, *, stages, at, early):
    """y[i] = the sum of row i of x, and twice that of the row below, by tiles of 8 x 16."""
    across = tensor_map(x, (8, n), (m, 1), (8, 16), at)
    pipe = Pipeline(stages, Tile(float32, at))
    ahead = stages - 1
    for t in range(ahead):
        pipe.acquire()
        if t * 16 < n:
            pipe.copy_box(0, across, (0, t * 16))
        pipe.commit()
    unit = unit_index()
    total = 0.0
    for t in range(0, n, 16):
        if ahead > 0:
            pipe.wait()
        if early:
            pipe.acquire()
            if t + ahead * 16 < n:
                pipe.copy_box(0, across, (0, t + ahead * 16))
            pipe.commit()
        if ahead == 0:
            pipe.wait()
        tile = pipe.stage(0)
        row = unit % 8
        for c in range(16):
            total = total + tile[at(row, c)] + 2.0 * tile[at((row + 1) % 8, c)]
        pipe.release()
        if not early:
            pipe.acquire()
            if t + ahead * 16 < n:
                pipe.copy_box(0, across, (0, t + ahead * 16))
            pipe.commit()
    if unit < 8:
        y[unit] = total


@kernel
def summed_alone(x, y, n, m, *, stages, at, early):
    """The same for one unit, which does every row."""
    across = tensor_map(x, (8, n), (m, 1), (8, 16), at)
    pipe = Pipeline(stages, Tile(float32, at))
    totals = private(8, float32)
    for row in range(8):
        totals[row] = 0.0
    for t in range(0, n, 16):
        pipe.acquire()
        pipe.copy_box(0, across, (0, t))
        pipe.commit()
        pipe.wait()
        tile = pipe.stage(0)
        for row in range(8):
            for c in range(16):
                below = (row + 1) % 8
                totals[row] = totals[row] + tile[at(row, c)] + 2.0 * tile[at(below, c)]
        pipe.release()
    for row in range(8):
        y[row] = totals[row]


AT = Swizzled(Swizzle(2, 2, 3), Layout.rows(8, 16))


@pytest.mark.parametrize("n", [0, 16, 40, 96])
@pytest.mark.parametrize(
    ("stages", "early"), [(1, True), (2, True), (2, False), (3, True), (3, False)]
)
@pytest.mark.parametrize("how", HOWS)
def test_every_way_gives_the_same(how: str, stages: int, n: int, early: bool) -> None:
    m = 104
    x = np.random.default_rng(n).integers(-9, 9, (ROWS, m)).astype(np.float32)
    y = np.zeros(ROWS, np.float32)
    chosen = summed_alone if how == "direct" else summed
    built = chosen.build([*BUFFERS, SIZE, SIZE], stages=stages, at=AT, early=early, **units_of(how))
    run_on_lanes(verify(built), (1, 1, 1), [x, y, n, m])
    rows = x[:, :n].sum(1)
    np.testing.assert_array_equal(y, rows + 2 * np.roll(rows, -1))
    names = [o.name for o in built.body.walk()]
    assert ("copy_async" in names) == (how == "async")
    assert ("copy_tensor" in names) == (how == "engine")


def test_a_copy_before_the_work_needs_one_barrier_a_round() -> None:
    for early, count in ((True, 1), (False, 2)):
        options = {"stages": 3, "at": AT, "early": early, **units_of("async")}
        built = summed.build([*BUFFERS, SIZE, SIZE], **options)
        (loop,) = [o for o in built.body.operations if o.name == "for"]
        assert [o.name for o in loop.regions[0].walk()].count("barrier") == count


@pytest.mark.parametrize(
    ("divisible", "widths"), [(1, {1}), (2, {2}), (4, {4})], ids=["1", "2", "4"]
)
def test_copies_are_as_wide_as_is_known(divisible: int, widths: set[int]) -> None:
    size = Scalar(int64, divisible=divisible, nonnegative=True)
    options = {"stages": 2, "at": AT, "early": True, **units_of("async")}
    built = summed.build([*BUFFERS, size, size], **options)
    found = {o.attributes["elements"] for o in built.body.walk() if o.name == "copy_async"}
    assert found == widths
    x = np.ones((ROWS, 104), np.float32)
    y = np.zeros(ROWS, np.float32)
    run_on_lanes(built, (1, 1, 1), [x, y, 40, 104])
    assert (y == 120).all()


@kernel
def stored_behind(x, y, n, *, stages, branched):
    """Sums of neighbours of rows of 32, of which each unit copies one element."""
    at = Layout((32,))
    unit = unit_index()
    pipe = Pipeline(stages, Tile(float32, at), how="stores")

    def take(row):
        if branched:
            if unit + row >= 0:
                pipe.copy(0, unit, x, row * 32 + unit, 1, row < n)
        else:
            pipe.copy(0, unit, x, row * 32 + unit, 1, row < n)

    for ahead in range(stages - 1):
        pipe.acquire()
        take(ahead)
        pipe.commit()
    for row in loop_range(0, n):
        pipe.wait()
        pipe.acquire()
        take(row + stages - 1)
        pipe.commit(later=True)
        y[row * 32 + unit] = pipe.stage(0)[unit] + pipe.stage(0)[(unit + 1) % 32]
        pipe.release()


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("branched", [False, True])
def test_what_is_loaded_is_stored_behind_the_work(stages: int, branched: bool) -> None:
    options = {"stages": stages, "branched": branched, **units_of("stores", 32)}
    built = stored_behind.build([Buffer(float32), Buffer(float32), SIZE], **options)
    x = np.arange(5 * 32, dtype=np.float32).reshape(5, 32) ** 2
    y = np.zeros_like(x)
    run_on_lanes(built, (1, 1, 1), [x.ravel(), y.reshape(-1), 5])
    np.testing.assert_array_equal(y, x + np.roll(x, -1, axis=1))
    (loop,) = (o for o in built.body.walk() if o.name == "for")
    order = [o.name for o in loop.regions[0].operations if o.memory is not None]
    # The load of a later row comes before the work, and its store after it.
    assert branched or (order.index("load"), order[-1]) == (0, "store")


@kernel
def in_roles(x, y, n, m, *, stages, how, mistake):
    """Units 0 to 31 copy tiles for units 32 to 63, which add them up as ``summed`` does."""
    at = Layout.rows(8, 16)
    across = tensor_map(x, (8, n), (m, 1), (8, 16), at)
    pipe = Pipeline(stages, Tile(float32, at), producers=(0, 32), consumers=(32, 32), how=how)
    with role(0, registers=40):
        for t in range(0, n, 16):
            if mistake != "acquire":
                pipe.acquire()
            pipe.copy_box(0, across, (0, t))
            pipe.commit()
    with role(1, registers=200):
        total = 0.0
        row = unit_index() % 8
        for _t in range(0, n, 16):
            if mistake != "wait":
                pipe.wait()
            tile = pipe.stage(0)
            for c in range(16):
                total = total + tile[at(row, c)] + 2.0 * tile[at((row + 1) % 8, c)]
            if mistake != "release":
                pipe.release()
        if unit_index() < 40:
            y[unit_index() - 32] = total


def run_roles(how: str, mistake: str = "", n: int = 88) -> tuple[Any, Any]:
    m = 104
    x = np.random.default_rng(3).integers(-9, 9, (ROWS, m)).astype(np.float32)
    y = np.zeros(ROWS, np.float32)
    options = {"stages": 2, "how": how, "mistake": mistake, **units_of("engine")}
    built = verify(in_roles.build([*BUFFERS, SIZE, SIZE], **options))
    run_on_lanes(built, (1, 1, 1), [x, y, n, m])
    rows = x[:, :n].sum(1)
    return y, rows + 2 * np.roll(rows, -1)


@pytest.mark.parametrize("how", ["engine", "direct"])
def test_roles_hand_over_stages(how: str) -> None:
    np.testing.assert_array_equal(*run_roles(how))


@pytest.mark.parametrize("how", ["engine", "direct"])
@pytest.mark.parametrize("mistake", ["acquire", "wait", "release"])
def test_mistakes_between_roles_are_found(how: str, mistake: str) -> None:
    with pytest.raises(KernelCheckError) as caught:
        run_roles(how, mistake)
    assert caught.value.rule in {"race", "pending", "barrier", "uninitialized"}


@kernel
def careless(x, y, n, m, *, mistake):
    """A pipeline of which a step is left out."""
    at = Layout.rows(8, 16)
    across = tensor_map(x, (8, n), (m, 1), (8, 16), at)
    pipe = Pipeline(3, Tile(float32, at))
    for t in range(2):
        pipe.acquire()
        pipe.copy_box(0, across, (0, t * 16))
        pipe.commit()
    if mistake == "wait":
        barrier()
    if mistake == "pending":
        pipe.wait(pending=2)
    if mistake == "overwrite":
        pipe.wait()
        for t in range(2):
            pipe.acquire()
            pipe.copy_box(0, across, (0, 32 + t * 16))
            pipe.commit()
    tile = pipe.stage(0)
    y[unit_index()] = tile[unit_index()]


@pytest.mark.parametrize("mistake", ["wait", "pending", "overwrite"])
def test_nothing_is_visible_before_the_wait(mistake: str) -> None:
    x, y = np.ones((ROWS, 64), np.float32), np.zeros(UNITS, np.float32)
    built = careless.build([*BUFFERS, SIZE, SIZE], mistake=mistake, **units_of("async"))
    with pytest.raises(KernelCheckError, match="on the way to it"):
        run_on_lanes(built, (1, 1, 1), [x, y, 64, 64])


@kernel
def counted(y, *, arrivals, expected):
    """Unit 0 writes, arrives and the others wait for it."""
    held = shared(1, float32)
    gate = Mbarriers(1, arrivals)
    if unit_index() == 0:
        held[0] = 5.0
        if expected > 0:
            gate.expect(0, expected)
        gate.arrive(0)
    gate.wait(0, 0)
    y[unit_index()] = held[0]


def run_counted(arrivals: int, expected: int) -> Any:
    y = np.zeros(16, np.float32)
    options = {"arrivals": arrivals, "expected": expected, **units_of("engine", 16)}
    run_on_lanes(counted.build([Buffer(float32)], **options), (1, 1, 1), [y])
    return y


def test_barriers_in_memory_order_units() -> None:
    assert (run_counted(1, 0) == 5).all()


@pytest.mark.parametrize(
    ("arrivals", "expected", "message"),
    [
        (2, 0, "has 1 of 2 arrivals and waits for 0 bytes"),
        (1, 64, "has 1 of 1 arrivals and waits for 64 bytes"),
        (0, 0, "1 arrive at barrier 0, where a phase has 0"),
    ],
)
def test_barriers_that_nobody_completes(arrivals: int, expected: int, message: str) -> None:
    with pytest.raises(KernelCheckError, match=message):
        run_counted(arrivals, expected)


def refused(how: str, position: Any, built: Any, arguments: Any) -> bool:
    """Run a kernel, and return whether lanes refuses its box.

    Units copy from and to any position, the copy engine multiples of 16 bytes.
    """
    unaligned = how == "engine" and position[1] % 4 != 0
    fails = pytest.raises(KernelCheckError, match="no multiple of 16 bytes")
    with fails if unaligned else nullcontext():
        run_on_lanes(verify(built), (1, 1, 1), arguments)
    return unaligned


@kernel
def placed(x, y, n, *, box, position, sizes, strides):
    """y = the box at a position, in shared memory and out again."""
    box_map = tensor_map(x, sizes or (n, n), strides or (n, 1), box)
    pipe = Pipeline(1, Tile(float32, Layout.rows(*box)))
    pipe.acquire()
    pipe.copy_box(0, box_map, position)
    pipe.commit()
    pipe.wait()
    count = Layout.rows(*box).size
    tile = pipe.stage(0)
    for i in range(0, count, 16):
        if unit_index() + i < count:
            y[unit_index() + i] = tile[unit_index() + i]


@pytest.mark.parametrize("how", ["stores", "async", "engine"])
@pytest.mark.parametrize(
    ("box", "position"),
    [
        ((4, 8), (0, 0)),
        ((4, 8), (-2, -3)),
        ((4, 8), (-2, -4)),
        ((4, 4), (9, 8)),
        ((2, 2), (20, -9)),
        ((3, 5), (1, 2)),
    ],
)
def test_outside_of_a_tensor_there_are_zeros(how: str, box: Any, position: Any) -> None:
    n = 10
    x = np.arange(1, n * n + 1, dtype=np.float32).reshape(n, n)
    y = np.full(box, -1, np.float32)
    options = {"box": box, "position": position, "sizes": None, "strides": None}
    built = placed.build([*BUFFERS, SIZE], **options, **units_of(how, 16))
    if refused(how, position, built, [x, y, n]):
        return
    wide = np.pad(x, 32)[32 + position[0] :, 32 + position[1] :]
    np.testing.assert_array_equal(y, wide[: box[0], : box[1]])


@kernel
def put_back(x, y, n, *, position, at, early):
    """The box of y at a position = x, by way of shared memory."""
    out = tensor_map(y, (n, n), (n, 1), (4, 8), at)
    tile = shared(at.cosize, float32, align=128)
    for i in range(0, 32, 16):
        row, column = unravel(unit_index() + i, (4, 8))
        tile[at(row, column)] = x[unit_index() + i]
    barrier()
    out.put(tile, position, unit_index(), 16)
    if early and unit_index() == 0:
        tile[0] = 7.0
    wait_puts()


@pytest.mark.parametrize("how", ["stores", "engine"])
@pytest.mark.parametrize("position", [(0, 0), (3, 1), (-2, -3), (8, 6), (-2, -4), (8, 4)])
def test_boxes_are_put_where_the_tensor_is(how: str, position: Any) -> None:
    n = 10
    x = np.arange(1, 33, dtype=np.float32).reshape(4, 8)
    y = np.zeros((n, n), np.float32)
    for at in (Layout.rows(4, 8), Swizzled(Swizzle(1, 2, 3), Layout.rows(4, 8))):
        y[:] = 0
        options = {"position": position, "at": at, "early": False, **units_of(how, 16)}
        if refused(how, position, put_back.build([*BUFFERS, SIZE], **options), [x, y, n]):
            continue
        wide = np.zeros((n + 64, n + 64), np.float32)
        wide[32 + position[0] :, 32 + position[1] :][:4, :8] = x
        np.testing.assert_array_equal(y, wide[32:-32, 32:-32])


def test_what_is_put_stays_as_it_is_until_the_wait() -> None:
    x, y = np.ones((4, 8), np.float32), np.zeros((10, 10), np.float32)
    options = {"position": (0, 0), "at": Layout.rows(4, 8), "early": True, **units_of("engine", 16)}
    built = put_back.build([*BUFFERS, SIZE], **options)
    with pytest.raises(KernelCheckError, match="its source was written before the copy"):
        run_on_lanes(built, (1, 1, 1), [x, y, 10])


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("copy_tensor", {"operands": ()}, "it takes two indices, and a position"),
        ("copy_tensor", {"attributes": {"barrier": None}}, "None, which is no barrier"),
        ("copy_tensor", {"attributes": {"source": None}}, "it copies from None"),
        ("mbarrier_wait", {"memory": "x"}, "holds no barriers"),
        ("mbarrier_init", {"memory": None}, "its memory is None"),
    ],
)
def test_broken_operations_are_refused(name: str, change: Any, message: str) -> None:
    options = {"box": (4, 8), "position": (0, 0), "sizes": None, "strides": None}
    built = placed.build([*BUFFERS, SIZE], **options, **units_of("engine", 16))
    found = next(o for o in built.body.walk() if o.name == name)
    found.attributes = {**found.attributes, **change.get("attributes", {})}
    found.operands = found.operands[:1] if "operands" in change else found.operands
    if "memory" in change:
        found.memory = built.parameters[0].memory if change["memory"] else None
    with pytest.raises(VerificationError, match=message):
        verify(built)


def test_descriptors_name_arguments() -> None:
    options = {"box": (4, 8), "position": (0, 0), "sizes": (10, 12), "strides": None}
    built = placed.build([*BUFFERS, SIZE], **options, **units_of("engine", 16))
    (copy,) = [o for o in built.body.walk() if o.name == "copy_tensor"]
    found = copy.attributes["map"]
    assert (found.name, found.sizes, found.strides, found.box) == ("x", (10, 12), ("n", 1), (4, 8))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"box": (4,)}, "1 to 5 sizes, and as many strides"),
        ({"box": (512, 8)}, "at most 256 elements a side"),
        ({"box": (4, 8), "strides": (1, 10)}, "last stride of a tensor map is 1"),
    ],
)
def test_maps_that_no_device_has(options: Any, message: str) -> None:
    options = {"position": (0, 0), "sizes": None, "strides": None, **options}
    with pytest.raises(KernelTypeError, match=message):
        placed.build([*BUFFERS, SIZE], **options, **units_of("engine", 16))


@kernel
def chosen(x, *, keywords):
    Pipeline(2, Tile(float32, Layout.rows(4, 4)), **keywords)


@pytest.mark.parametrize(
    ("how", "keywords", "message"),
    [
        ("stores", {"how": "async"}, "needs the feature 'async_copy'"),
        ("async", {"how": "direct"}, "for a single unit"),
        ("engine", {"how": "async", "consumers": (0, 32)}, "roles copy by 'engine' or 'direct'"),
        ("engine", {"consumers": (0, 12)}, "whole planes of 8"),
        ("stores", {"how": "direct", "consumers": (0, 32)}, "no barriers in memory"),
    ],
)
def test_ways_that_do_not_fit(how: str, keywords: Any, message: str) -> None:
    with pytest.raises(KernelTypeError, match=message):
        chosen.build([Buffer(float32)], keywords=keywords, **units_of(how))


@kernel
def some_copy(x, y, n):
    """y = x, in steps of as many elements as half of the units copy."""
    pipe = Pipeline(2, Tile(float32, Layout((UNITS // 2,), (1,))))
    unit, half = unit_index(), UNITS // 2

    def take(at: Any) -> None:
        pipe.copy(0, unit, x, at + unit, 1, at + unit < n, among=unit < half)

    pipe.acquire()
    take(0)
    pipe.commit()
    for at in loop_range(0, n, half):
        pipe.wait()
        pipe.acquire()
        take(at + half)
        pipe.commit(later=True)
        if (unit < half) & (at + unit < n):
            y[at + unit] = pipe.stage(0)[unit]
        pipe.release()


@pytest.mark.parametrize("how", ["stores", "async"])
def test_some_units_copy(how: str) -> None:
    """A load that some units do is stored after the round's work, as those of all are."""
    made = some_copy.build([*BUFFERS, SIZE], **units_of(how))
    verify(made)
    x, y = np.arange(75, dtype=np.float32), np.zeros(75, np.float32)
    run_on_lanes(made, (1, 1, 1), [x, y, 75])
    np.testing.assert_array_equal(x, y)
    loop = next(o for o in made.body.walk() if o.name == "for")
    order = [o.name for o in loop.regions[0].walk() if o.name in ("load", "store", "copy_async")]
    # Of the loads, the first is that of the next step, and its store is the last of the round.
    assert order == (["load", "load", "store", "store"] if how == "stores" else order)
