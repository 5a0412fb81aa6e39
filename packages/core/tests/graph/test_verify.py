"""The grammar of graphs: each rule has a graph that breaks it alone."""

from collections.abc import Callable
from typing import Any

import pytest

import calor
from calor.dtypes import bool_, float32, int32
from calor.errors import GraphError
from calor.graph.graph import Builder, Graph, Node
from calor.graph.verify import BYTES_LIMIT, DEPTH_LIMIT, NODE_LIMIT, RANK_LIMIT, RULES, verify
from calor.ops import elementwise as e
from calor.ops.base import Op, Scalar
from calor.ops.control import cond
from calor.ops.sources import HostArray, constant, full
from calor.specs import Spec, spec
from sample_graphs import GRAPHS, sample

X = spec((2,), float32)


@pytest.mark.parametrize("name", GRAPHS)
def test_traced_graphs_obey(name: str) -> None:
    verify(sample(name))


def graph(
    *nodes: Node, specs: int | list[Spec] = 1, host: tuple[int, ...] = (), inputs: int = 1
) -> Graph:
    """A graph which returns its last value; a number of specs means that many of X."""
    known = [X] * specs if isinstance(specs, int) else specs
    return Graph(known, host, nodes, [len(known) - 1], inputs)


def node(row: Op = e.neg, inputs: tuple[int, ...] = (0,), **attributes: Any) -> Node:
    return Node(row, inputs, attributes, (1,))


def source(row: Op, **attributes: Any) -> Graph:
    return graph(Node(row, (), attributes, (1,)), specs=2)


# Equal to the row of the table in all but identity.
FOREIGN = object.__new__(Op)
for slot in Op.__slots__:
    setattr(FOREIGN, slot, getattr(e.neg, slot))
DEEP: Any = 1
for _ in range(DEPTH_LIMIT + 2):
    DEEP = (DEEP,)

BROKEN: dict[str, tuple[str, Callable[[], Graph]]] = {
    "a value without a spec": (
        "counts: 2 values are made, 1 have specs",
        lambda: Graph([X], (), [node()], [0], 1),
    ),
    "a spec without a value": (
        "counts: 1 values are made, 3 have specs",
        lambda: Graph([X] * 3, (), [], [0], 1),
    ),
    "a node that is host": ("counts: %1 is host", lambda: graph(node(), specs=2, host=(1,))),
    "a negative size": (
        r"sizes: %0: shape \(-1,\)",
        lambda: graph(specs=[Spec((-1,), float32, False)]),
    ),
    "a size that is no integer": (
        "sizes: %0: shape .* has a size that is no count",
        lambda: graph(specs=[Spec((2.0,), float32, False)]),  # type: ignore[arg-type]
    ),
    "too many axes": (
        f"sizes: %0: {RANK_LIMIT + 1} axes are more than {RANK_LIMIT}",
        lambda: graph(specs=[Spec((1,) * (RANK_LIMIT + 1), float32, False)]),
    ),
    "too many bytes": (
        "sizes: %0: .* is larger than",
        lambda: graph(specs=[Spec((BYTES_LIMIT,), float32, False)]),
    ),
    "a read before the result": (
        "order: neg reads %1 before it is made",
        lambda: graph(node(inputs=(1,)), specs=2),
    ),
    "two nodes that read each other": (
        "order: neg reads %2 before it is made",
        lambda: graph(node(inputs=(2,)), Node(e.neg, (1,), {}, (2,)), specs=3),
    ),
    "results out of order": (
        "order: neg makes %2 where %1 is next",
        lambda: graph(Node(e.neg, (0,), {}, (2,)), Node(e.neg, (0,), {}, (1,)), specs=3),
    ),
    "a result made twice": (
        "order: neg makes %1 where %2 is next",
        lambda: graph(node(), node(), specs=3),
    ),
    "an output that nobody makes": (
        "order: the graph returns %5, which does not exist",
        lambda: Graph([X], (), [], [5], 1),
    ),
    "an op that only has the name": (
        "ops: op 'neg' is not the one of the table",
        lambda: graph(node(FOREIGN), specs=2),
    ),
    "an attribute that is a list": (
        "attributes: neg: a holds a list",
        lambda: graph(node(a=[1]), specs=2),
    ),
    "an attribute that is a function": (
        "attributes: neg: a holds a function",
        lambda: graph(node(a=(1, (lambda: 0,))), specs=2),
    ),
    "a subclass of int": (
        "attributes: neg: a holds a Sneaky",
        lambda: graph(node(a=type("Sneaky", (int,), {})(1)), specs=2),
    ),
    "tuples too deep": (
        f"attributes: tuples are nested more than {DEPTH_LIMIT} deep",
        lambda: graph(node(a=DEEP), specs=2),
    ),
    "an attribute that is a huge spec": (
        "attributes: neg: a: .* is larger than",
        lambda: graph(node(a=Spec((BYTES_LIMIT,), float32, False)), specs=2),
    ),
    "an array that is too short": (
        r"attributes: constant: array: int32\[3\] has 12 bytes, 2 are there",
        lambda: source(constant, array=HostArray("int32", (3,), b"ab"), weak=False),
    ),
    "an array of an unknown type": (
        "attributes: constant: array: .*float7",
        lambda: source(constant, array=HostArray("float7", (3,), b""), weak=False),
    ),
    "a number that is too long": (
        r"attributes: full: value: float32\[\] has 4 bytes, 5 are there",
        lambda: source(full, value=Scalar("float32", b"12345"), shape=(2,), dtype=float32),
    ),
    "a spec that the rule does not make": (
        r"specs: neg of .* makes .*float32\[2\].*, the graph says .*int32\[2\]",
        lambda: graph(node(), specs=[X, spec((2,), int32)]),
    ),
    "operands that the rule refuses": (
        "specs: add of .* refuses: ",
        lambda: graph(
            Node(e.add, (0, 1), {}, (2,)), host=(1,), specs=[X, spec((3,), int32), X], inputs=2
        ),
    ),
    "an operand too few": (
        "operands: add takes 2 operands, not 1",
        lambda: graph(node(e.add), specs=2),
    ),
    "an operand too many": (
        "operands: neg .*2",
        lambda: graph(node(e.neg, (0, 0)), specs=2),
    ),
    "an operand too many of a Python function": (
        "operands: erf of 2 operands: too many positional arguments",
        lambda: graph(node(e.erf, (0, 0)), specs=2),
    ),
    "attributes that the op does not have": (
        "operands: erf of 1 operands: .*colour",
        lambda: graph(node(e.erf, colour="red"), specs=2),
    ),
    "attributes that the rule refuses": (
        "specs: neg of .* refuses: TypeError",
        lambda: graph(node(colour="red"), specs=2),
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_rule_is_named(case: str) -> None:
    match, make = BROKEN[case]
    with pytest.raises(GraphError, match=match):
        verify(make())


def test_every_rule_is_broken_by_a_case() -> None:
    assert {match.partition(":")[0] for match, _ in BROKEN.values()} == set(RULES)


def test_too_many_nodes_are_refused_before_they_are_looked_at() -> None:
    with pytest.raises(GraphError, match=f"counts: {NODE_LIMIT + 1} nodes are more"):
        verify(Graph([X], (), [node()] * (NODE_LIMIT + 1), [0], 1))


def nested(then: Graph, otherwise: Graph) -> Graph:
    """A graph of a bool and an X that runs one of two such graphs."""
    builder = Builder()
    flag = builder.input(spec((), bool_))
    x = builder.input(X)
    attributes = {"then": then, "otherwise": otherwise}
    return builder.build(builder.add(cond, [flag, flag, x], attributes, [X]))


def leaf() -> Graph:
    builder = Builder()
    builder.input(spec((), bool_))
    return builder.build([builder.input(X)])


def test_sub_graphs_are_verified() -> None:
    inner = leaf()
    verify(nested(inner, inner))
    broken = Graph(inner.specs, (), [], [7], 2)
    with pytest.raises(GraphError, match="order: the graph returns %7"):
        verify(nested(inner, broken))


def test_sub_graphs_may_be_shared_many_times_over() -> None:
    made = leaf()
    for _ in range(DEPTH_LIMIT):
        made = nested(made, made)
    verify(made)
    with pytest.raises(GraphError, match=f"nested more than {DEPTH_LIMIT} deep"):
        verify(nested(made, made))


def test_sharing_hides_no_depth() -> None:
    bottom = leaf()
    shared = bottom
    for _ in range(DEPTH_LIMIT - 2):
        shared = nested(shared, shared)
    below = shared
    for _ in range(DEPTH_LIMIT - 2):
        below = nested(below, bottom)
    # The shared part is met near the top first, where it is allowed, and then again below.
    with pytest.raises(GraphError, match=f"nested more than {DEPTH_LIMIT} deep"):
        verify(nested(shared, below))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: calor.bincount(x, length=3),
        lambda x: calor.meshgrid(x, x)[0],
        lambda x: calor.broadcast_to(x[:1], (x.size,)),
    ],
    ids=["bincount", "meshgrid", "broadcast_to"],
)
def test_the_number_of_elements_is_a_plain_size_in_a_graph(
    function: Callable[[Any], Any],
) -> None:
    verify(calor.trace(function, calor.asarray([2, 0, 1], dtype=calor.int64)))
