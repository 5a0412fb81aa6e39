"""Do independent chains of one expression run as one launch, with the bits of their own?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.dtypes import bfloat16, complex64, complex128, float16, float32, int32
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.contract.work import Build
from calor_kernel.library.elementwise import ElementwiseFuser, siblings
from calor_kernel.planning.recording import Recorder
from calor_kernel.runtime.backend import KernelBackend

FEW = {"arguments": 40}
BODIES = {"features": MANY_UNITS.features - {"pointers"}}
DEVICES = {
    "one-unit": ONE_UNIT,
    "many-units": MANY_UNITS,
    "few-arguments": replace(MANY_UNITS, **FEW),
    "few-choices": replace(MANY_UNITS, choices=4),
    "no-pointers": replace(MANY_UNITS, **BODIES),
    "one-unit-no-pointers": replace(ONE_UNIT, features=ONE_UNIT.features - {"pointers"}),
}
SHAPES = [(37,), (5, 7), (1,), (), (3000,), (2, 3, 4), (9000,)]


def momentum(rate, *tensors):
    """SGD with momentum of several parameters: two results each, one of them read by the other."""
    count = len(tensors) // 3
    made = []
    for p, g, v in zip(
        tensors[:count], tensors[count : 2 * count], tensors[2 * count :], strict=True
    ):
        v = v * 0.9 + g
        made += [p - v * rate, v]
    return made


def rates(table, *tensors):
    """Each tensor is scaled by a number of its own, from one array."""
    return [x * table[k : k + 1] + 1.0 for k, x in enumerate(tensors)]


def turned(*tensors):
    """Some operands are not dense, so that their tensors have launches of their own."""
    return [(x.T if k % 2 else x) * 2.0 + 1.0 for k, x in enumerate(tensors)]


def single(*tensors):
    """Casts of weights: one op each."""
    return [x.astype(bfloat16) for x in tensors]


def parts(x):
    """Parts of one tensor: dense operands in one memory, from different elements on."""
    return [calor.exp(x[8 * k : 8 * (k + 1)]) * 2.0 for k in range(4)]


def columns(table):
    """Each result repeats one number of an array."""
    return [calor.broadcast_to(table, (2, 5))[:, k : k + 1] * 2 for k in range(5)]


CASES = {
    "columns": (columns, [(5,)]),
    "parts": (parts, [(64,)]),
    "singles": (lambda *given: [x + 1.0 for x in given], [(1,), (), (1, 1)]),
    "momentum": (momentum, [(), *SHAPES, *SHAPES, *SHAPES]),
    "rates": (rates, [(9,), (37,), (5, 7), (3000,), (4,), (8192,), (1, 4)]),
    "turned": (turned, [(5, 7), (7, 9), (6, 6), (3, 20), (8, 9)]),
    "single": (single, [(37,), (64,), (5000,)]),
}


FUSERS = (ElementwiseFuser(),)


def planned(name, info, fusers=FUSERS, dtype=float32):
    """The case's executable on a device of lanes, its graph, its arrays, and its launches."""
    function, shapes = CASES[name]
    with calor.device("numpy"):
        graph = calor.trace(function, *(calor.zeros(s, dtype=dtype) for s in shapes))
    backend = KernelBackend("lanes", lambda i: LanesDevice(info), fusers=fusers)
    rng = np.random.default_rng(0)
    arrays = [np.asarray(8 * rng.normal(size=s), dtype.numpy) for s in shapes]
    if dtype.is_complex:
        arrays = [a + np.asarray(1j * rng.normal(size=a.shape), a.dtype) for a in arrays]
    return backend, backend.compile(0, graph), graph, arrays


def results(backend, executable, graph, arrays, into=None):
    buffers = [backend.upload(0, np.ascontiguousarray(a)) for a in arrays]
    targets = None if into is None else [None if k is None else buffers[k] for k in into]
    made = executable(buffers, targets)
    if targets is not None:
        assert all(t is None or t is m for t, m in zip(targets, made, strict=True))
    specs = graph.output_specs
    return [np.array(backend.download(0, b, s)) for b, s in zip(made, specs, strict=True)]


def labels(executable):
    return [one.launch.label for part in executable.base.recording.launches for one in part]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_same_bits(name, device):
    fused = planned(name, DEVICES[device])
    plain = planned(name, DEVICES[device], ())
    assert "elementwise.many" in labels(fused[1])
    for a, b in zip(results(*fused), results(*plain), strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("dtype", [complex64, complex128, float16, int32], ids=str)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["columns", "rates", "turned", "singles"])
def test_same_bits_of_dtypes(name, device, dtype):
    fused = planned(name, DEVICES[device], dtype=dtype)
    plain = planned(name, DEVICES[device], (), dtype)
    assert "elementwise.many" in labels(fused[1])
    for a, b in zip(results(*fused), results(*plain), strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize(
    ("name", "device", "launches"),
    [
        ("momentum", "many-units", 1),
        ("momentum", "few-arguments", 2),
        ("momentum", "few-choices", 2),
        ("momentum", "no-pointers", 2),
        ("singles", "many-units", 1),
        ("parts", "many-units", 1),
        ("rates", "many-units", 1),
        ("single", "many-units", 1),
        ("turned", "many-units", 3),
    ],
)
def test_number_of_launches(name, device, launches):
    assert len(labels(planned(name, DEVICES[device])[1])) == launches


def test_constants_are_passed_once_for_tensors_of_all_shapes():
    (part,) = planned("momentum", MANY_UNITS)[1].base.recording.launches
    (one,) = part
    # Of each tensor, padded to a power of two: an end, a count, three operands and two results. Of
    # all: the constant, the rate, and the values of a cube.
    assert len(one.launch.arguments) == 8 * 7 + 3


def test_few_values_are_one_turn_of_many_cubes():
    CASES["some"] = (single, [(1 << 16,), (1 << 18,)])
    try:
        cubes = {}
        for cores in (4, 132):
            (part,) = planned("some", replace(MANY_UNITS, cores=cores))[1].base.recording.launches
            cubes[cores] = part[0].launch.cubes[0]
    finally:
        del CASES["some"]
    step = min(MANY_UNITS.max_units, 256) * 4
    assert cubes[132] == (5 << 16) // step
    assert cubes[4] == -(-cubes[132] // 8)


@pytest.mark.parametrize("device", ["one-unit", "many-units", "no-pointers"])
def test_parameters_stay_in_place(device):
    fused, plain = planned("momentum", DEVICES[device]), planned("momentum", DEVICES[device], ())
    count = len(SHAPES)
    into = [n for k in range(count) for n in (1 + k, 1 + 2 * count + k)]
    recorded = []
    laid = Recorder.record

    def noted(recorder, *given, **named):
        recorded.append(laid(recorder, *given, **named))
        return recorded[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recorder, "record", noted)
        made = results(*fused, into)
    for a, b in zip(made, results(*plain), strict=True):
        assert a.tobytes() == b.tobytes()
    copies = sum(one.op == "copy" for part in recorded[-1].launches for one in part)
    assert not copies


def test_dependent_chains_stay_apart():
    with calor.device("numpy"):
        x, y = calor.zeros((37,)), calor.zeros((37, 2))
        graph = calor.trace(lambda x, y: calor.exp(calor.exp(x).sum() + y) + 0.0, x, y)
    found = list(ElementwiseFuser().groups(graph, ONE_UNIT))
    assert [g.op for g in found] == ["elementwise_chain"]


def test_a_kernel_serves_several_counts():
    """The last launch is padded, so that other numbers of tensors need no other kernel."""

    def builds(count) -> set[Build]:
        CASES["some"] = (single, [(37,)] * count)
        executable = planned("some", MANY_UNITS)[1]
        return {la.launch.build for part in executable.base.recording.launches for la in part}

    try:
        assert builds(5) == builds(7) == builds(8)
        assert builds(9) != builds(8)
    finally:
        del CASES["some"]


def test_tensors_of_whole_vectors_have_launches_of_their_own():
    """Their bodies have no remainders; the last launch has the kernel of the others."""
    CASES["some"] = (single, [(64,), (37,), *[(256,)] * 9, (5,)])
    try:
        given = planned("some", replace(MANY_UNITS, choices=4))
        plain = planned("some", MANY_UNITS, ())
    finally:
        del CASES["some"]
    (part,) = given[1].base.recording.launches
    blueprints = [dict(la.launch.build.keywords)["by"] for la in part]
    assert [by.even for by in blueprints] == [True, True, True, False]
    assert len({la.launch.build for la in part}) == 2
    for a, b in zip(results(*given), results(*plain), strict=True):
        assert a.tobytes() == b.tobytes()


def halves(rate, p, g, v):
    """SGD with momentum, whose state and parameter are rounded."""
    made = v.astype(float32) * 0.9 + g.astype(float32)
    state = made.astype(bfloat16)
    return (p.astype(float32) - made * rate).astype(bfloat16), state


def test_a_chain_writes_rounded_results_and_not_what_they_are_made_of():
    with calor.device("numpy"):
        given = [calor.zeros((8, 64), dtype=bfloat16) for _ in range(3)]
        graph = calor.trace(halves, calor.zeros(()), *given)
    (group,) = ElementwiseFuser().groups(graph, MANY_UNITS)
    assert {*group.outputs} == {*graph.outputs}


@pytest.mark.parametrize(("most", "count"), [(1 << 30, 1), (2 * 64 * 64 * 4, 3), (1, 0)])
def test_few_gradients_wait_for_an_update(most, count, monkeypatch):
    def update(x, *weights):
        return momentum(0.5, *weights[:6], *[x @ w for w in weights[:6]], *weights[6:])

    monkeypatch.setattr(siblings, "_GRADIENTS", most)
    with calor.device("numpy"):
        graph = calor.trace(update, *[calor.zeros((64, 64)) for _ in range(13)])
    found = [g for g in ElementwiseFuser().groups(graph, MANY_UNITS) if g.op == siblings.SIBLINGS]
    assert len(found) == count
    # Neighbours in the order in which their gradients are made.
    makers = {v: n for n, node in enumerate(graph.nodes) for v in node.outputs}
    products = [n for n, node in enumerate(graph.nodes) if node.op.name == "dot_general"]
    for group in found:
        read = sorted(products.index(makers[v]) for v in group.inputs if makers.get(v) in products)
        assert read == [*range(read[0], read[0] + len(read))]
