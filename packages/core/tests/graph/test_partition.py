"""Partitioning: who runs what, what is moved, in which order, and what a refusal says."""

import random
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import Device
from calor.backends.numpy_backend import NumpyBackend
from calor.backends.protocol import Claim, Info, State, impossible
from calor.compiling.partition import compile_graph
from calor.compiling.partitioned import PartitionedExecutable
from calor.dtypes import ALL, DType, float32, float64
from calor.errors import OutOfMemoryError, UnsupportedError
from calor.graph.graph import Builder, Graph
from calor.graph.interpreter import interpret
from calor.graph.segments import cut
from calor.graph.verify import verify
from calor.ops import elementwise as e
from calor.specs import spec
from sample_graphs import sample

PRODUCTS = ("dot_general", "conv")
ELEMENTWISE = ("add", "sub", "mul", "div", "tanh", "neg", "exp", "maximum", "expand", "full")


def softmax(x: Any, *, axis: int) -> Any:
    made = np.exp(x - x.max(axis=axis, keepdims=True))
    return made / made.sum(axis=axis, keepdims=True)


# Kept composites that a toy may have a function of its own for.
OWN = {"softmax": softmax}


class Toy(NumpyBackend):
    """A device that takes the ops it names, in as many parts as ``apart`` asks for."""

    def __init__(
        self,
        name: str,
        takes: Collection[str],
        *,
        dtypes: Mapping[DType, State] | None = None,
        apart: bool = False,
    ) -> None:
        super().__init__()
        self.name = name
        self.takes = frozenset(takes)
        self.apart = apart
        self.compiled: list[Graph] = []
        self._info = Info("toy", dtypes=dtypes or dict.fromkeys(ALL, State("full")))

    def table(self, index: int) -> Mapping[str, Any]:
        return {n: f for n, f in {**super().table(index), **OWN}.items() if n in self.takes}

    def claim(self, index: int, graph: Graph) -> Claim:
        claim = super().claim(index, graph)
        if not self.apart:
            return claim
        parts = tuple((i,) for part in claim.parts for i in part)
        return Claim(parts, claim.reasons)

    def compile(self, index: int, graph: Graph) -> Any:
        self.compiled.append(graph)
        return super().compile(index, graph)


def toy(name: str, takes: Collection[str] = (), **options: Any) -> Device:
    return Device(Toy(name, takes, **options), 0)


def reference() -> Device:
    return Device(NumpyBackend(), 0)


def run(device: Device, graph: Graph, companions: Sequence[Device] = ()) -> Any:
    """Compile and run a graph on arrays; compare with the reference; return the executable."""
    executable = compile_graph(device, graph, companions)
    chance = np.random.default_rng(0)
    arrays = [chance.normal(size=s.shape).astype(s.dtype.numpy) for s in graph.input_specs]
    given = [a if i in graph.host else device.backend.upload(0, a) for i, a in enumerate(arrays)]
    found = executable(given)
    for buffer, known, wanted in zip(
        found, graph.output_specs, interpret(graph, arrays), strict=True
    ):
        got = device.backend.download(0, buffer, known)
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    return executable


def layers() -> Graph:
    """tanh(tanh(x @ w) @ w) @ w: products and elementwise ops in turn."""
    return calor.trace(
        lambda x, w: calor.tanh(calor.tanh(x @ w) @ w) @ w, calor.ones((2, 3)), calor.ones((3, 3))
    )


def test_what_a_device_takes_whole_is_compiled_whole() -> None:
    device = toy("npu", ("dot_general", "tanh"))
    graph = layers()
    executable = run(device, graph, [reference()])
    assert not isinstance(executable, PartitionedExecutable)
    assert device.backend.compiled == [graph]  # type: ignore[attr-defined]


def test_segments_alternate_and_moves_are_counted() -> None:
    device, beside = toy("npu", PRODUCTS), reference()
    executable = run(device, layers(), [beside])
    assert [stage.device for stage in executable.stages] == [device, beside, device, beside, device]
    # Each tanh goes there and back; x and w are where the products are.
    assert executable.transfers == 4
    assert executable.transferred_bytes == 4 * 2 * 3 * 4
    assert executable.fallbacks == 2
    assert (device.transfers, device.transferred_bytes, device.fallbacks) == (4, 96, 2)
    assert beside.transfers == 0


def test_counts_add_up_over_calls() -> None:
    device = toy("npu", PRODUCTS)
    device.companions = (reference(),)
    for calls in (1, 2, 3):
        x, w = (calor.asarray(np.ones(n, np.float32), device=device) for n in ((2, 3), (3, 3)))
        np.testing.assert_allclose(calor.tanh(x @ w).numpy(), np.tanh(3), rtol=1e-6)
        assert (device.fallbacks, device.transfers) == (calls, 2 * calls)
        assert device.transferred_bytes == calls * 48


def test_an_input_that_a_companion_reads_twice_is_moved_once() -> None:
    device = toy("npu", PRODUCTS)
    graph = calor.trace(lambda x: (calor.exp(x), x @ x, calor.tanh(x)), calor.ones((3, 3)))
    executable = run(device, graph, [reference()])
    # x goes over once, two results come back.
    assert executable.transfers == 3


def test_a_device_that_takes_nothing_leaves_all_to_its_companion() -> None:
    device, beside = toy("npu"), reference()
    graph = sample("training step")
    executable = run(device, graph, [beside])
    assert {stage.device for stage in executable.stages} == {beside}
    assert executable.fallbacks == len(graph.nodes)


def test_without_a_companion_every_refused_op_is_named_with_its_reason() -> None:
    with pytest.raises(UnsupportedError) as caught:
        compile_graph(toy("npu", PRODUCTS), layers())
    text = str(caught.value)
    assert text.startswith("npu:0 does not take 2 of 5 ops (tanh: not in the device's op table")
    assert "(2 times)" in text
    assert 'calor.device("router:npu,numpy")' in text


def test_a_refusal_by_all_says_what_each_said() -> None:
    with pytest.raises(UnsupportedError) as caught:
        compile_graph(toy("npu", PRODUCTS), layers(), [toy("dsp", ("exp",))])
    text = str(caught.value)
    assert "tanh: npu:0 says not in the device's op table, dsp:0 says not in" in text
    assert "router:npu,dsp,numpy" in text


def test_a_refusal_reaches_the_user_who_looks() -> None:
    x = calor.ones(3, device=toy("npu", ("full",)))
    y = calor.tanh(x)
    with pytest.raises(UnsupportedError, match="does not take 1 of 2 ops .tanh: not in"):
        y.numpy()
    assert x.tolist() == [1, 1, 1]


def test_companions_are_asked_in_their_order() -> None:
    device = toy("npu", PRODUCTS)
    first, second = toy("dsp", ("tanh",)), toy("gpu", ("tanh", "neg"))
    graph = calor.trace(lambda x: calor.tanh(x @ x) - (-x), calor.ones((3, 3)))
    executable = run(device, graph, [first, second, reference()])
    where = {n.op.name: s.device.name for s in executable.stages for n in s.segment.graph.nodes}
    assert where == {
        "dot_general": "npu:0",
        "tanh": "dsp:0",
        "neg": "gpu:0",
        "sub": "numpy:0",
    }


def test_the_devices_own_companions_come_after_those_that_are_given() -> None:
    device = toy("npu", PRODUCTS)
    own, given = toy("own", ("tanh",)), toy("given", ("tanh",))
    device.companions = (own,)
    executable = run(device, layers(), [given])
    assert own not in {stage.device for stage in executable.stages}


def test_a_type_that_the_device_lacks_is_a_reason() -> None:
    only = {float32: State("full"), float64: impossible("the arithmetic is single")}
    device = toy("npu", ("exp", "cast"), dtypes=only)
    graph = calor.trace(lambda x: calor.exp(calor.exp(x).astype("float64")), calor.ones(3))
    with pytest.raises(UnsupportedError, match=r"float64 is impossible .the arithmetic is single"):
        compile_graph(device, graph)
    executable = run(device, graph, [reference()])
    assert executable.fallbacks == 2


def test_a_type_within_a_sub_graph_is_a_reason() -> None:
    device = toy("npu", ("while_loop", "cast"), dtypes={float32: State("full")})
    with pytest.raises(UnsupportedError, match="while_loop: in its sub-graph, bool is impossible"):
        compile_graph(device, sample("while"))


def test_composites_are_kept_where_they_are_taken_and_decomposed_elsewhere() -> None:
    graph = calor.trace(lambda x: calor.softmax(x, axis=1), calor.ones((2, 3)))
    assert [node.op.name for node in graph.nodes] == ["softmax"]
    whole = toy("whole", ("softmax",))
    run(whole, graph)
    assert whole.backend.compiled == [graph]  # type: ignore[attr-defined]
    small = toy("small", ("max", "sum", "sub", "exp", "div", "expand", "reshape", "where", "full"))
    small.backend.takes |= {"isfinite", "isinf", "equal", "cast"}  # type: ignore[attr-defined]
    run(small, graph)
    (compiled,) = small.backend.compiled  # type: ignore[attr-defined]
    assert "exp" in [node.op.name for node in compiled.nodes]


def test_parts_of_a_claim_are_compiled_apart() -> None:
    device = toy("npu", ("dot_general", "tanh"), apart=True)
    executable = run(device, layers())
    assert [len(stage.segment.nodes) for stage in executable.stages] == [1] * 5
    assert (executable.transfers, executable.fallbacks) == (0, 0)


def test_a_claim_that_contradicts_itself_is_an_error_not_a_loop() -> None:
    class Fickle(Toy):
        def claim(self, index: int, graph: Graph) -> Claim:
            half = len(graph.nodes) // 2
            nodes = tuple(range(len(graph.nodes)))
            return Claim((nodes[:half], nodes[half:])) if half else Claim(((), nodes))

    graph = calor.trace(calor.tanh, calor.ones(3))
    with pytest.raises(UnsupportedError, match="in parts, and no part of it alone; its claim is"):
        compile_graph(Device(Fickle("npu", ("tanh",)), 0), graph)


def test_explain_names_devices_transfers_and_reasons() -> None:
    text = run(toy("npu", PRODUCTS), layers(), [reference()]).explain()
    assert text.splitlines() == [
        "5 segments on npu:0, numpy:0; each call moves 4 values, 96 bytes",
        "  1. npu:0: 1 dot_general",
        "  2. numpy:0: 1 tanh",
        "  3. npu:0: 1 dot_general",
        "  4. numpy:0: 1 tanh",
        "  5. npu:0: 1 dot_general",
        "  npu:0 refused 2 tanh: not in the device's op table",
    ]


@pytest.mark.parametrize("takes", [(), PRODUCTS, ELEMENTWISE, (*PRODUCTS, *ELEMENTWISE)])
@pytest.mark.parametrize("name", ["training step", "hosts", "scan", "movement", "many"])
def test_values_do_not_depend_on_the_cut(name: str, takes: tuple[str, ...]) -> None:
    if name == "many":
        # A hundred products in a row overflow; inputs of zeros do not.
        graph = sample(name)
        device = toy("npu", takes)
        executable = compile_graph(device, graph, [reference()])
        made = executable([device.backend.upload(0, np.zeros((4, 4), np.float32))])
        assert not any(device.backend.download(0, b, graph.output_specs[0]).any() for b in made)
    else:
        run(toy("npu", takes), sample(name), [reference()])


def test_outputs_are_written_in_place_and_share_no_memory() -> None:
    device = toy("npu", PRODUCTS)
    graph = calor.trace(lambda x: (calor.exp(x @ x), x, x), calor.ones((2, 2)))
    executable = compile_graph(device, graph, [reference()])
    x = device.backend.upload(0, np.eye(2, dtype=np.float32))
    target = device.backend.upload(0, np.zeros((2, 2), np.float32))
    made = executable([x], [target, None, None])
    assert made[0] is target
    known = graph.output_specs[0]
    np.testing.assert_allclose(device.backend.download(0, target, known), np.exp(np.eye(2)))
    assert len({id(b) for b in (x, *made)}) == 4
    arrays: list[Any] = [b.array for b in (x, *made)]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[i + 1 :])


def test_a_stage_that_fails_leaves_what_is_written_in_place_as_it_was() -> None:
    device, beside = toy("npu", PRODUCTS), reference()
    graph = calor.trace(lambda x: (x @ x, calor.exp(x)), calor.ones((2, 2)))
    executable = compile_graph(device, graph, [beside])
    x = device.backend.upload(0, np.eye(2, dtype=np.float32))
    target = device.backend.upload(0, np.full((2, 2), 7, np.float32))
    beside.backend.set_memory_limit(0, 1)
    with pytest.raises(OutOfMemoryError):
        executable([x], [target, None])
    assert device.backend.download(0, target, graph.output_specs[0]).tolist() == [[7, 7], [7, 7]]
    beside.backend.set_memory_limit(0, None)
    executable([x], [target, None])
    assert device.backend.download(0, target, graph.output_specs[0]).tolist() == [[1, 0], [0, 1]]


def random_graph(seed: int) -> tuple[Graph, list[int]]:
    """A graph of additions of random earlier values, and a colour for each node."""
    chance = random.Random(seed)
    builder = Builder()
    values = [builder.input(spec((2,), float32)) for _ in range(2)]
    for _ in range(chance.randrange(1, 40)):
        recent = values[-chance.randrange(2, 8) :]
        values += builder.add(e.add, [chance.choice(recent), chance.choice(recent)])
    outputs = chance.sample(values, min(3, len(values)))
    graph = builder.build(outputs)
    return graph, [chance.randrange(chance.randrange(1, 4)) for _ in graph.nodes]


@pytest.mark.parametrize("seed", range(60))
def test_segments_are_a_schedule_of_all_nodes(seed: int) -> None:
    graph, colours = random_graph(seed)
    segments = cut(graph, colours)
    assert sorted(i for s in segments for i in s.nodes) == list(range(len(graph.nodes)))
    arrays = [np.array([1, 2], np.float32), np.array([3, 4], np.float32)]
    held = dict(zip(graph.inputs, arrays, strict=True))
    for before, segment in zip([None, *segments], segments, strict=False):
        assert {colours[i] for i in segment.nodes} == {segment.colour}
        assert before is None or before.colour != segment.colour
        verify(segment.graph)
        # A KeyError here would be a segment that reads what a later one makes.
        made = interpret(segment.graph, [held[v] for v in segment.inputs])
        held.update(zip(segment.outputs, made, strict=True))
    for v, wanted in zip(graph.outputs, interpret(graph, arrays), strict=True):
        np.testing.assert_array_equal(held[v], wanted)


def test_nodes_that_can_run_together_do() -> None:
    builder = Builder()
    x = builder.input(spec((2,), float32))
    firsts = [builder.add(e.neg, [x])[0] for _ in range(4)]
    graph = builder.build([builder.add(e.exp, [v])[0] for v in firsts])
    assert [len(s.nodes) for s in cut(graph, [0] * 4 + [1] * 4)] == [4, 4]
    # Recorded in turn, the colours still make one segment each.
    assert [len(s.nodes) for s in cut(graph, [0, 1, 0, 1, 0, 1, 0, 1])] == [4, 4]


def test_a_graph_without_nodes_is_the_devices_own() -> None:
    executable = run(toy("npu"), sample("identity"))
    assert not isinstance(executable, PartitionedExecutable)
