"""Do chains give the bits that their ops give one by one, and take what they should together?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.dtypes import bfloat16, complex64, float16, float32
from calor.graph.graph import Graph
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.runtime.backend import KernelBackend

F = calor


def _graph(function, dtype, *shapes) -> Graph:
    with calor.device("numpy"):
        return calor.trace(function, *(calor.zeros(s, dtype=dtype) for s in shapes))


def _run(graph, arrays, fusers, info):
    backend = KernelBackend("lanes", lambda i: LanesDevice(info), fusers=fusers)
    executable = backend.compile(0, graph)
    buffers = [backend.upload(0, np.ascontiguousarray(a)) for a in arrays]
    made = executable(buffers)
    specs = graph.output_specs
    return [np.array(backend.download(0, b, s)) for b, s in zip(made, specs, strict=True)]


def _exactly(x, y):
    return x * y + x * x


def _gates(gates, carry, up):
    """The gradients of a recurrent layer's gates and carry, which are parts of one tensor."""
    keep, new, out = F.sigmoid(gates[0]), F.tanh(gates[1]), F.sigmoid(gates[2])
    total = F.tanh(keep * carry + new)
    back = up * out * (1 - total * total)
    parts = back * carry * keep * (1 - keep), back * (1 - new * new), up * total * out * (1 - out)
    return F.concat(parts, axis=1), back * keep


def _apart(x, y):
    return F.concat([F.exp(x) * 2.0, F.tanh(y) + 1.0], axis=0)


def _one_after_another(x, y):
    made = F.exp(x) * 2.0
    return F.concat([made, (made.sum() + y) * x], axis=0)


def _unequal(x, y):
    return F.concat([F.exp(x) * y, F.exp(x[:3]) * y[:3]], axis=0)


def _part_of_a_part(x, y):
    made = F.exp(x) * y
    return F.concat([made, made * y + 1.0], axis=0)


def _of_both(x, y):
    return [F.exp(x) * y, F.tanh(x) * y, F.sigmoid(x) - y]


def _joined(axis):
    return lambda x, y: F.concat(_of_both(x, y), axis=axis)


def _joined_twice(x, y):
    one, other, more = _of_both(x, y)
    return F.concat([one, other, one], axis=1), F.concat([more, other], axis=0), more * 1.0


def _joined_spread(x, b):
    return F.concat(_of_both(x, b), axis=1)


def _joined_and_reduced(x, y):
    # The sum reads the joined value, so no path leads back.
    made = F.concat(_of_both(x, y), axis=1)
    return made.sum(axis=1), made


CHAINS = {
    "contraction": (_exactly, [(37,), (37,)]),
    "activation": (lambda x, y: F.tanh(x * y + 1.0) * 0.5, [(37,), (37,)]),
    "broadcast": (lambda x, b: F.exp(x + b) * b, [(5, 37), (37,)]),
    "transposed": (lambda x, y: (x + 1.0).T * y, [(37, 5), (5, 37)]),
    "reshaped": (lambda x, y: (x * 2.0).reshape(5, 37) - y, [(37, 5), (5, 37)]),
    "two-results": (lambda x, y: (x + y, F.exp(x + y)), [(37,), (37,)]),
    "sliced": (lambda x, y: (x * y)[::2] + 1.0, [(37,), (37,)]),
    "cheap-spread": (lambda x, b: x + (b + 1.0), [(5, 37), (37,)]),
    "both-ways": (lambda x, y: (x + 1.0) * (x + 1.0).T, [(9, 9), (9, 9)]),
    "logic": (lambda x, y: F.where((x > 0) & (y < 1), x, y), [(37,), (37,)]),
    "gates": (_gates, [(3, 4, 9), (4, 9), (4, 9)]),
    "parts-apart": (_apart, [(37,), (37,)]),
    "part-after-part": (_one_after_another, [(37,), (37,)]),
    "unequal-parts": (_unequal, [(37,), (37,)]),
    "part-of-a-part": (_part_of_a_part, [(37,), (37,)]),
    **{f"joined-{k}": (_joined(k), [(3, 4, 16), (3, 4, 16)]) for k in range(3)},
    "joined-odd": (_joined(1), [(5, 37), (5, 37)]),
    # Elements of a part are apart.
    "joined-single": (_joined(1), [(7, 1), (7, 1)]),
    "joined-single-spread": (_joined(2), [(9, 7, 1), (7, 1)]),
    "joined-single-rows": (_joined(2), [(3, 70, 1), (70, 1)]),
    "joined-short": (_joined(1), [(50, 3), (50, 3)]),
    "joined-twice": (_joined_twice, [(5, 36), (5, 36)]),
    "joined-spread": (_joined_spread, [(5, 40), (40,)]),
    "joined-turned": (lambda x, y: _joined(1)(x.T, y), [(40, 24), (24, 40)]),
    "joined-and-reduced": (_joined_and_reduced, [(5, 32), (5, 32)]),
}


@pytest.mark.parametrize("info", [ONE_UNIT, MANY_UNITS], ids=["one-unit", "many-units"])
@pytest.mark.parametrize("dtype", [float32, float16, bfloat16])
@pytest.mark.parametrize("chain", CHAINS)
def test_same_bits(chain, dtype, info):
    function, shapes = CHAINS[chain]
    graph = _graph(function, dtype, *shapes)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s).astype(dtype.numpy) for s in shapes]
    fused = _run(graph, arrays, (ElementwiseFuser(),), info)
    plain = _run(graph, arrays, (), info)
    for a, b in zip(fused, plain, strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("info", [ONE_UNIT, MANY_UNITS], ids=["one-unit", "many-units"])
@pytest.mark.parametrize("shape", [(), (1,), (37,)], ids=str)
def test_a_result_in_the_place_of_an_operand(shape, info):
    # A single element is read by all units of a cube, so that none may overwrite it.
    graph = _graph(lambda x: x * 2.0 + 1.0, float32, shape)
    backend = KernelBackend("lanes", lambda i: LanesDevice(info), fusers=(ElementwiseFuser(),))
    executable, x = backend.compile(0, graph), np.full(shape, 3.0, np.float32)
    buffer = backend.upload(0, x)
    (made,) = executable([buffer], [buffer])
    assert made is buffer
    assert (backend.download(0, made, graph.output_specs[0]) == 7.0).all()


def _groups(function, *shapes, dtype=float32):
    graph = _graph(function, dtype, *shapes)
    found = list(ElementwiseFuser().groups(graph, ONE_UNIT))
    return [len(g.attributes["expression"].steps) for g in found], graph


COUNTS = {
    "contraction": [3],
    "activation": [4],
    "broadcast": [3],
    "transposed": [2],
    "reshaped": [2],
    "two-results": [2],
    "sliced": [2],
    "cheap-spread": [2],
    # The sum is read in two ways, and is not computed twice.
    "both-ways": [],
    "logic": [4],
    # All parts of a concat that read the same values are one chain, and so is the carry.
    "gates": [22],
    "parts-apart": [2, 2],
    "part-after-part": [2, 2],
    "unequal-parts": [2, 2, 2],
    "part-of-a-part": [4],
    **{f"joined-{k}": [6] for k in (0, 1, 2, "odd", "short", "spread", "turned", "and-reduced")},
    **{f"joined-single{k}": [6] for k in ("", "-spread", "-rows")},
    "joined-twice": [6],
}
# Concats whose parts are results of one chain are written by it.
WRITTEN = {
    "gates": 1,
    "part-of-a-part": 1,
    **{name: 1 for name in COUNTS if name.startswith("joined")},
    "joined-twice": 2,
}


@pytest.mark.parametrize("chain", CHAINS)
def test_what_is_taken(chain):
    function, shapes = CHAINS[chain]
    counts, _ = _groups(function, *shapes)
    assert counts == COUNTS[chain]


@pytest.mark.parametrize("chain", CHAINS)
def test_parts_are_written_where_they_are_joined(chain):
    function, shapes = CHAINS[chain]
    graph = _graph(function, float32, *shapes)
    groups = ElementwiseFuser().groups(graph, ONE_UNIT)
    names = [graph.nodes[n].op.name for group in groups for n in group.nodes]
    assert names.count("concat") == WRITTEN.get(chain, 0)


def test_dear_values_are_not_computed_again():
    counts, _ = _groups(lambda x, b: x + F.tanh(b), (50, 37), (37,))
    assert counts == []


def test_dear_values_are_computed_again_where_launches_take_longer():
    def gate(x, b):
        return x * F.sigmoid(b)

    def deep(x, b):
        return x * F.sigmoid(F.tanh(F.sigmoid(b)))

    dear = replace(MANY_UNITS, launch_ns=1700)
    for info, function, rows, steps in (
        (MANY_UNITS, gate, 40, []),
        (dear, gate, 40, [2]),
        # All that is repeated counts together.
        (dear, deep, 40, [4]),
        (dear, gate, 20000, []),
        (dear, deep, 150, [3]),
    ):
        graph = _graph(function, float32, (rows, 32), (32,))
        groups = ElementwiseFuser().groups(graph, info)
        assert [len(g.attributes["expression"].steps) for g in groups] == steps, (info, rows)
    arrays = [np.linspace(-3, 3, n, dtype=np.float32) for n in (40 * 32, 32)]
    arrays[0] = arrays[0].reshape(40, 32)
    graph = _graph(gate, float32, (40, 32), (32,))
    (fused,) = _run(graph, arrays, (ElementwiseFuser(),), dear)
    (plain,) = _run(graph, arrays, (), dear)
    assert fused.tobytes() == plain.tobytes()


def test_no_way_leads_out_and_back():
    # The sum in the middle needs a result of the chain that its own result goes to.
    counts, graph = _groups(lambda x: F.exp(x) * (F.exp(x)).sum(), (37,))
    assert all(c < len(graph.nodes) for c in counts)
    backend_rows = np.linspace(-1, 1, 37, dtype=np.float32)
    fused = _run(graph, [backend_rows], (ElementwiseFuser(),), ONE_UNIT)
    np.testing.assert_allclose(
        fused[0], np.exp(backend_rows) * np.exp(backend_rows).sum(), rtol=1e-6
    )


@pytest.mark.parametrize("info", [ONE_UNIT, MANY_UNITS], ids=["one-unit", "many-units"])
@pytest.mark.parametrize("shape", [(5, 1), (3, 7, 1), (4, 16), (5, 37)], ids=str)
@pytest.mark.parametrize("axis", [0, -1])
def test_parts_of_complex_numbers(axis, shape, info):
    def function(x, y):
        return F.concat([x * y, x - y, x * x + y], axis=axis)

    graph = _graph(function, complex64, shape, shape[1:])
    rng = np.random.default_rng(0)
    arrays = [
        (rng.normal(size=s) + 1j * rng.normal(size=s)).astype(np.complex64)
        for s in (shape, shape[1:])
    ]
    fused = _run(graph, arrays, (ElementwiseFuser(),), info)
    plain = _run(graph, arrays, (), info)
    assert fused[0].tobytes() == plain[0].tobytes()


def test_complex_chains():
    graph = _graph(lambda x, y: F.exp(x * y) + x, complex64, (37,), (37,))
    rng = np.random.default_rng(0)
    arrays = [(rng.normal(size=37) + 1j * rng.normal(size=37)).astype(np.complex64)] * 2
    (fused,) = _run(graph, arrays, (ElementwiseFuser(),), ONE_UNIT)
    (plain,) = _run(graph, arrays, (), ONE_UNIT)
    assert fused.tobytes() == plain.tobytes()


@pytest.mark.parametrize(("most", "longest"), [(64, 10), (5, 5)])
def test_a_chain_has_no_more_operands_than_a_launch(most, longest):
    graph = _graph(lambda *x: sum(x[1:], x[0]), float32, *[(37,)] * 9)
    groups = ElementwiseFuser().groups(graph, replace(ONE_UNIT, arguments=most))
    assert max(len(g.inputs) + len(g.outputs) for g in groups) == longest
