"""A model as readable Python source, with its weights in a safetensors file.

Requirements: names are those of the graph. Nodes of one scope, by their names, form one method.
Common operators become calor's functions; others are called by their ONNX name. The source computes
the same numbers. One run on given inputs finds which values are tensors and which are host arrays,
and their ranks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import calor
from calor import Tensor
from calor.errors import UnsupportedError
from calor.safetensors_file import write_safetensors
from calor_onnx.constants import Constant
from calor_onnx.graph import Graph, Node, used_by
from calor_onnx.model import Model
from calor_onnx.modules import trainable
from calor_onnx.naming import Names
from calor_onnx.sections import Section, sections
from calor_onnx.source_text import item_literal, literal, wrapped
from calor_onnx.templates import TEMPLATES, Written
from calor_onnx.values import upload
from calor_onnx.watching import CONTROL, Form, Watching
from calor_onnx.writing_control import call_lines, control_lines, mapped_lines

# Constants with more elements go to the file of weights, others into the source.
INLINE = 32
_WITH_BODIES = CONTROL | {"SequenceMap"}
_ANY_FORM = frozenset({"Identity", "Dropout"})
# Operators whose operands stay tensors even with one element; others take a number then.
_LAYERS = frozenset(
    {"BatchNormalization", "Conv", "ConvTranspose", "Gemm", "InstanceNormalization", "PRelu"}
)

_HEAD = '''"""{title}, written from an ONNX model by calor-onnx, to be read and edited.

``Model()`` loads its weights from the file of the same name that ends in .safetensors.
"""

from functools import partial
from itertools import count
from pathlib import Path

import numpy as np

import calor
from calor import nn
from calor.nn import functional as F
from calor_onnx import apply

# Operators without a function in calor.
onnx = partial(apply, version={version})


class Model(nn.Module):
    """{inputs} -> {outputs}"""

    def __init__(self, weights=Path(__file__).with_suffix(".safetensors"), device=None):
        stored = calor.load(weights, device=device)
'''


def to_python(model: Model, path: str | os.PathLike[str], given: Mapping[str, Any]) -> Path:
    """Write a model as Python source, with its weights in a safetensors file beside it.

    Branches and loops become `calor.cond`, `calor.scan` and `calor.while_loop`. They become
    Python's own statements if shapes differ between turns. Functions of the model become functions.

    Parameters
    ----------
    model : Model
        The model, as `load` returns it.
    path : path-like
        The source file to write. The weights go to the same name with the suffix ``.safetensors``.
    given : mapping of str
        Inputs by name. The graph runs on them once to find the forms of its values.

    Returns
    -------
    Path
        The path of the source file.

    Raises
    ------
    UnsupportedError
        If a scan walks rows of several lengths, or its body reads elements of its values. The
        message names the nodes.

    Examples
    --------
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
    writer = Writer(model, given)
    text = writer.text(source.stem)
    source.write_text(text, "utf-8")
    write_safetensors(source.with_suffix(".safetensors"), writer.stored)
    return source


class Writer:
    """The source text of one model while it is written."""

    def __init__(self, model: Model, given: Mapping[str, Any]) -> None:
        model.keep_weights()
        self.model = model
        # Inputs with a constant have a default and are left out.
        infos = [info for info in model.graph.inputs if info.name not in model.graph.constants]
        g = model.graph
        self.graph = Graph(g.name, infos, g.outputs, g.nodes, g.constants)
        self.scopes = [self.graph]
        self.trained = trainable(self.graph)
        nodes = [node for node in self.graph.walk() if node.op in _LAYERS]
        self.of_layers = {name for node in nodes for name in node.inputs}
        self.names = Names()
        self.stored: dict[str, Any] = {}
        # The name, graph's name and constant of each attribute.
        self.attributes: dict[int, tuple[str, str, Constant]] = {}
        watched = self._watched(given)
        self.forms, self.ways = watched.forms, watched.ways
        self._refuse(lambda node: node.op == "Scan" and not node.domain
                     and self.ways.get(id(node)) == "plain",
                     "scans over rows of several lengths, or with a body that reads elements, "
                     "cannot be written as Python")  # fmt: skip
        self._refuse(lambda node: (node.domain or node.op not in _WITH_BODIES) and any(
                         isinstance(value, Graph) for value in node.attributes.values()),
                     "of operators with bodies, Python source has branches, loops and maps of "
                     "sequences")  # fmt: skip

    def _refuse(self, which: Callable[[Node], bool], why: str) -> None:
        refused = [node.label for node in self.graph.walk() if which(node)]
        if refused:
            raise UnsupportedError(
                f"{why}: {', '.join(refused[:5])}; to train such a model, use "
                f"calor_onnx.as_module(model)"
            )

    def _watched(self, given: Mapping[str, Any]) -> Watching:
        run = Watching(self.model.device)
        values = [
            value if isinstance(value := given[info.name], Tensor | list)
            else upload(np.asarray(value), self.model.device)
            for info in self.graph.inputs
        ]  # fmt: skip
        with calor.device(self.model.device), calor.no_grad():
            run.graph(self.graph, values)
        return run

    @contextmanager
    def within(self, graph: Graph, *, alone: bool = False) -> Iterator[None]:
        """Write the inside of a sub-graph; with ``alone`` it sees no enclosing graph."""
        scopes = self.scopes
        self.scopes = [graph] if alone else [*scopes, graph]
        try:
            yield
        finally:
            self.scopes = scopes

    def form(self, name: str) -> Form:
        """Return the rank of a value and whether it is floating, or None for a host value."""
        for graph in reversed(self.scopes):
            if (id(graph), name) in self.forms:
                return self.forms[id(graph), name]
        return None

    def constant(self, name: str) -> Constant | None:
        """Return a constant of the graph that is written, or of an enclosing graph, or None."""
        for graph in reversed(self.scopes):
            if name in graph.constants:
                return graph.constants[name]
        return None

    def operand(self, name: str) -> str:
        """Return the expression of a value."""
        return self._operand(name)[0]

    def tensor(self, name: str) -> str:
        """Return the expression of a value where a tensor is needed."""
        text = self.operand(name)
        return text if self.form(name) or text.startswith("self.") else f"calor.asarray({text})"

    def scalar(self, name: str) -> str:
        """Return the expression of a value where a 0-d tensor is needed."""
        form = self.form(name)
        text = self.tensor(name)
        return text if form is not None and not form[0] else f"calor.reshape({text}, ())"

    def number(self, name: str) -> str:
        """Return the expression of a value where a Python number is needed."""
        constant = self.constant(name)
        if constant is not None:
            return item_literal(constant.array())
        return f"{self.operand(name)}.item()"

    def text(self, title: str) -> str:
        """Return the whole source."""
        inputs = [info.name for info in self.model.inputs]
        outputs = [info.name for info in self.model.outputs]
        # Methods get their names first, before weights can take them.
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
            body += self.statements(self.graph.nodes)
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
        for attribute, name, constant in self.attributes.values():
            shape = list(constant.shape)
            value = f'stored["{attribute}"]'
            if name in self.trained and constant.dtype.kind == "f":
                lines.append(f"        self.{attribute} = nn.Parameter({value})  # {shape}")
            else:
                lines.append(f'        self.register_buffer("{attribute}", {value})  # {shape}')
        return lines

    def _ends(self, part: Section, parts: list[Section]) -> tuple[list[str], list[str]]:
        """Return the values that a section reads from earlier sections and passes to later ones."""
        made = {name for node in part.nodes for name in node.outputs if name}
        read = [name for node in part.nodes for name in used_by(node) if name]
        constants = self.graph.constants.keys()
        takes = [n for n in dict.fromkeys(read) if n not in made and n not in constants]
        later = {info.name for info in self.graph.outputs}
        for other in parts[parts.index(part) + 1 :]:
            later.update(name for node in other.nodes for name in used_by(node))
        order = [name for node in part.nodes for name in node.outputs]
        return takes, [name for name in order if name in later]

    def _method(self, part: Section, parts: list[Section]) -> list[str]:
        takes, gives = self._ends(part, parts)
        head = f"    def {part.name}({', '.join(['self', *map(self.names.of, takes)])}):"
        statements = self.statements(part.nodes)
        return [head, *statements, f"        return {', '.join(map(self.names.of, gives))}"]

    def statements(self, nodes: list[Node]) -> list[str]:
        """Return the lines of nodes, indented for a method."""
        lines: list[str] = []
        before = None
        for node in nodes:
            title = (node.name or node.op).rpartition(";")[2]
            scope = title.rpartition("/")[0]
            if scope != before or not scope:
                lines.append(f"        # {title if not scope else scope.strip('/')}")
            before = scope
            if node.op in CONTROL and not node.domain:
                lines += control_lines(self, node)
            elif node.op == "SequenceMap" and not node.domain:
                lines += mapped_lines(self, node)
            elif (node.domain, node.op) in self.model.imported.functions:
                lines += call_lines(self, node)
            else:
                lines += wrapped(self._statement(node))
        return lines

    def _statement(self, node: Node) -> str:
        targets = [self.names.of(name) if name else "_" for name in node.outputs]
        return f"        {', '.join(targets)} = {self._expression(node)}"

    def _expression(self, node: Node) -> str:
        plain, bare_texts = [], []
        constants, ranks, floats = {}, {}, {}
        on_device = True
        for place, name in enumerate(node.inputs):
            text, bare = self._operand(name)
            plain.append(text)
            bare_texts.append(bare)
            constant = self.constant(name)
            if constant is not None:
                ranks[place], floats[place] = len(constant.shape), constant.dtype.kind == "f"
                if constant.small:
                    constants[place] = constant.array()
                on_device &= id(constant) in self.attributes or constant.size == 1 or place > 0
            elif name:
                form = self.form(name)
                on_device &= form is not None
                if form is not None:
                    ranks[place], floats[place] = form
        made = TEMPLATES.get(node.op) if not node.domain else None
        whole = all(bool(n) for n in node.inputs) and any(self.form(n) for n in node.inputs)
        if made is not None and whole and (on_device or node.op in _ANY_FORM):
            found = made(Written(node, bare_texts, constants, ranks, floats))
            if found is not None:
                return found
        while plain and plain[-1] == "None":
            plain.pop()
        options = [f"{key}={literal(value)}" for key, value in node.attributes.items()]
        if node.domain:
            options.append(f'domain="{node.domain}"')
        if len(node.outputs) > 1:
            options.append(f"outputs={len(node.outputs)}")
        if node.domain or node.version != self.model.opsets.get("", 1):
            options.append(f"version={node.version}")
        return f"onnx({', '.join([repr(node.op).replace(chr(39), chr(34)), *plain, *options])})"

    def _operand(self, name: str) -> tuple[str, str]:
        """Return the expression of an operand as an argument, and as part of an expression."""
        if not name:
            return "None", "None"
        constant = self.constant(name)
        if constant is None:
            return self.names.of(name), self.names.of(name)
        several = constant.size > 1 or name in self.of_layers
        weight = several and name in self.trained and constant.dtype.kind == "f"
        weight |= name in self.of_layers
        if weight or constant.size > INLINE:
            held = self.attributes.get(id(constant))
            if held is None:
                attribute = self.names.of(name)
                if attribute in self.stored:
                    # Another graph has a constant of the same name.
                    attribute = self.names.fresh(name)
                held = self.attributes[id(constant)] = (attribute, name, constant)
                self.stored[attribute] = constant.array()
            return f"self.{held[0]}", f"self.{held[0]}"
        array = constant.array()
        text = literal(array)
        return text, item_literal(array) if array.size == 1 else text
