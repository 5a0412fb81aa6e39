"""Running a graph on tensors, and gradients through a jitted call.

A jitted call whose result can be differentiated keeps its inputs; when a gradient is asked for, a
second program runs the graph and its backward pass in one call. A gradient of a gradient replays
the graph op by op, so that it is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from calor import tree
from calor.graph.graph import Graph
from calor.graph.record import apply, host
from calor.graph.trace import Handle, local, wrap
from calor.ops.control import scan
from calor.transforms.records import Custom, Leaf, Projection, backpropagate, enable_grad

if TYPE_CHECKING:
    from calor.transforms.binding import Binding
    from calor.transforms.program import Program


def replay(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """Record a graph's nodes on these inputs (tensors, or numbers for host inputs)."""
    values: dict[int, Any] = {}
    device = next((x._value.device for x in inputs if isinstance(x, Handle)), None)
    for i, given in zip(graph.inputs, inputs, strict=True):
        if not isinstance(given, Handle):
            from calor.backends.selection import current_device

            given = host(given, graph.specs[i], device or current_device())
        values[i] = given
    for node in graph.nodes:
        given = [values[i] for i in node.inputs]
        attributes = node.attributes
        if node.op is scan and local.grad_enabled and any(x._record is not None for x in given):
            # A loop inside a sub-graph was traced without gradients; now one may be asked for.
            attributes = {**attributes, "keep": True}
        made = apply(node.op, *given, **attributes)
        made = made if isinstance(made, tuple) else (made,)
        # What a scan keeps for its gradient comes last, and only its record reads it.
        values.update(zip(node.outputs, made, strict=False))
    return [values[o] for o in graph.outputs]


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


def _held(binding: Binding, source: Any) -> Any:
    """Return a tensor on what a graph input holds now: a captured tensor's value, or a constant."""
    if type(source) is not int:
        return wrap(source)
    handle = binding.handles[source]
    return wrap(handle._value, handle._record)


def differentiable_call(
    program: Program,
    tensors: list[Any],
    binding: Binding,
    values: list[Any],
    buffers: list[Any],
) -> Any:
    """Call a program and give its floating results a gradient record."""
    traced = program.traced
    # What the graph reads, held as it is now: the handles may be given other values later.
    sources = [_held(binding, s) for s in traced.sources]
    numbers = buffers[len(tensors) : len(buffers) - len(sources)]
    inputs: list[Any] = [*[wrap(t._value, t._record) for t in tensors], *numbers, *sources]
    wanted = [i for i, x in enumerate(inputs) if isinstance(x, Handle) and x._record is not None]
    result = program.finish(tensors, binding, values, buffers)
    if not wanted:
        return result
    graph = program.graph

    def pull(gs: list[Any]) -> list[Any]:
        present = {o: g for o, g in enumerate(gs) if g is not None}
        if local.grad_enabled or local.jit:
            return list(pull_back(graph, inputs, wanted, present))
        if program.backward is None:
            program.backward = {}
        key = (tuple(wanted), tuple(present))
        compiled = program.backward.get(key)
        if compiled is None:
            from calor.transforms.jit import jit

            def run(args: list[Any], gradients: dict[int, Any]) -> Any:
                return pull_back(graph, args, list(key[0]), gradients)

            run.__name__ = f"backward of {program.name}"
            compiled = program.backward[key] = jit(run)
        bare = [wrap(x._value) if isinstance(x, Handle) else x for x in inputs]
        return list(compiled(bare, present))

    parents = tuple(inputs[i]._record for i in wanted)
    record = Custom(parents, pull, len(graph.outputs), graph.output_specs)
    leaves, structure = tree.flatten(result)
    for (is_tensor, slot), leaf in zip(traced.leaves, leaves, strict=True):
        if is_tensor and leaf.dtype.is_inexact:
            leaf._record = Projection(record, slot)
    return tree.unflatten(structure, leaves)
