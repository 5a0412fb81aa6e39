"""A model as Python source that a person can read and edit, and its weights as a safetensors file.

Requirements: names are those of the graph; nodes that belong together, by their names' scopes, are
one method; common operators are calor's functions, others are called by their ONNX name; running
the source gives the same numbers. What values are, tensors or host arrays, and how many axes they
have, is seen by running the graph once on inputs that are given.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import calor
from calor import Tensor
from calor.errors import UnsupportedError
from calor.safetensors_file import write_safetensors
from calor_onnx.execution import Run, Scope
from calor_onnx.functions import Expansion
from calor_onnx.graph import Graph, Node
from calor_onnx.model import Model
from calor_onnx.modules import trainable
from calor_onnx.naming import Names
from calor_onnx.sections import Section, sections
from calor_onnx.templates import TEMPLATES, Written
from calor_onnx.values import upload

# Constants of more elements are kept in the file of weights, others are written in the source.
INLINE = 32
_ANY_FORM = frozenset({"Identity", "Dropout"})
# Operators that take a tensor even of one element, where others take a number.
_LAYERS = frozenset(
    {"BatchNormalization", "Conv", "ConvTranspose", "Gemm", "InstanceNormalization", "PRelu"}
)

_HEAD = '''"""{title}, written from an ONNX model by calor-onnx, to be read and edited.

``Model()`` loads its weights from the file of the same name that ends in .safetensors.
"""

from functools import partial
from pathlib import Path

import numpy as np

import calor
from calor import nn
from calor.nn import functional as F
from calor_onnx import apply

# Operators that calor has under no name of its own.
onnx = partial(apply, version={version})


class Model(nn.Module):
    """{inputs} -> {outputs}"""

    def __init__(self, weights=Path(__file__).with_suffix(".safetensors"), device=None):
        stored = calor.load(weights, device=device)
'''


class _Watching(Run):
    """A run that remembers what each value was."""

    def __init__(self, device: Any) -> None:
        super().__init__(device, {}, traced=False)
        self.seen: dict[str, Any] = {}

    def node(self, node: Node, scope: Scope) -> None:
        drop, node.drop = node.drop, ()
        try:
            super().node(node, scope)
        finally:
            node.drop = drop
        for name in node.outputs:
            if name in scope.values:
                self.seen[name] = _form(scope.values[name])
        for name in drop:
            scope.values.pop(name, None)


def _form(value: Any) -> Any:
    """Return the rank and whether the type is floating of a tensor; None for other values."""
    return (value.ndim, value.dtype.is_floating) if isinstance(value, Tensor) else None


def to_python(model: Model, path: str | os.PathLike[str], given: Mapping[str, Any]) -> Path:
    """Write a model as Python source to ``path``, its weights beside it; return the source's path.

    ``given`` are inputs by name, on which the graph is run once to learn the forms of its values.
    Raises UnsupportedError, naming the nodes, for branches, loops and functions of the model.

    >>> import calor_onnx, numpy as np, onnx, tempfile
    >>> model = calor_onnx.load(onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 17]>
    ...     double (float[N] x) => (float[N] y) { y = Add (x, x) }'''), device="numpy")
    >>> path = calor_onnx.to_python(
    ...     model, tempfile.mkdtemp() + "/double.py", {"x": np.ones(2, np.float32)})
    >>> "y = x + x" in path.read_text()
    True
    """
    source = Path(path)
    writer = _Writer(model, given)
    text = writer.text(source.stem)
    source.write_text(text, "utf-8")
    write_safetensors(source.with_suffix(".safetensors"), writer.stored)
    return source


class _Writer:
    """The text of one model, as it grows."""

    def __init__(self, model: Model, given: Mapping[str, Any]) -> None:
        model.keep_weights()
        self.model = model
        self.graph: Graph = model.graph
        refused = [n.label for n in self.graph.nodes if next(n.subgraphs(), None) is not None
                   or (n.operator and isinstance(n.operator.function, Expansion)
                       and (n.domain, n.op) in model.imported.functions)]  # fmt: skip
        if refused:
            raise UnsupportedError(
                "branches, loops and a model's own functions are not written as Python: "
                + ", ".join(refused[:5])
                + "; calor_onnx.as_module(model) trains such a model"
            )
        self.trained = trainable(self.graph)
        self.of_layers = {n for node in self.graph.nodes if node.op in _LAYERS for n in node.inputs}
        self.names = Names()
        self.stored: dict[str, Any] = {}
        self.attributes: dict[str, str] = {}
        self.lines: list[str] = []
        self.forms = self._watched(given)

    def _watched(self, given: Mapping[str, Any]) -> dict[str, Any]:
        run = _Watching(self.model.device)
        infos = [info for info in self.graph.inputs if info.name not in self.graph.constants]
        values = [
            value if isinstance(value := given[info.name], Tensor | list)
            else upload(np.asarray(value), self.model.device)
            for info in infos
        ]  # fmt: skip
        own = Graph(self.graph.name, infos, self.graph.outputs, self.graph.nodes,
                    self.graph.constants)  # fmt: skip
        with calor.device(self.model.device), calor.no_grad():
            run.graph(own, values)
        found = dict(run.seen)
        found.update({i.name: _form(v) for i, v in zip(infos, values, strict=True)})
        return found

    def text(self, title: str) -> str:
        """Return the whole source."""
        inputs = [info.name for info in self.model.inputs]
        outputs = [info.name for info in self.model.outputs]
        # Methods have their names first, so that no weight takes them.
        parts = sections(self.graph, self.names)
        methods = [self._method(part, parts) for part in parts] if len(parts) > 1 else []
        arguments = [self.names.of(name) for name in inputs]
        body = [f"    def forward({', '.join(['self', *arguments])}):"]
        if methods:
            for part in parts:
                takes, gives = self._ends(part, parts)
                call = f"self.{part.name}({', '.join(map(self.names.of, takes))})"
                body.append(f"        {', '.join(map(self.names.of, gives))} = {call}")
        else:
            body += self._statements(self.graph.nodes)
        body.append(f"        return {', '.join(self._operand(name)[0] for name in outputs)}")
        head = _HEAD.format(
            title=self.model.metadata["graph_name"] or title,
            version=self.model.opsets.get("", 1),
            inputs=", ".join(arguments),
            outputs=", ".join(map(self.names.of, outputs)),
        )
        made = [head + "\n".join(self._declared() or ["        del stored"]), "\n".join(body)]
        return "\n\n".join([*made, *("\n".join(lines) for lines in methods)]) + "\n"

    def _declared(self) -> list[str]:
        lines = []
        for name, attribute in self.attributes.items():
            shape = list(self.graph.constants[name].shape)
            value = f'stored["{attribute}"]'
            if name in self.trained and self.graph.constants[name].dtype.kind == "f":
                lines.append(f"        self.{attribute} = nn.Parameter({value})  # {shape}")
            else:
                lines.append(f'        self.register_buffer("{attribute}", {value})  # {shape}')
        return lines

    def _ends(self, part: Section, parts: list[Section]) -> tuple[list[str], list[str]]:
        """Return the values that a section takes from before it and gives to what follows."""
        made = {name for node in part.nodes for name in node.outputs if name}
        read = [name for node in part.nodes for name in node.inputs if name]
        constants = self.graph.constants.keys()
        takes = [n for n in dict.fromkeys(read) if n not in made and n not in constants]
        later = {info.name for info in self.graph.outputs}
        for other in parts[parts.index(part) + 1 :]:
            later.update(name for node in other.nodes for name in node.inputs)
        order = [name for node in part.nodes for name in node.outputs]
        return takes, [name for name in order if name in later]

    def _method(self, part: Section, parts: list[Section]) -> list[str]:
        takes, gives = self._ends(part, parts)
        head = f"    def {part.name}({', '.join(['self', *map(self.names.of, takes)])}):"
        statements = self._statements(part.nodes)
        return [head, *statements, f"        return {', '.join(map(self.names.of, gives))}"]

    def _statements(self, nodes: list[Node]) -> list[str]:
        lines: list[str] = []
        before = None
        for node in nodes:
            title = (node.name or node.op).rpartition(";")[2]
            scope = title.rpartition("/")[0]
            if scope != before or not scope:
                lines.append(f"        # {title if not scope else scope.strip('/')}")
            before = scope
            lines += _wrapped(self._statement(node))
        return lines

    def _statement(self, node: Node) -> str:
        targets = [self.names.of(name) if name else "_" for name in node.outputs]
        return f"        {', '.join(targets)} = {self._expression(node)}"

    def _expression(self, node: Node) -> str:
        plain, literal = [], []
        constants, ranks, floats = {}, {}, {}
        on_device = True
        for place, name in enumerate(node.inputs):
            text, bare = self._operand(name)
            plain.append(text)
            literal.append(bare)
            constant = self.graph.constants.get(name)
            if constant is not None:
                ranks[place], floats[place] = len(constant.shape), constant.dtype.kind == "f"
                if constant.small:
                    constants[place] = constant.array()
                on_device &= name in self.attributes or constant.size == 1 or place > 0
            elif name:
                form = self.forms.get(name)
                on_device &= form is not None
                if form is not None:
                    ranks[place], floats[place] = form
        made = TEMPLATES.get(node.op) if not node.domain else None
        whole = all(bool(n) for n in node.inputs) and any(self.forms.get(n) for n in node.inputs)
        if made is not None and whole and (on_device or node.op in _ANY_FORM):
            found = made(Written(node, literal, constants, ranks, floats))
            if found is not None:
                return found
        while plain and plain[-1] == "None":
            plain.pop()
        options = [f"{key}={_literal(value)}" for key, value in node.attributes.items()]
        if node.domain:
            options.append(f'domain="{node.domain}"')
        if len(node.outputs) > 1:
            options.append(f"outputs={len(node.outputs)}")
        if node.domain or node.version != self.model.opsets.get("", 1):
            options.append(f"version={node.version}")
        return f"onnx({', '.join([repr(node.op).replace(chr(39), chr(34)), *plain, *options])})"

    def _operand(self, name: str) -> tuple[str, str]:
        """Return how an operand is written, and how as part of an expression of calor's."""
        if not name:
            return "None", "None"
        constant = self.graph.constants.get(name)
        if constant is None:
            return self.names.of(name), self.names.of(name)
        several = constant.size > 1 or name in self.of_layers
        weight = several and name in self.trained and constant.dtype.kind == "f"
        weight |= name in self.of_layers
        if weight or constant.size > INLINE:
            attribute = self.attributes.get(name)
            if attribute is None:
                attribute = self.attributes[name] = self.names.of(name)
                self.stored[attribute] = constant.array()
            return f"self.{attribute}", f"self.{attribute}"
        array = constant.array()
        text = _literal(array)
        return text, _literal(array.reshape(()).item()) if array.size == 1 else text


def _literal(value: Any) -> str:
    """Return a value as Python source."""
    if isinstance(value, np.ndarray):
        kind = "object" if value.dtype == np.object_ else f"np.{value.dtype.name}"
        values = value.tolist()
        return f"np.array({_literal(values)}, {kind})"
    if isinstance(value, float):
        if value != value or abs(value) == float("inf"):
            return f'float("{value}")'
        return repr(float(f"{value:.9g}"))
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return repr(value)


def _wrapped(line: str) -> list[str]:
    """Return a statement in lines of up to 100 columns, broken between a call's arguments."""
    start = line.find("(") + 1
    called = line[start - 2 : start - 1].isidentifier()
    if len(line) <= 100 or not called or not line.endswith(")"):
        return [line]
    pieces, depth, begin = [], 0, start
    for place in range(start, len(line) - 1):
        sign = line[place]
        depth += (sign in "([") - (sign in ")]")
        if depth < 0:
            # What was opened first is closed before the end: this is no call as a whole.
            return [line]
        if sign == "," and not depth:
            pieces.append(line[begin:place].strip())
            begin = place + 1
    pieces.append(line[begin:-1].strip())
    made = [line[:start]]
    row = "           "
    for piece in pieces:
        if len(row) + len(piece) + 2 > 100 and row.strip():
            made.append(row)
            row = "           "
        row += f" {piece},"
    return [*made, row, "        )"]
