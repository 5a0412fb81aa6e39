"""Control flow: If, Loop and Scan. Their bodies can read values of the enclosing graph."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import helper

from calor.dtypes import bool_, int64
from calor_onnx.exporting.graphs import row, write
from calor_onnx.exporting.moving import ramp
from calor_onnx.exporting.program import Merged, Step, Value
from calor_onnx.exporting.writer import Writer, element


def _info(name: str, value: Value) -> onnx.ValueInfoProto:
    sizes = [n if isinstance(n, int) else None for n in value.shape]
    return helper.make_tensor_value_info(name, element(value.dtype), sizes)


def _named(w: Writer, names: Sequence[str]) -> list[str]:
    """Return outputs that are computed by nodes of this graph, each once, as ONNX requires."""
    made = {name for node in w.nodes for name in node.output}
    outputs: list[str] = []
    for name in names:
        if name not in made or name in outputs:
            name = w.emit("Identity", [name], (w.type_of(name),))[0]
        outputs.append(name)
    return outputs


def _graph(
    w: Writer,
    name: str,
    inputs: Sequence[tuple[str, Value]],
    outputs: Sequence[str],
    values: Sequence[Value],
) -> onnx.GraphProto:
    ends = _named(w, outputs)
    return helper.make_graph(
        w.nodes,
        w.fresh(name),
        [_info(*pair) for pair in inputs],
        [_info(*pair) for pair in zip(ends, values, strict=True)],
    )


def _results(body: Merged) -> list[Value]:
    return [body.values[o] for o in body.outputs]


@row("cond")
def cond(w: Writer, step: Step, predicate: str, *operands: str) -> tuple[str, ...]:
    branches = {}
    for name, key in (("then_branch", "then"), ("else_branch", "otherwise")):
        inside, body = w.child(), step.attributes[key]
        made = write(body, operands, inside)
        branches[name] = _graph(inside, key, [], made, _results(body))
    return w.emit("If", [predicate], [v.dtype for v in step.gives], **branches)


@row("while_loop")
def while_loop(w: Writer, step: Step, *operands: str) -> tuple[str, ...]:
    first, second = step.attributes["captures"]
    condition, body = step.attributes["condition"], step.attributes["body"]
    tests, holds = operands[:first], operands[first : first + second]
    start = operands[first + second :]
    begins = write(condition, [*start, *tests], w)[0]
    inside = w.child()
    carried = [inside.value("carried", v.dtype) for v in step.gives]
    count, going = inside.value("count", int64), inside.value("going", bool_)
    made = write(body, [*carried, *holds], inside)
    goes_on = write(condition, [*made, *tests], inside)[0]
    scalar = Value((), bool_)
    graph = _graph(
        inside,
        "loop",
        [(count, Value((), int64)), (going, scalar), *zip(carried, step.gives, strict=True)],
        [goes_on, *made],
        [scalar, *step.gives],
    )
    return w.emit("Loop", ["", begins, *start], [v.dtype for v in step.gives], body=graph)


@row("scan")
def scan(w: Writer, step: Step, *operands: str) -> tuple[str, ...]:
    a = step.attributes
    body, carries, held = a["body"], a["carries"], a["captures"]
    start, xs = operands[held : held + carries], list(operands[held + carries :])
    rows = [Value(v.shape[1:], v.dtype) for v in step.takes[held + carries :]]
    inside = w.child()
    carried = [inside.value("carried", v.dtype) for v in step.gives[:carries]]
    elements = [inside.value("row", v.dtype) for v in rows]
    made = write(body, [*carried, *elements, *operands[:held]], inside)
    inputs = [*zip(carried, step.gives[:carries], strict=True), *zip(elements, rows, strict=True)]
    if not xs:
        # A Scan takes its length from an input, so it needs one.
        xs = [ramp(w, a["length"])]
        inputs.append((inside.value("count", int64), Value((), int64)))
    ends, values = list(made), _results(body)
    if a["keep"]:
        ends += carried
        values += step.gives[:carries]
    graph = _graph(inside, "scan", inputs, ends, values)
    directions = [int(a["reverse"])]
    stacked = len(ends) - carries
    order = {"scan_output_directions": directions * stacked} if stacked else {}
    return w.emit(
        "Scan",
        [*start, *xs],
        [v.dtype for v in step.gives],
        body=graph,
        num_scan_inputs=len(xs),
        scan_input_directions=directions * len(xs),
        **order,
    )
