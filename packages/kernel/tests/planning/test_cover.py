"""Coverings: groups of fusers where they cost less, and an order in which each is ready."""

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.contract.cost import Ceilings, ceilings_of, node_seconds
from calor_kernel.contract.fuser import Fuser, Group, boundary, group_of
from calor_kernel.contract.work import DENSE, LOWERINGS, Build, Input, Launch, Output, Refusal, Work
from calor_kernel.planning.planner import cover
from calor_kernel.runtime.backend import KernelBackend

from .small_ops import CHUNK, FUNCTIONS, SIZE, Buffer, elementwise


class Said(Fuser):
    """Proposes the groups that a test names: nodes, and the cost."""

    name = "said"

    def __init__(self, *groups):
        self.said = groups

    def groups(self, graph, info):
        return [group_of(graph, nodes, "fused", cost) for nodes, cost in self.said]


@pytest.fixture
def graph():
    x = calor.ones((64, 64))
    return calor.trace(lambda x: ((x + x) * x - x, (x - 1) + x), x)


def covered(graph, *groups):
    units = cover(graph, [Said(*groups)], ONE_UNIT)
    return [u.nodes if isinstance(u, Group) else u for u in units]


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([], [0, 1, 2, 3, 4, 5]),
        ([((0, 1), 0.0)], [(0, 1), 2, 3, 4, 5]),
        ([((0, 1), 1.0)], [0, 1, 2, 3, 4, 5]),
        ([((0, 1), 0.0), ((0, 1, 2), 0.0)], [(0, 1, 2), 3, 4, 5]),
        ([((0, 1), 0.0), ((1, 2), 0.0), ((4, 5), 0.0)], [0, (1, 2), 3, (4, 5)]),
        ([((0, 1, 2, 3, 4, 5), 0.0)], [(0, 1, 2, 3, 4, 5)]),
    ],
)
def test_what_saves_most_is_taken(graph, groups, expected):
    assert covered(graph, *groups) == expected


def test_groups_that_wait_for_each_other():
    x = calor.ones((64, 64))
    # 0 → 1 → 2 → 3 → 4: two groups that hold every second node would wait for each other.
    graph = calor.trace(lambda x: ((((x + x) * x) - x) * x) + x, x)
    found = covered(graph, ((0, 2), 0.0), ((1, 3), 1e-9))
    assert sorted(n for u in found for n in (u if isinstance(u, tuple) else (u,))) == [
        0,
        1,
        2,
        3,
        4,
    ]
    assert found.count((0, 2)) + found.count((1, 3)) == 0


def test_a_boundary(graph):
    assert boundary(graph, [0, 1]) == ((0,), (2,))
    assert boundary(graph, [0, 1, 2]) == ((0,), (3,))
    assert boundary(graph, [0, 2]) == ((0, 2), (1, 3))


def lower_fused(request):
    """Do any graph of the small ops in one launch."""
    inner = request.attributes["graph"]
    if any(not v.is_dense for v in request.inputs):
        return Refusal("only dense")

    def function(*operands):
        values = dict(zip(inner.inputs, operands, strict=True))
        for node in inner.nodes:
            values[node.outputs[0]] = FUNCTIONS[node.op.name](*[values[v] for v in node.inputs])
        return values[inner.outputs[0]]

    views, result = request.inputs, request.outputs[0]
    signature = (*(Buffer(v.dtype) for v in views), Buffer(result.dtype), SIZE)
    arguments = (*(Input(i, v.offset) for i, v in enumerate(views)), Output(), result.size)
    build = Build(elementwise, signature, (("function", function),))
    launch = Launch(build, (-(-result.size // CHUNK), 1, 1), arguments, label="fused")
    return (Work((launch,)),)


class Chains(Fuser):
    """Groups runs of small ops of which only the last is read elsewhere."""

    name = "chains"

    def groups(self, graph, info):
        run = []
        for number, node in enumerate((*graph.nodes, None)):
            if node is not None and node.op.name in FUNCTIONS:
                run.append(number)
                continue
            if len(run) > 1 and len(boundary(graph, run)[1]) == 1:
                yield group_of(graph, run, "fused", 0.0)
            run = []


@pytest.mark.parametrize(
    ("function", "launches"),
    [
        (lambda x, y: (x + y) * x - y, ["fused"]),
        (lambda x, y: ((x + y) * x).T - y, ["fused", "copy_rows", "sub"]),
        # Operands that the lowering refuses are copied.
        (lambda x, y: (x.T + y) * x - y, ["copy_rows", "fused"]),
        (lambda x, y: ((x + y) * x)[::-1] + 1, ["fused", "copy_rows", "copy_dense", "add"]),
    ],
)
def test_fused_graphs(small_ops, monkeypatch, function, launches):
    monkeypatch.setitem(LOWERINGS, "fused", lower_fused)
    monkeypatch.setitem(DENSE, "fused", frozenset())
    backend = KernelBackend("fused", lambda i: LanesDevice(ONE_UNIT), fusers=[Chains()])
    with calor.device(device_of(backend, 0)):
        x, y = (calor.asarray(np.arange(16, dtype=np.float32).reshape(4, 4) + n) for n in (0, 5))
        calor.eval(x, y)
        plan = backend.compile(0, calor.trace(function, x, y))
        (made,) = plan(
            [backend.upload(0, np.array(x.numpy())), backend.upload(0, np.array(y.numpy()))]
        )
        found = backend.download(0, made, plan.graph.output_specs[0])
        assert found.tolist() == function(x.numpy(), y.numpy()).tolist()
    assert [la.launch.label for la in plan.base.recording.launches[0]] == launches


def test_costs(graph):
    known = Ceilings(1e9, 1e9, 0.0)
    assert node_seconds(graph, graph.nodes[0], known) == pytest.approx(64 * 64 * 4 * 2 / 1e9)
    moved = calor.trace(lambda x: x.T, calor.ones((3, 3)))
    assert node_seconds(moved, moved.nodes[0], known) == 0.0
    product = calor.trace(lambda x: x @ x, calor.ones((64, 64)))
    assert node_seconds(product, product.nodes[0], known) == pytest.approx(2 * 64**3 / 1e9)
    assert ceilings_of(ONE_UNIT).bandwidth > 0
