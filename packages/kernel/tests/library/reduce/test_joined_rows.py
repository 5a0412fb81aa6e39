"""Does a launch that joins the parts of its rows give the bits of a launch before it that does?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.dtypes import bfloat16, float16, float32, float64
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.ir.types import Buffer
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.library.reduce import RowFuser, joined_rows_launch, launches, program_launch
from calor_kernel.runtime.backend import KernelBackend

WIDE = replace(MANY_UNITS, max_units=1024, max_cube=(1024, 1024, 64), planes=(32,))
ALONE = replace(MANY_UNITS, planes=(1,), features=MANY_UNITS.features - {"planes"})


@pytest.fixture(autouse=True)
def short_parts(monkeypatch):
    """Divide rows that are short enough for lanes, and hold only shorter ones in registers."""
    monkeypatch.setattr(launches, "_LONGEST", 1 << 6)
    monkeypatch.setattr(program_launch, "_WHOLE", 1 << 13)
    monkeypatch.setattr(program_launch, "_LEAST", 1 << 12)
    monkeypatch.setattr(program_launch, "_ENOUGH_TEAMS", 24)


def _softmax(x):
    return (x * 2.0).softmax(axis=-1)


def _norm(x, w, b):
    mean = calor.mean(x, axis=-1, keepdims=True)
    centred = x - mean
    variance = calor.mean(centred * centred, axis=-1, keepdims=True)
    return centred / calor.sqrt(variance + 1e-5) * w + b, variance


def _along(x):
    return tuple(range(2, x.ndim))


def _batch_norm(x, w, b):
    y, mean, variance = calor.ops.composites.standardize(x, axes=(0, *_along(x)), eps=1e-5)
    shape = (-1, *(1 for _ in _along(x)))
    return calor.relu(y * w.reshape(shape) + b.reshape(shape)), mean * 0.1, variance * 0.1


def _both(x, y, w):
    """Two batch norms that are added, as beside a shortcut: more passes than two."""
    made = []
    for one in (x, y):
        z, mean, variance = calor.ops.composites.standardize(one, axes=(0, *_along(x)), eps=1e-5)
        made += [z, mean, variance]
    shape = (-1, *(1 for _ in _along(x)))
    return calor.relu(made[0] * w.reshape(shape) + made[3]), *made[1:3], *made[4:]


def _gradient(x, g, w):
    axes, shape = (0, *_along(x)), (1, -1, *(1 for _ in _along(x)))
    g = calor.where(x > 0, g, 0.0)
    shift, scale = calor.sum(g, axis=axes), calor.sum(g * x, axis=axes)
    count = x.size // x.shape[1]
    inner = g - (shift.reshape(shape) + x * scale.reshape(shape)) / count
    return shift, scale, inner * w.reshape(shape)


def _group_norm(x, w):
    y = x.reshape(x.shape[0], 2, -1, *x.shape[2:])
    y, mean, _ = calor.ops.composites.standardize(y, axes=(2, 3, 4), eps=1e-5)
    return y.reshape(x.shape) * w.reshape(-1, 1, 1), mean


def _counted(x):
    """What no order of terms changes, of another type than what follows."""
    large = calor.max(x, axis=-1, keepdims=True)
    return x - large, calor.count_nonzero(x > 0, axis=-1)


def _turned(x, y):
    return (x * y.T).softmax(axis=-1)


N, C = (40, 3, 6, 8), (3,)
# The function, shapes of its operands, and launches: of devices whose cubes may wait for others, of
# those whose cubes may not, and with launches that only join.
CASES = {
    "batch norm": (_batch_norm, [N, C, C], 1, 2, 3),
    "batch norm, odd lines": (_batch_norm, [(40, 3, 7, 7), C, C], 1, 2, 3),
    "batch norm of volumes": (_batch_norm, [(16, 2, 3, 8, 8), (2,), (2,)], 1, 2, 3),
    "batch norms beside each other": (_both, [N, N, C], 1, 2, 3),
    "batch norm's gradient": (_gradient, [N, N, C], 1, 2, 3),
    "gradient, one channel": (_gradient, [(40, 1, 9, 12), (40, 1, 9, 12), (1,)], 1, 2, 3),
    "group norm": (_group_norm, [(3, 48, 8, 10), (48,)], 1, 2, 3),
    "softmax": (_softmax, [(3, 4000)], 3, 3, 5),
    "softmax, odd rows": (_softmax, [(3, 4003)], 3, 3, 5),
    "softmax of one odd row": (_softmax, [(1, 9001)], 3, 3, 5),
    "layer norm": (_norm, [(2, 6000), (6000,), (6000,)], 3, 3, 5),
    "maximum": (_counted, [(3, 5000)], 1, 2, 3),
    "turned": (_turned, [(3, 4000), (4000, 3)], 3, 3, 5),
}


def _graph(case, dtype):
    function, shapes, *_ = CASES[case]
    with calor.device("numpy"):
        return calor.trace(function, *(calor.zeros(s, dtype=dtype) for s in shapes))


def _run(graph, arrays, info):
    fusers = RowFuser(), ElementwiseFuser()
    backend = KernelBackend("lanes", lambda i: LanesDevice(info), fusers=fusers)
    executable = backend.compile(0, graph)
    made = executable([backend.upload(0, np.ascontiguousarray(a)) for a in arrays])
    pairs = zip(made, graph.output_specs, strict=True)
    found = [np.array(backend.download(0, b, s)) for b, s in pairs]
    recorded = [one.launch for some in executable.base.recording.launches for one in some]
    buffers = (sum(isinstance(p, Buffer) for p in one.build.signature) for one in recorded)
    assert max(buffers) <= info.arguments
    return found, [one.build.function.name for one in recorded]


def _arrays(case, dtype, far=0.0):
    rng = np.random.default_rng(0)
    return [(rng.normal(size=s) + far).astype(dtype.numpy) for s in CASES[case][1]]


def _expected(case, arrays):
    wide = [a.astype(np.float64) for a in arrays]
    with calor.device("numpy"):
        made = CASES[case][0](*map(calor.asarray, wide))
    return [one.numpy() for one in (made if isinstance(made, tuple) else (made,))]


TYPED = [(case, float32, MANY_UNITS) for case in CASES if case != "turned"]
TYPED += [(case, float32, WIDE) for case in ("batch norm", "softmax", "layer norm")]
TYPED += [(case, float32, ALONE) for case in ("batch norms beside each other", "softmax")]
TYPED += [(case, bfloat16, MANY_UNITS) for case in ("batch norm", "batch norm's gradient")]
TYPED += [("softmax, odd rows", float16, WIDE), ("batch norm", float64, ALONE)]


@pytest.mark.parametrize(
    ("case", "dtype", "info"), TYPED, ids=[f"{c}-{t}-{i.max_units}{i.planes}" for c, t, i in TYPED]
)
def test_same_bits_in_fewer_launches(case, dtype, info, monkeypatch):
    graph, arrays = _graph(case, dtype), _arrays(case, dtype)
    waiting, fewest = _run(graph, arrays, info)
    found, names = _run(graph, arrays, _impatient(info))
    monkeypatch.setattr(joined_rows_launch, "_AGAIN", 0)
    apart, others = _run(graph, arrays, info)
    for some in (found, waiting):
        assert [a.tobytes() for a in some] == [b.tobytes() for b in apart]
    if dtype is float32 and info is MANY_UNITS:
        assert (len(fewest), len(names), len(others)) == CASES[case][2:], (fewest, names, others)
    assert "apply_rows" in names
    assert "await_rows" in fewest or len(fewest) == len(names)
    assert not {"apply_rows", "continue_rows", "await_rows"}.intersection(others)
    _check(case, found, arrays)


def _impatient(info):
    """A device whose cubes may not wait for others."""
    return replace(info, features=info.features - {"forward_progress"})


def _check(case, found, arrays):
    near = {2: 2e-2, 4: 2e-5, 8: 1e-12}[arrays[0].itemsize]
    for a, b in zip(found, _expected(case, arrays), strict=True):
        np.testing.assert_allclose(a.astype(np.float64), b, rtol=near, atol=near * abs(b).max())


# Devices that take few buffers, and operands that are strided along rows.
REFUSED = {
    "few buffers": (
        "batch norm's gradient",
        replace(MANY_UNITS, arguments=6),
        {"apply_rows", "await_rows"},
    ),
    "few buffers for two norms": (
        "batch norms beside each other",
        replace(MANY_UNITS, arguments=9),
        {"apply_rows", "await_rows"},
    ),
    "strides": ("turned", MANY_UNITS, {"apply_rows", "await_rows"}),
    "one unit": ("softmax", ONE_UNIT, {"apply_rows", "continue_rows", "await_rows"}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_others_join_in_a_launch(name):
    case, info, absent = REFUSED[name]
    arrays = _arrays(case, float32)
    found, names = _run(_graph(case, float32), arrays, info)
    assert not absent.intersection(names)
    _check(case, found, arrays)


@pytest.mark.parametrize("image", [0, 3])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_stays_in_its_channel(value, image):
    x, *rest = _arrays("batch norm", float32)
    x[image, 1, 2, 2] = value
    (y, mean, variance), names = _run(_graph("batch norm", float32), [x, *rest], MANY_UNITS)
    assert "await_rows" in names
    np.testing.assert_array_equal(mean[1], np.float32(value))
    assert np.isnan(variance).tolist() == [False, True, False]
    assert np.isfinite(y[:, [0, 2]]).all()


def _loss(x, y):
    """A loss of each row and its gradient along the row: two readings, and one that writes."""
    z = x - calor.max(x, axis=-1, keepdims=True)
    total = calor.sum(calor.exp(z), axis=-1, keepdims=True)
    lost = calor.sum((calor.log(total) - z) * y, axis=-1)
    return lost, calor.exp(z) / total - y


@pytest.mark.parametrize(("rows", "count"), [(11, 1), (3, 4)])
def test_a_cube_reads_its_row_again_where_there_are_many(rows, count, monkeypatch):
    monkeypatch.setattr(program_launch, "_ENOUGH_ROWS", 8)
    case = "loss"
    monkeypatch.setitem(CASES, case, (_loss, [(rows, 3000), (rows, 3000)]))
    arrays = _arrays(case, float32)
    found, names = _run(_graph(case, float32), arrays, MANY_UNITS)
    _check(case, found, arrays)
    if count == 1:
        assert names == ["reduce_rows"]
    else:
        assert len(names) >= count


@pytest.mark.parametrize(("rows", "many"), [(11, True), (3, False)])
def test_a_cube_reads_its_row_again_for_results_along_it(rows, many, monkeypatch):
    monkeypatch.setattr(program_launch, "_ENOUGH_LINES", 8)
    case = "share"
    monkeypatch.setitem(CASES, case, (lambda x: _loss(x, x)[1], [(rows, 3000)]))
    arrays = _arrays(case, float32)
    found, names = _run(_graph(case, float32), arrays, MANY_UNITS)
    _check(case, found, arrays)
    assert (names == ["reduce_rows"]) == many
