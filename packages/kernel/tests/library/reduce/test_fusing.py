"""Do reductions give what their ops give one by one when they are fused, and take what they can?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.dtypes import bfloat16, float32, float64
from calor.ops.base import table
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.contract.fuser import Group
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.library.reduce import RowFuser
from calor_kernel.planning.compiling import arranged
from calor_kernel.planning.planner import cover
from calor_kernel.runtime.backend import KernelBackend

F = calor
X = [(5, 70)]


def _softmax_gradient(g, y):
    part = g * y
    return part - y * F.sum(part, axis=-1, keepdims=True)


def _norm(x, w, b):
    mean = F.mean(x, axis=-1, keepdims=True)
    centred = x - mean
    variance = F.mean(centred * centred, axis=-1, keepdims=True)
    return centred / F.sqrt(variance + 1e-5) * w + b


def _residual(x, y):
    total = x + y
    return total, F.sum(total * total, axis=-1)


def _batch(x):
    axes = (0, 2)
    mean = F.mean(x, axis=axes, keepdims=True)
    return (x - mean) * (F.var(x, axis=axes, keepdims=True) + 1.0)


def _early_and_late(x, g):
    """What the walk before the last writes, while the last still needs what the first one kept."""
    y = x.softmax(axis=-1)
    early = (F.sum(y * g, axis=-1, keepdims=True) + g) * y
    return early, early - y * F.sum(early, axis=-1, keepdims=True)


def _cross_entropy(x):
    """Losses of classes and the gradient of their sum: no log-probability is in memory."""
    hits = F.arange(70, dtype=F.int32) == F.reshape(F.arange(5, dtype=F.int32), (5, 1))

    def losses(x):
        made = -F.sum(F.where(hits, x.log_softmax(axis=-1), 0.0), axis=1)
        return F.sum(made), made

    (_, made), gradient = F.value_and_grad(losses, has_aux=True)(x)
    return made, gradient


def _masked(g, x):
    """The gradient of an activation, and that of the bias before it."""
    made = F.where(x > 0, g, 0.0) * F.exp(-x * x)
    return made, F.sum(made, axis=0)


def _scale_and_shift(g, x):
    """The gradients of a norm's scale and shift read the same."""
    return F.sum(g * x, axis=0), F.sum(g, axis=0)


def _batch_gradient(g, x, w):
    """The gradients of a batch norm: the sums, and what follows them."""
    axes, count = (0, 2), g.shape[0] * g.shape[2]
    part = F.where(x > 0, g, 0.0)
    shift, scale = F.sum(part, axis=axes, keepdims=True), F.sum(part * x, axis=axes, keepdims=True)
    return shift, scale, (part - (shift + x * scale) / count) * w


def _grouped(x, shape, w):
    rows = F.reshape(x, shape)
    total = F.sum(rows * rows, axis=tuple(range(2, len(shape))), keepdims=True)
    made = rows / F.sqrt(total + 1.0)
    return made, F.reshape(made, x.shape) * w


def _groups(x, w, b):
    """A norm of groups of channels, scaled by channel, with its activation."""
    _, made = _grouped(x, (3, 2, 2, 35), w)
    return (made + b) * F.tanh(made + b)


def _groups_and_before(x, w):
    """The numbers of groups in both shapes, as a gradient reads them."""
    before, made = _grouped(x, (3, 2, 2, 35), w)
    return before, F.reshape(before, x.shape).mT, made


def _channels_of_rows(x, w):
    return _grouped(x, (3, 2, 70), w)[1]


def _repeated(x):
    """A value of the shape of rows that does not vary along them, and is read as a result."""
    return -F.broadcast_to(F.sum(x * x, axis=1, keepdims=True), x.shape)


def _reduced_again(x, w):
    """Reductions of what has one value a row: of another reduction, of what follows it."""
    total = F.broadcast_to(F.sum(x * x, axis=1, keepdims=True), x.shape)
    most = F.broadcast_to(F.max(x, axis=1, keepdims=True), x.shape)
    later = F.sum(F.exp(-most) + w, axis=1), F.sum(most * F.full(x.shape, 2.0), axis=1)
    return F.sum(total, axis=1), F.max(most, axis=1), *later, most.softmax()


# The function, shapes of its operands, launches when fused with chains.
CASES = {
    "mean": (lambda x: F.mean(x, axis=1), X, 1),
    "mean-across": (lambda x: F.mean(x, axis=0), X, 1),
    "variance": (lambda x: F.var(x, axis=1), X, 1),
    "variance-across": (lambda x: F.var(x, axis=0), X, 2),
    "variance-of-all": (lambda x: F.var(x), X, 1),
    "sum-of-squares": (lambda x: F.sum(x * x, axis=1), X, 1),
    "softmax-scaled": (lambda x: (x * 0.5).softmax(axis=-1) * 2.0, X, 1),
    "softmax-across": (lambda x: (x * 0.5).softmax(axis=0), X, 3),
    "softmax-gradient": (_softmax_gradient, [(5, 70), (5, 70)], 1),
    "early-and-late": (_early_and_late, [(5, 70), (5, 70)], 1),
    # Longer than what waits in a unit's own memory.
    "early-and-late-long": (_early_and_late, [(2, 5000), (2, 5000)], 1),
    # The number 0 is cast first.
    "cross-entropy": (_cross_entropy, X, 2),
    "repeated": (_repeated, X, 2),
    # No program reduces what does not vary along its rows.
    "reduced-again": (_reduced_again, [(5, 70), (5, 1)], 6),
    "reduced-again-across": (lambda x, w: _reduced_again(x.T, w), [(70, 5), (5, 1)], 6),
    "norm": (_norm, [(5, 70), (70,), (70,)], 1),
    "residual": (_residual, [(5, 70), (5, 70)], 1),
    "batch": (_batch, [(3, 4, 20)], 1),
    "logsumexp": (lambda x: F.logsumexp(x, axis=1), X, 1),
    "extremes": (lambda x: F.max(x, axis=1) - F.min(x * 2.0, axis=1), X, 1),
    "counted": (lambda x: F.count_nonzero(x > 0, axis=1), X, 1),
    "moved": (lambda x: F.sum((x * 2.0).T * x.T, axis=0), X, 2),
    # A gradient and its column sums: of a bias, of a scale.
    "written-across": (_masked, [(70, 37), (70, 37)], 1),
    "written-across-in-parts": (_masked, [(4000, 70), (4000, 70)], 2),
    "scale-and-shift": (_scale_and_shift, [(70, 37), (70, 37)], 1),
    "scale-and-shift-in-parts": (_scale_and_shift, [(4000, 50), (4000, 50)], 2),
    "batch-gradient": (_batch_gradient, [(3, 4, 20), (3, 4, 20), (4, 1)], 1),
    # What follows the groups by channel has another shape.
    "groups": (_groups, [(3, 4, 5, 7), (4, 1, 1), (4, 1, 1)], 1),
    "groups-and-before": (_groups_and_before, [(3, 4, 5, 7), (4, 1, 1)], 2),
    # Along a row of all channels a number for each has no strides.
    "channels-of-rows": (_channels_of_rows, [(3, 4, 5, 7), (4, 1, 1)], 2),
    "batch-gradient-across": (_batch_gradient, [(60, 4, 1), (60, 4, 1), (4, 1)], 2),
}


TYPED = [(case, float32) for case in CASES]
TYPED += [(case, bfloat16) for case in ("variance", "softmax-scaled", "norm", "residual")]


def _graph(function, dtype, shapes):
    with calor.device("numpy"):
        return calor.trace(function, *(calor.zeros(s, dtype=dtype) for s in shapes))


def _run(graph, arrays, fusers, info):
    backend = KernelBackend("lanes", lambda i: LanesDevice(info), fusers=fusers)
    executable = backend.compile(0, graph)
    made = executable([backend.upload(0, np.ascontiguousarray(a)) for a in arrays])
    specs = graph.output_specs
    found = [np.array(backend.download(0, b, s)) for b, s in zip(made, specs, strict=True)]
    return found, executable


@pytest.mark.parametrize("info", [ONE_UNIT, MANY_UNITS], ids=["one-unit", "many-units"])
@pytest.mark.parametrize(("case", "dtype"), TYPED, ids=str)
def test_same_numbers(case, dtype, info):
    function, shapes, _ = CASES[case]
    graph = _graph(function, dtype, shapes)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s).astype(dtype.numpy) for s in shapes]
    fused, _ = _run(graph, arrays, (RowFuser(), ElementwiseFuser()), info)
    plain, _ = _run(graph, arrays, (), info)
    near = {"float32": 2e-6, "bfloat16": 2e-2}[dtype.name]
    for a, b in zip(fused, plain, strict=True):
        assert a.dtype == b.dtype
        a, b = a.astype(np.float64), b.astype(np.float64)
        np.testing.assert_allclose(a, b, rtol=near, atol=near * max(np.abs(b).max(), 1))


@pytest.mark.parametrize("case", CASES)
def test_launches(case):
    function, shapes, launches = CASES[case]
    graph = _graph(function, float32, shapes)
    arrays = [np.ones(s, np.float32) for s in shapes]
    _, executable = _run(graph, arrays, (RowFuser(), ElementwiseFuser()), ONE_UNIT)
    assert sum(map(len, executable.base.recording.launches)) == launches


def _widened(g, h, x):
    """What a residual block's gradient adds and masks, which a norm and another block read."""
    made = F.where(x > 0, g + h, 0.0)
    wide = made.astype(float32)
    return made, F.sum(wide, axis=0), F.sum(wide * x.astype(float32), axis=0)


def test_half_types_are_converted_where_they_are_made():
    """Conversions of a value that others read too are in its launch, since none is stored."""
    shape = (4096, 64)
    graph = arranged(_graph(_widened, bfloat16, [shape] * 3))
    units = cover(graph, (RowFuser(), ElementwiseFuser()), ONE_UNIT)
    groups = [unit for unit in units if isinstance(unit, Group)]
    assert [one.op for one in groups] == ["row_program"]
    stored = [graph.specs[v] for v in groups[0].outputs]
    assert [one.dtype for one in stored if one.shape == shape] == [bfloat16]


def test_what_sums_of_parts_of_rows_alone_read_is_left_to_them():
    """Sums of channels compute what they sum from what the norm of their group reads."""

    def normed(x, g):
        made, mean, _ = table()["standardize"](x, axes=(2, 3), eps=1.0)
        return made, F.sum(g * (x - mean[:, :, None, None]), axis=3)

    shape = (8, 4, 2, 3136)
    graph = arranged(_graph(normed, float32, [shape] * 2))
    units = cover(graph, (RowFuser(), ElementwiseFuser()), ONE_UNIT)
    (group,) = (unit for unit in units if isinstance(unit, Group))
    names = {graph.nodes[n].op.name for n in group.nodes}
    assert {"sub", "mul", "sum"} <= names
    assert [graph.specs[v].shape for v in group.outputs] == [shape[:3]]


def test_what_follows_a_product_is_left_to_its_epilogue():
    """A product writes the sum that a norm reads, so the norm does not."""

    def layer(x, w, h):
        y = x @ w + h
        return y, _norm(y.astype(float32), 1.0, 0.0)

    graph = arranged(_graph(layer, bfloat16, [(4096, 64), (64, 64), (4096, 64)]))
    (group,) = (one for one in cover(graph, (RowFuser(),), ONE_UNIT) if isinstance(one, Group))
    (made,) = (n for n, node in enumerate(graph.nodes) if graph.outputs[0] in node.outputs)
    assert made not in group.nodes


def _branches(x, y, w):
    """Two branches through one layer, which have its scale in common."""

    def layer(x):
        made = F.tanh(x * w)
        return made - F.sum(made, axis=(0, 2), keepdims=True)

    return layer(x), layer(y)


@pytest.mark.parametrize(("count", "alone"), [(2, False), (12, True)])
def test_sums_of_many_tensors_wait_for_none(count, alone):
    """The squares of a norm of all gradients are summed one beside another, and added then."""

    def norm(*xs):
        return F.sqrt(sum((F.sum(x * x) for x in xs[1:]), F.sum(xs[0] * xs[0])))

    given = [calor.asarray(np.ones((3, 5 + k), np.float32)) for k in range(count)]
    graph = arranged(calor.trace(norm, *given))
    units = cover(graph, (RowFuser(),), MANY_UNITS)
    sums = [[graph.nodes[n].op.name for n in u.nodes] for u in units if isinstance(u, Group)]
    sums = [names for names in sums if "sum" in names]
    assert len(sums) == count
    assert all("add" not in names for names in sums) == alone


def test_branches_that_read_unlike_rows_are_apart():
    """The rows of one would wait for those of the other, as of two passes through a network."""
    graph = arranged(_graph(_branches, float32, [(64, 4, 20), (64, 4, 20), (4, 1)]))
    units = cover(graph, (RowFuser(), ElementwiseFuser()), ONE_UNIT)
    groups = [unit for unit in units if isinstance(unit, Group)]
    assert [one.op for one in groups] == ["row_program"] * 2
    assert not any({0, 1} <= {*one.inputs} for one in groups)


def _norm_gradient(x, y, g):
    return g * x + y * F.mean(g * y, axis=-1, keepdims=True)


# A vector, a plane and a cube have so many terms, more and fewer; the longest are walked along.
LENGTHS = (3, 4, 5, 7, 16, 31, 33, 64, 130, 500, 1000, 5000)


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("length", LENGTHS)
def test_same_bits_on_many_units(length, dtype):
    """A sum's order is that of the sum alone, whatever is fused around it."""
    info = replace(MANY_UNITS, max_units=1024, max_cube=(1024, 1024, 64), planes=(32,))
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(3, length)).astype(dtype.numpy) for _ in range(3)]
    for function, count in ((_softmax_gradient, 2), (_norm_gradient, 3)):
        graph = _graph(function, dtype, [(3, length)] * count)
        fused, executable = _run(graph, arrays[:count], (RowFuser(), ElementwiseFuser()), info)
        plain, _ = _run(graph, arrays[:count], (), info)
        assert sum(map(len, executable.base.recording.launches)) == 1
        assert [a.tobytes() for a in fused] == [b.tobytes() for b in plain]


# Functions, operands and how many of these are copied: along rows, across them, a part of an
# operand, both alike, and an operand of fewer bytes.
ORDERS = {
    "along": (lambda g, y: _softmax_gradient(g, y.T), [(520, 600), (600, 520)], 1),
    "across": (lambda x: x.mT == F.max(x.mT, axis=0, keepdims=True), [(20, 120, 130)], 1),
    "part": (lambda g, y: _softmax_gradient(g, y.T[1:]), [(520, 600), (600, 521)], 1),
    "alike": (lambda x: F.sum(x.T * x.T, axis=1), [(600, 520)], 0),
    "small": (lambda g, y: _softmax_gradient(g, y.T), [(52, 60), (60, 52)], 0),
}


@pytest.mark.parametrize("case", ORDERS)
def test_large_operands_in_another_order_are_copied(case):
    function, shapes, copies = ORDERS[case]
    graph = _graph(function, float32, shapes)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s).astype(np.float32) for s in shapes]
    fusers = (RowFuser(), ElementwiseFuser())
    fused, executable = _run(graph, arrays, fusers, MANY_UNITS)
    wanted, _ = _run(graph, arrays, fusers, ONE_UNIT)
    labels = [one.launch.label for many in executable.base.recording.launches for one in many]
    assert sum(label.startswith("copy") for label in labels) == copies, labels
    for a, b in zip(fused, wanted, strict=True):
        near = 2e-6 * max(np.abs(b).max(), 1)
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), atol=near, rtol=2e-6)


@pytest.mark.parametrize("case", ["written-across-in-parts", "scale-and-shift-in-parts"])
def test_the_last_cube_joins_parts(case):
    """One launch gives the bits of two, also when it runs again with its words."""
    function, shapes, _ = CASES[case]
    graph = _graph(function, float32, shapes)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s).astype(np.float32) for s in shapes]
    waits = replace(MANY_UNITS, features=MANY_UNITS.features - {"forward_progress"})
    found = []
    for info, launches in ((MANY_UNITS, 1), (waits, 2)):
        device, fusers = LanesDevice(info), (RowFuser(), ElementwiseFuser())
        backend = KernelBackend("lanes", lambda i, device=device: device, fusers=fusers)
        executable = backend.compile(0, graph)
        assert sum(map(len, executable.base.recording.launches)) == launches
        for _ in range(2):
            made = executable([backend.upload(0, a) for a in arrays])
            pairs = zip(made, graph.output_specs, strict=True)
            found.append([np.array(backend.download(0, b, s)).tobytes() for b, s in pairs])
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize(("most", "longest"), [(64, 8), (5, 5)])
def test_a_group_has_no_more_operands_than_a_launch(most, longest):
    def sums(*x):
        total = x[0]
        for one in x[1:]:
            total = total * one
        return total, F.sum(total, axis=-1)

    with calor.device("numpy"):
        graph = calor.trace(sums, *(calor.zeros((5, 70)) for _ in range(6)))
    groups = RowFuser().groups(graph, replace(ONE_UNIT, arguments=most))
    assert max(len(g.inputs) + len(g.outputs) for g in groups) == longest
