"""The declarations of a device: well formed, constant, and true."""

from __future__ import annotations

from collections import Counter
from functools import cache, partial

import calor
from calor.backends.protocol import FEATURES, FULL, Claim, Info, State
from calor.dtypes import ALL
from calor.graph.graph import Graph
from calor.ops.base import table

from .base import Place
from .contract import Contracts

contract = Contracts("features")


@contract("info speaks in the protocol's own terms, and does not change", dtypes=(), looks=False)
def description(place: Place) -> None:
    info = place.plain.backend.info(place.plain.index)
    assert isinstance(info, Info), f"info returned a {type(info).__name__}"
    assert info.description, "the description is empty"
    for name, state in info.features.items():
        assert name in FEATURES, f"{name!r} is no feature; there are {', '.join(FEATURES)}"
        _explained(f"feature {name}", state)
    for dtype, state in info.dtypes.items():
        assert dtype in ALL, f"{dtype!r} is no dtype of calor"
        _explained(f"dtype {dtype.name}", state)
    for dtype in info.flushes:
        declared = info.dtypes.get(dtype, FULL)
        assert dtype.is_inexact, f"{dtype.name} has no numbers to flush"
        assert declared.level == "partial", f"{dtype.name} flushes, and is {declared}, not partial"
    known = table()
    for key, state in info.ops.items():
        name = key[0] if isinstance(key, tuple) else key
        assert name in known, f"{name!r} is no op of the table"
        _explained(f"op {key}", state)
    for name, limit in info.limits.items():
        assert type(limit) is int, f"limit {name} is {limit!r}"
    again = place.plain.backend.info(place.plain.index)
    assert again == info, "info said something else at the second call"
    for _ in range(2):
        count = place.plain.backend.enumerate()
        assert type(count) is int, f"enumerate returned {count!r}"
        assert count > place.plain.index, f"{place.plain.name} is in use, and {count} are counted"


def _explained(what: str, state: State) -> None:
    assert isinstance(state, State), f"the state of {what} is {state!r}"
    if state.level in ("partial", "impossible"):
        assert len(state.reason) > 3, f"{what} is {state.level} without a reason"


@contract(
    "claim and info agree: nothing is taken that info rules out, nothing refused unexplained",
    tier="full",
    looks=False,
)
def claims(place: Place) -> None:
    device = place.plain
    for graph in _one_of_each_op():
        claim = device.backend.claim(device.index, graph)
        _consistent(graph, claim)
        taken = {i for part in claim.parts for i in part}
        for i, why in device.info.objections(graph).items():
            assert i not in taken, (
                f"{graph.nodes[i].op.name} is claimed although {why}: a capability is held back, "
                f"or claimed and not held; make info and claim agree"
            )
        for i, node in enumerate(graph.nodes):
            explicit = device.info.ops.get(node.op.name)
            assert i in taken or not explicit or explicit.level != "full", (
                f"info.ops says {node.op.name} is full, and claim refuses it: "
                f"{claim.reasons.get(i)}; a capability is claimed and not held"
            )


@cache
def _one_of_each_op() -> list[Graph]:
    """Return a graph of the first row of each op."""
    from ..rows.tables import CASES
    from .rows import main_dtype

    rows = {c.op: c for c in reversed(CASES) if c.inputs and isinstance(c.operation, str)}
    graphs = []
    with calor.device("numpy"):
        for c in rows.values():
            dtype = main_dtype(c)
            tensors = [calor.asarray(a) for a in c.draw(dtype)]
            graphs.append(calor.trace(partial(c.call, dtype=dtype), *tensors))
    return graphs


def _consistent(graph: Graph, claim: Claim) -> None:
    """Raise AssertionError unless each node is in one part or refused with a reason."""
    assert isinstance(claim, Claim), f"claim returned a {type(claim).__name__}"
    counts = Counter(i for part in claim.parts for i in part)
    assert all(claim.parts), f"a part of the claim is empty: {claim.parts}"
    for i, node in enumerate(graph.nodes):
        assert counts[i] < 2, f"{node.op.name} is claimed in two parts: {claim.parts}"
        assert counts[i] or claim.reasons.get(i), f"{node.op.name} is refused without a reason"
        both = counts[i] and i in claim.reasons
        assert not both, f"{node.op.name} is claimed and refused: {claim.reasons.get(i)}"


CHECKS = contract.checks
