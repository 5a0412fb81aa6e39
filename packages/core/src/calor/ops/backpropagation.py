"""Taking gradients back along records, and through graphs.

Requirements: a record's gradient is written in ops, so it is recorded where it will be
differentiated again, and nowhere else. A parameter that is cast once and read often has the
gradient that it has if each reader casts it: the readers' gradients are added in its own type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor.dtypes import DType
from calor.graph.graph import Graph
from calor.local import local
from calor.ops.elementwise.conversion import cast
from calor.ops.part_gradients import Part, Parts, part_of
from calor.ops.sources import zeros_of
from calor.recording.records import (
    Custom,
    Leaf,
    Projection,
    Record,
    enable_grad,
    reachable,
    reaches_outside,
)
from calor.recording.replay import replay
from calor.tensor.tensor import wrap


def backpropagate(
    outputs: Sequence[tuple[Any, Any]], leaves: Sequence[Any] | None, create_graph: bool | None
) -> dict[int, Any]:
    """Return the gradient that reaches each leaf, by id of the leaf.

    ``outputs``: pairs of record and gradient. ``leaves``: where to stop, None for every Leaf that
    has a tensor. ``create_graph``: record the gradients themselves; None records them when
    something outside the leaves can be differentiated too (an outer transform).
    """
    stop = frozenset(id(leaf) for leaf in leaves) if leaves is not None else frozenset()
    order = reachable((r for r, _ in outputs), stop)
    if create_graph is None:
        create_graph = reaches_outside(order, stop)
    wanted = _on_path(order, stop) if leaves is not None else None
    gradients: dict[int, Any] = {}
    for record, g in outputs:
        if record is not None:
            _accumulate(gradients, record, g)
    results: dict[int, Any] = {}
    previous, local.grad_enabled = local.grad_enabled, create_graph
    # Gradients have the types of the forward pass, wherever they are asked for.
    autocast, local.autocast = local.autocast, None
    try:
        for record in order:
            g = gradients.pop(id(record), None)
            if g is None or (wanted is not None and id(record) not in wanted):
                continue
            if type(g) is Parts:
                g = g.total()
            if id(record) in stop:
                results[id(record)] = g
            elif type(record) is Leaf:
                if leaves is None and record.tensor is not None:
                    results[id(record)] = g
                if record.parents:
                    _accumulate(gradients, record.parents[0], g)
            elif type(record) is Projection:
                slots = gradients.setdefault(id(record.record), {})
                index = record.index
                slots[index] = slots[index] + g if index in slots else g
            elif type(record) is Record and (box := part_of(record, g)) is not None:
                _accumulate_part(gradients, record.parents[0], *box)
            else:
                for parent, part in zip(record.parents, _pull(record, g), strict=True):
                    if parent is not None and part is not None:
                        _accumulate(gradients, parent, part)
    finally:
        local.grad_enabled = previous
        local.autocast = autocast
    return results


def _pull(record: Any, g: Any) -> Any:
    if type(record) is Record:
        return record.pull(g)
    if type(record) is Custom:
        return record.pull([g.get(i) for i in range(record.outputs)])
    specs = record.recipe.signature.outputs
    device = next(iter(g.values()))._value.device
    if record.recipe.signature.op.partial:
        return record.pull([g.get(i) for i in range(len(specs))])
    return record.pull([g[i] if i in g else zeros_of(s, device) for i, s in enumerate(specs)])


def _on_path(order: Sequence[Any], stop: frozenset[int]) -> set[int]:
    """Return the ids of records from which a leaf of ``stop`` can be reached."""
    wanted: set[int] = set()
    for record in reversed(order):
        if id(record) in stop or any(id(p) in wanted for p in record.parents if p is not None):
            wanted.add(id(record))
    return wanted


def _accumulate(gradients: dict[int, Any], record: Any, g: Any) -> None:
    before = gradients.get(id(record))
    if type(before) is Parts:
        before.add(g)
    elif before is None:
        gradients[id(record)] = g
    else:
        wide = _cast_from(record)
        if wide is not None:
            before, g = (x if x.dtype is wide else cast(x, dtype=wide) for x in (before, g))
        gradients[id(record)] = before + g


def _cast_from(record: Any) -> DType | None:
    """Return the floating type of which a record is a cast to a smaller one, else None."""
    if type(record) is not Record or record.recipe.signature.op is not cast:
        return None
    given, made = record.recipe.signature.inputs[0].dtype, record.recipe.out.dtype
    narrower = given.kind == made.kind == "float" and given.itemsize > made.itemsize
    return given if narrower else None


def _accumulate_part(
    gradients: dict[int, Any], record: Any, shape: tuple[int, ...], part: Part
) -> None:
    before = gradients.get(id(record))
    if type(before) is not Parts:
        made = gradients[id(record)] = Parts(shape)
        if before is not None:
            made.add(before)
        before = made
    before.add_part(part)


def pull_back(
    graph: Graph, inputs: Sequence[Any], wanted: Sequence[int], gs: dict[int, Any]
) -> Any:
    """Return the gradients of the wanted inputs for gradients of some outputs."""
    given = list(inputs)
    leaves = []
    with enable_grad():
        for i in wanted:
            leaf = Leaf(given[i]._record)
            leaves.append(leaf)
            given[i] = wrap(given[i]._value, leaf)
        outputs = replay(graph, given)
        pairs = [(outputs[o]._record, g) for o, g in gs.items()]
    found = backpropagate(pairs, leaves, None)
    return [found.get(id(leaf)) for leaf in leaves]
