"""If, Loop, Scan, SequenceMap and function calls as source: calor's control flow, or Python's.

Requirements: control flow that calor takes as one operation is written so, which keeps the source
compilable and trainable. If shapes differ between turns it becomes an ``if`` or a ``for``.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from calor_onnx.constants import Constant
from calor_onnx.graph import Graph, Node, used_by
from calor_onnx.naming import Names, plain
from calor_onnx.source_text import wrapped
from calor_onnx.watching import Form, passes, without_condition

# Indentation of a method's statements, and one more level.
MARGIN, DEEPER = " " * 8, " " * 4


class Expressions(Protocol):
    """The writer of the source: how it writes the nodes and values of a graph."""

    names: Names
    ways: dict[int, str]

    def within(self, graph: Graph, *, alone: bool = False) -> AbstractContextManager[None]:
        """Write the inside of a sub-graph; with ``alone`` it sees no enclosing graph."""
        ...

    def statements(self, nodes: list[Node]) -> list[str]:
        """Return the lines of nodes."""
        ...

    def form(self, name: str) -> Form:
        """Return the rank of a value and whether it is floating, or None for a host value."""
        ...

    def constant(self, name: str) -> Constant | None:
        """Return a constant of the graph that is written, or of an enclosing graph, or None."""
        ...

    def operand(self, name: str) -> str:
        """Return the expression of a value."""
        ...

    def tensor(self, name: str) -> str:
        """Return the expression of a value where a tensor is needed."""
        ...

    def scalar(self, name: str) -> str:
        """Return the expression of a value where a 0-d tensor is needed."""
        ...

    def number(self, name: str) -> str:
        """Return the expression of a value where a Python number is needed."""
        ...


def control_lines(writer: Expressions, node: Node) -> list[str]:
    """Return the statements of a branch or loop."""
    way = writer.ways.get(id(node), "plain")
    targets = [writer.names.of(name) if name else "_" for name in node.outputs]
    if node.op == "If":
        return (_cond if way == "cond" else _if)(writer, node, targets)
    body: Graph = node.attributes["body"]
    if node.op == "Scan":
        return _scan(writer, node, body, targets)
    forms = {"scan": _counted, "while": _while}
    return forms.get(way, _for)(writer, node, body, targets)


def call_lines(writer: Expressions, node: Node) -> list[str]:
    """Return the statements of a call of a model's function."""
    body = node.bodies.get(None)
    if body is None:
        # The function was not called during the run.
        body = node.operator.function.body(node, ())  # type: ignore[union-attr]
    function = writer.names.fresh(node.op)
    with writer.within(body, alone=True):
        arguments = [writer.names.of(info.name) for info in body.inputs]
        lines = writer.statements(body.nodes)
        found = [writer.operand(info.name) for info in body.outputs]
    given = [writer.operand(name) for name in node.inputs]
    given += ["None"] * (len(arguments) - len(given))
    targets = [writer.names.of(name) if name else "_" for name in node.outputs]
    targets = _padded(targets, len(found))
    call = f"{MARGIN}{', '.join(targets)} = {function}({', '.join(given)})"
    lines.append(f"{MARGIN}return {', '.join(found)}")
    return [*_function(f"{function}({', '.join(arguments)})", lines), "", *wrapped(call)]


def mapped_lines(writer: Expressions, node: Node) -> list[str]:
    """Return the statements of a body that is called for each element of a sequence."""
    body: Graph = node.attributes["body"]
    function, turns = _base(writer, node, "each"), _base(writer, node, "turns")
    with writer.within(body):
        arguments = [writer.names.of(info.name) for info in body.inputs]
        lines = writer.statements(body.nodes)
        found = [writer.operand(info.name) for info in body.outputs]
    lines.append(f"{MARGIN}return [{', '.join(found)}]")
    sequence, *others = (writer.operand(name) for name in node.inputs)
    # Other sequences give an element for each, and other values are the same for all.
    given = ["value", *(f"{o}[i] if isinstance({o}, list) else {o}" for o in others)]
    call = f"{turns} = [{function}({', '.join(given)}) for i, value in enumerate({sequence})]"
    made = [f"{MARGIN}{writer.names.of(name)} = [turn[{k}] for turn in {turns}]"
            for k, name in enumerate(node.outputs) if name]  # fmt: skip
    head = f"{function}({', '.join(arguments)})"
    return [*_function(head, lines), "", *wrapped(f"{MARGIN}{call}"), *made]


def _indented(lines: list[str]) -> list[str]:
    return [DEEPER + line if line else line for line in lines]


def _tuple(names: list[str]) -> str:
    """Return assignment targets that unpack a list."""
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)


def _taking(names: list[str], of: str) -> list[str]:
    return [f"{MARGIN}{_tuple(names)} = {of}"] if names else []


def _padded(targets: list[str], count: int) -> list[str]:
    return [*targets, *["_"] * (count - len(targets))]


def _base(writer: Expressions, node: Node, more: str) -> str:
    title = node.name.strip("/").replace("/", "_") or node.outputs[0]
    return writer.names.fresh(f"{plain(title)}_{more}")


def _function(head: str, lines: list[str]) -> list[str]:
    return ["", f"{MARGIN}def {head}:", *_indented(lines)]


def _cond(writer: Expressions, node: Node, targets: list[str]) -> list[str]:
    lines, functions = [], []
    for key, more in (("then_branch", "then"), ("else_branch", "else")):
        branch = node.attributes[key]
        name = _base(writer, node, more)
        functions.append(name)
        with writer.within(branch):
            body = writer.statements(branch.nodes)
            found = [writer.tensor(info.name) for info in branch.outputs]
        given = found[0] if len(found) == 1 else f"[{', '.join(found)}]"
        lines += _function(f"{name}()", [*body, f"{MARGIN}return {given}"])
    wanted = _padded(targets, len(node.attributes["then_branch"].outputs))
    condition = writer.scalar(node.inputs[0])
    call = f"calor.cond({condition}, {', '.join(functions)})"
    return [*lines, "", *wrapped(f"{MARGIN}{', '.join(wanted)} = {call}")]


def _if(writer: Expressions, node: Node, targets: list[str]) -> list[str]:
    lines = [f"{MARGIN}if {writer.operand(node.inputs[0])}.item():"]
    for key, more in (("then_branch", f"{MARGIN}else:"), ("else_branch", "")):
        branch = node.attributes[key]
        with writer.within(branch):
            body = writer.statements(branch.nodes)
            found = [
                writer.tensor(info.name) if writer.form(name) else writer.operand(info.name)
                for name, info in zip(node.outputs, branch.outputs, strict=False)
            ]
        body.append(f"{MARGIN}{', '.join(targets)} = {', '.join(found)}")
        lines += [*_indented(body), *filter(None, [more])]
    return lines


def _counted(writer: Expressions, node: Node, body: Graph, targets: list[str]) -> list[str]:
    trips, carried = writer.number(node.inputs[0]), node.inputs[2:]
    turn, holds, *held = [writer.names.of(info.name) for info in body.inputs]
    function = _base(writer, node, "step")
    nodes = without_condition(body)
    with writer.within(body):
        lines = _taking(held, "carry")
        if any(body.inputs[1].name in used_by(n) for n in nodes):
            lines.append(f"{MARGIN}{holds} = np.array(True)")
        lines += writer.statements(nodes)
        last, rows = _results(writer, body.outputs[1:], len(carried))
    lines.append(f"{MARGIN}return {last}, {rows}")
    xs = f"calor.arange({trips}, dtype=calor.int64)"
    init = [writer.tensor(name) for name in carried]
    call = f"calor.scan({function}, [{', '.join(init)}], {xs})"
    return [
        *_function(f"{function}(carry, {turn})", lines),
        *_given(_padded(targets, len(body.outputs) - 1), len(carried), call),
    ]


def _results(writer: Expressions, infos: Any, kept: int) -> tuple[str, str]:
    found = [writer.tensor(info.name) for info in infos]
    return f"[{', '.join(found[:kept])}]", f"[{', '.join(found[kept:])}]"


def _given(targets: list[str], kept: int, call: str) -> list[str]:
    """Return the statement that unpacks the result of a scan."""
    last, rows = targets[:kept], targets[kept:]
    first, second = (f"[{', '.join(names)}]" if names else "_" for names in (last, rows))
    return ["", *wrapped(f"{MARGIN}{first}, {second} = {call}")]


def _while(writer: Expressions, node: Node, body: Graph, targets: list[str]) -> list[str]:
    inputs = [*node.inputs, "", ""]
    names = [writer.names.of(info.name) for info in body.inputs]
    holds, step = _base(writer, node, "holds"), _base(writer, node, "step")
    test = "state[1]"
    if inputs[0]:
        known = writer.constant(inputs[0]) is not None
        limit = (writer.number if known else writer.scalar)(inputs[0])
        test = f"calor.logical_and(state[1], state[0] < {limit})"
    with writer.within(body):
        lines = [*_taking(names, "state"), *writer.statements(body.nodes)]
        found = [writer.tensor(info.name) for info in body.outputs[1:]]
        more = ", ".join([f"{names[0]} + 1", writer.scalar(body.outputs[0].name), *found])
    first = writer.scalar(inputs[1]) if inputs[1] else "calor.asarray(True)"
    init = [writer.tensor(name) for name in node.inputs[2:]]
    state = ", ".join(["calor.asarray(0, dtype=calor.int64)", first, *init])
    taken = _padded(targets, len(body.outputs) - 1)
    return [
        *_function(f"{holds}(state)", [f"{MARGIN}return {test}"]),
        *_function(f"{step}(state)", [*lines, f"{MARGIN}return {more}"]),
        "",
        f"{MARGIN}state = ({state})",
        f"{MARGIN}{', '.join(['_', '_', *taken])} = calor.while_loop({holds}, {step}, state)",
    ]


def _for(writer: Expressions, node: Node, body: Graph, targets: list[str]) -> list[str]:
    inputs = [*node.inputs, "", ""]
    turn, holds, *held = [writer.names.of(info.name) for info in body.inputs]
    turns = f"range({writer.number(inputs[0])})" if inputs[0] else "count()"
    kept = len(held)
    first = [writer.operand(inputs[1]) if inputs[1] else "np.array(True)"]
    first += [writer.operand(name) for name in node.inputs[2:]]
    constant = writer.constant(inputs[1]) if inputs[1] else None
    endless = passes(body) and (not inputs[1] or (constant is not None and constant.array().all()))
    nodes = without_condition(body) if endless else body.nodes
    skip = int(endless and not any(body.inputs[1].name in used_by(n) for n in nodes))
    lines = [f"{MARGIN}{', '.join([holds, *held][skip:])} = {', '.join(first[skip:])}"]
    lists = [writer.names.fresh(f"{plain(info.name)}_turns") for info in body.outputs[1 + kept :]]
    lines += [f"{MARGIN}{name} = []" for name in lists]
    lines.append(f"{MARGIN}for {turn} in map(np.array, {turns}):")
    inner = []
    if not endless:
        inner += [f"{MARGIN}if not {holds}.item():", f"{MARGIN}    break"]
    with writer.within(body):
        inner += writer.statements(nodes)
        found = [writer.operand(info.name) for info in body.outputs]
    for name, value in zip(lists, found[1 + kept :], strict=True):
        inner.append(f"{MARGIN}{name}.append({value})")
    skip = int(endless)
    inner.append(
        f"{MARGIN}{', '.join([holds, *held][skip:])} = {', '.join(found[skip : 1 + kept])}"
    )
    stacked = [f'onnx("ConcatFromSequence", {name}, axis=0, new_axis=1)' for name in lists]
    given = zip(targets, [*held, *stacked], strict=False)
    made = [f"{MARGIN}{target} = {value}" for target, value in given if target != "_"]
    return [*lines, *_indented(inner), *made]


def _scan(writer: Expressions, node: Node, body: Graph, targets: list[str]) -> list[str]:
    walked: int = node.attributes["num_scan_inputs"]
    kept = len(node.inputs) - walked
    names = [writer.names.of(info.name) for info in body.inputs]
    function = _base(writer, node, "step")
    with writer.within(body):
        lines = [*_taking(names[:kept], "carry"), *_taking(names[kept:], "rows")]
        lines += writer.statements(body.nodes)
        last, rows = _results(writer, body.outputs, kept)
    lines.append(f"{MARGIN}return {last}, {rows}")
    options = {
        key: node.attributes.get(key) or [0] * max(walked, len(body.outputs))
        for key in ("scan_input_axes", "scan_input_directions",
                    "scan_output_axes", "scan_output_directions")
    }  # fmt: skip
    xs = []
    for i, name in enumerate(node.inputs[kept:]):
        text, axis = writer.tensor(name), options["scan_input_axes"][i]
        text = f"calor.moveaxis({text}, {axis}, 0)" if axis else text
        xs.append(f"calor.flip({text}, axis=0)" if options["scan_input_directions"][i] else text)
    init = [writer.tensor(name) for name in node.inputs[:kept]]
    call = f"calor.scan({function}, [{', '.join(init)}], [{', '.join(xs)}])"
    taken = _padded(targets, len(body.outputs))
    made = [*_function(f"{function}(carry, rows)", lines), *_given(taken, kept, call)]
    for i, name in enumerate(taken[kept:]):
        axis, backward = options["scan_output_axes"][i], options["scan_output_directions"][i]
        text = f"calor.flip({name}, axis=0)" if backward else name
        text = f"calor.moveaxis({text}, 0, {axis})" if axis else text
        if text != name and name != "_":
            made.append(f"{MARGIN}{name} = {text}")
    return made
