"""Equal work in common launches: which is joined, and whether it computes the same bits."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.dtypes import float32, int32
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_interpreter.launch import run_on_lanes
from calor_interpreter.verify import verify
from calor_kernel import language as kl
from calor_kernel.contract.work import View
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.passes import optimize
from calor_kernel.ir.passes.beside import CUBES, Beside
from calor_kernel.ir.passes.cubes import COUNT, fold_cubes
from calor_kernel.language import Buffer, Scalar
from calor_kernel.planning import side_by_side
from calor_kernel.planning.common_launches import form_of
from calor_kernel.planning.planner import Planner
from calor_kernel.runtime.backend import KernelBackend

from ..library.test_many_cubes import FAMILIES


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Take plans of two tasks too."""
    monkeypatch.setattr(side_by_side, "_SHORT", 2)


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def device_with(info=MANY_UNITS, checks=True):
    make = lambda index: LanesDevice(info, checks=checks)  # noqa: E731
    return device_of(KernelBackend("beside", make, fusers=()), 0)


def run(device, function, *arrays):
    """Return the results of one graph, and the plan."""
    with calor.device(device):
        graph = calor.trace(function, *map(calor.asarray, arrays))
    backend = device.backend
    plan = backend.compile(0, graph)
    made = plan([backend.upload(0, array) for array in arrays])
    pairs = zip(made, graph.output_specs, strict=True)
    return [np.array(backend.download(0, b, s)) for b, s in pairs], plan


def labels(plan):
    return Counter(la.launch.label for one in plan.base.recording.launches for la in one)


def both(monkeypatch, device, function, *arrays):
    """Return the launches by themselves and together, after a comparison of the results."""
    monkeypatch.setenv("CALOR_BESIDE", "0")
    alone, before = run(device, function, *arrays)
    monkeypatch.setenv("CALOR_BESIDE", "1")
    beside, after = run(device, function, *arrays)
    assert [a.tobytes() for a in alone] == [b.tobytes() for b in beside]
    return labels(before), labels(after)


X, A, B, C = floats(40, 24), floats(24, 16, seed=1), floats(24, 16, seed=2), floats(24, 16, seed=3)
LONG = floats(600, 24, seed=4), floats(600, 16, seed=5), floats(600, 16, seed=6)
WIDE = floats(3000, 8, seed=7), floats(3000, 8, seed=8)
DEEP = floats(3, 8, 8, seed=9), floats(3, 8, 8, seed=10)
SQUARE = floats(16, 16), floats(16, 16, seed=1)


def crossing(x, y):
    """Each pair of equal ops is independent, and both pairs together are not."""
    late = calor.sin(y + y.sum(axis=0))
    return calor.sin(x).sum(axis=0), late


# A function, its operands, and the launches that are of several.
JOINED = {
    "products of one operand": (lambda x, a, b, c: (x @ a, x @ b, x @ c), (X, A, B, C), 1),
    "sums of parts": (lambda x, g, h: (x.T @ g, x.T @ h), LONG, 2),
    "columns, by several cubes": (lambda x, y: (x.sum(axis=0), y.sum(axis=0)), WIDE, 1),
    "several cubes along z": (lambda x, y: (x @ x, x @ y, y @ y), DEEP, 1),
    "copies": (lambda x, y: (x.T, y.T), SQUARE, 1),
    "copies of other sizes": (lambda x, y: (x.T, y[:, :9].T, y[4:].T), SQUARE, 1),
    "one after another": (lambda x, a: x @ a @ a, SQUARE, 0),
    "other sizes": (lambda x, y: (x[:5].sum(axis=0), y.sum(axis=0)), SQUARE, 0),
    "parts of one operand": (lambda x, y: (calor.sin(x[:8]), calor.sin(x[8:])), SQUARE, 1),
    "crossing": (crossing, SQUARE, 1),
}


@pytest.mark.parametrize("name", JOINED)
def test_joined(monkeypatch, name):
    function, arrays, joined = JOINED[name]
    before, after = both(monkeypatch, device_with(), function, *arrays)
    found = [label for label in after if " x " in label]
    assert len(found) == joined, after
    assert not [label for label in before if " x " in label]


FEW = [("pool", True), ("reduce columns", True)]
NAMES = ["reduce columns", "softmax", "look-back", "pool", "attention gradients", "sort"]


@pytest.mark.parametrize(("name", "few"), [*((name, False) for name in NAMES), *FEW])
def test_families(monkeypatch, name, few):
    """Three times the same work of each family, also where cubes of z are folded."""
    function, given = FAMILIES[name]
    given = [array[: max(2, len(array) // 4)] if array.shape[0] > 1 else array for array in given]
    count = len(given)
    info = replace(MANY_UNITS, max_cubes=(3, 1 << 20, 1)) if few else MANY_UNITS

    def three(*arrays):
        return [function(*arrays[k : k + count]) for k in range(0, 3 * count, count)]

    arrays = [array * k for k in (1, 2, 3) for array in given]
    before, after = both(monkeypatch, device_with(info, checks=not few), three, *arrays)
    assert sum(after.values()) < sum(before.values())


def test_devices_that_launch_each_by_itself(monkeypatch):
    function, arrays, _ = JOINED["products of one operand"]
    for info in (
        replace(MANY_UNITS, features=MANY_UNITS.features - {"pointers"}),
        replace(MANY_UNITS, arguments=8),
    ):
        before, after = both(monkeypatch, device_with(info), function, *arrays)
        assert before == after


def test_short_plans_compile_no_other_kernels(monkeypatch):
    monkeypatch.setattr(side_by_side, "_SHORT", 4)
    function, arrays, _ = JOINED["products of one operand"]
    before, after = both(monkeypatch, device_with(), function, *arrays)
    assert before == after


def test_arguments_are_limited(monkeypatch):
    info = replace(MANY_UNITS, arguments=28)

    def many(x, *weights):
        return [x @ w for w in weights]

    weights = [floats(24, 16, seed=k) for k in range(9)]
    _, after = both(monkeypatch, device_with(info), many, X, *weights)
    assert 1 < sum(after.values()) < 9


def test_values_do_not_wait(monkeypatch):
    """A sum beside a much later one keeps its operand alive."""
    monkeypatch.setattr(side_by_side, "_WAITING", (0,))

    def chain(x):
        sums = []
        for _ in range(4):
            x = calor.sin(x)
            sums.append(x.sum(axis=0))
        return sums

    before, after = both(monkeypatch, device_with(), chain, WIDE[0])
    assert before == after


def test_dependences_are_those_of_members():
    """A result fails with its own operands, not with those of its neighbours."""
    device = device_with()
    with calor.device(device):
        function = JOINED["columns, by several cubes"][0]
        graph = calor.trace(function, *map(calor.asarray, WIDE))
    engine = device.backend.engine(0)
    draft = Planner(engine.lowerings, graph).draft()
    works = [task.works[0] for task in draft.tasks]
    made, _ = side_by_side.side_by_side(draft, works, MANY_UNITS)
    assert len(made.tasks) < len(draft.tasks)
    assert [sorted(inputs) for inputs, _ in made.dependences(())] == [[0], [1]]


@pytest.mark.parametrize(
    ("one", "other", "same"), [(1.0, 1.0, True), (0.0, -0.0, False), (1, True, False)]
)
def test_forms_are_exact(one, other, same):
    engine, view = device_with().backend.engine(0), View.dense(spec((8, 4), float32))
    (work,) = engine.lowerings.ask("sum", {"axes": (0,)}, (view,), (spec((4,), float32),))
    (launch,) = work.launches

    def form(number):
        made = replace(launch, arguments=(*launch.arguments[:-1], number))
        return form_of(replace(work, launches=(made,)), MANY_UNITS)

    assert (form(one) == form(other)) is same


@kl.kernel
def note_cubes(x, y, n):
    """Write each cube's place of z, the number of them, and an element that all units share."""
    z, count = kl.cube_position(2), kl.cube_count(2)
    memory = kl.shared(1, x.dtype)
    if kl.unit_index() == 0:
        memory[0] = x[z]
    kl.barrier()
    if kl.unit_index() < n:
        place = z * n + kl.unit_index()
        y[place] = memory[0] * 100 + (z * 10 + count).to(y.dtype)


@pytest.mark.parametrize(("count", "deep"), [(1, 1), (2, 1), (3, 2), (2, 5)])
@pytest.mark.parametrize("apart", [(0, 1), (1,)])
def test_kernels(count, deep, apart):
    beside = Beside(count, apart, deep > 1)
    signature = [Buffer(int32, writable=False), Buffer(int32), Scalar(calor.int64, 1, True)]
    built = note_cubes.build(signature, cube=(4, 1, 1))
    made = verify(optimize(beside.kernel(built)))
    assert [p.declared for p in made.parameters] == list(beside.spread(signature))
    xs = [np.arange(deep, dtype=np.int32) + 7 * k for k in range(count if 0 in apart else 1)]
    ys = [np.zeros(deep * 3, np.int32) for _ in range(count)]
    run_on_lanes(made, (1, 1, count * deep), [*xs, *ys, 3])
    for k, y in enumerate(ys):
        z = np.arange(deep)
        want = xs[k if 0 in apart else 0][z] * 100 + z * 10 + deep
        np.testing.assert_array_equal(y.reshape(deep, 3), np.repeat(want[:, None], 3, 1))


@kl.kernel
def note_places(x, y, across):
    """Write each cube's place and the cubes of all axes, an element of x and a number.

    The number has the name of a place.
    """
    place = kl.cube_position(0)
    place = place + kl.cube_count(0) * (
        kl.cube_position(1) + kl.cube_count(1) * kl.cube_position(2)
    )
    memory = kl.shared(1, x.dtype)
    if kl.unit_index() == 0:
        memory[0] = x[place]
    kl.barrier()
    if kl.unit_index() < 8:
        counts = (kl.cube_count(0) * 10 + kl.cube_count(1)) * 10 + kl.cube_count(2)
        number = memory[0] * 100_000 + (counts * 10 + across).to(y.dtype)
        y[place * 8 + kl.unit_index()] = number


ALONG = {
    "one": [(3, 1, 1)],
    "two": [(3, 1, 1), (2, 1, 1)],
    "many": [(1, 1, 1), (4, 1, 1), (2, 1, 1)],
    "of several axes": [(2, 3, 1), (1, 1, 1), (1, 2, 3), (2, 1, 2)],
}


@pytest.mark.parametrize("room", [0, 2])
@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("name", ALONG)
def test_kernels_along(name, folded, room):
    """Launches of other cubes and numbers; ``room``: for launches that there are not."""
    cubes, deep = ALONG[name], name == "of several axes"
    count = len(cubes) + room
    beside = Beside(count, (0, 1, 2), deep, along=True)
    signature = [Buffer(int32, writable=False), Buffer(int32), Scalar(calor.int64, 1, True)]
    built = note_places.build(signature, cube=(8, 1, 1))
    made = beside.kernel(built)
    made = verify(optimize(fold_cubes(made) if folded else made))
    hidden = [CUBES] * beside.hidden + [COUNT] * 3 * folded
    assert [p.declared for p in made.parameters] == [*beside.spread(signature), *hidden]
    sizes = [int(np.prod(one)) for one in cubes]
    xs = [np.arange(n, dtype=np.int32) + 7 * k for k, n in enumerate(sizes)]
    ys = [np.zeros(n * 8, np.int32) for n in sizes]
    numbers = list(range(1, len(cubes) + 1))
    rows = [
        xs,
        ys,
        numbers,
        list(np.cumsum(sizes)),
        *(list(n) for n in [*zip(*cubes, strict=True)][: 2 * deep]),
    ]
    given = [value for row in rows for value in row + [row[-1]] * room]
    total = sum(sizes)
    grid = (-(-total // 2), 2, 1) if folded else (total, 1, 1)
    run_on_lanes(made, grid, given + [total, 1, 1] * folded)
    for k, (x, y, (a, b, c)) in enumerate(zip(xs, ys, cubes, strict=True)):
        want = x * 100_000 + ((a * 10 + b) * 10 + c) * 10 + k + 1
        np.testing.assert_array_equal(y.reshape(-1, 8), np.repeat(want[:, None], 8, 1))


def test_names_of_parameters_are_distinct():
    built = note_cubes.build([Buffer(int32), Buffer(int32), Scalar(calor.int64)], cube=(4, 1, 1))
    with pytest.raises(KernelTypeError, match="two parameters 'x'"):
        replace(built, parameters=(*built.parameters, built.parameters[0]))


def test_kernels_with_tensor_maps_are_refused():
    built = note_cubes.build([Buffer(int32), Buffer(int32), Scalar(calor.int64)], cube=(4, 1, 1))
    mapped = replace(built, attributes={"maps": (("x", (1,), (1,), (1,), None, False),)})
    with pytest.raises(KernelTypeError, match="note_cubes has tensor maps"):
        Beside(2, (0, 1), False).kernel(mapped)
