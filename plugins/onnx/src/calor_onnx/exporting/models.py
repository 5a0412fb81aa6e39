"""A function or module as an ONNX model: inputs, outputs, weights by name, and its file."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper

from calor import dtypes
from calor.errors import ArgumentError
from calor_onnx.exporting import (  # noqa: F401 - they fill the table
    contracting,
    control,
    definitions,
    drawing,
    elementwise,
    reducing,
)
from calor_onnx.exporting.errors import ExportError
from calor_onnx.exporting.fusing import fuse_norms
from calor_onnx.exporting.graphs import write
from calor_onnx.exporting.program import Dynamic, Program, Value, trace
from calor_onnx.exporting.sizes import UNEVEN, Size
from calor_onnx.exporting.writer import Shared, Writer, element

# The newest opset that ONNX Runtime 1.31 takes, and the oldest whose operators are written.
NEWEST: Final = 26
OLDEST: Final = 18
# The newest whose RandomUniform it has.
DRAWING: Final = 21
# A protobuf file holds less than 2 GiB, and the graph has to fit in it as well.
EXTERNAL: Final = (1 << 31) - (1 << 24)
# What a model says of itself whose function draws from a generator.
DRAWN: Final = (
    "Random numbers are drawn by what runs the model: others at each run, and not those that calor "
    "draws. Give the function a key, which gives the same numbers everywhere."
)
# Smaller arrays stay in the file of the model.
_SMALL: Final = 1024
# Those beside it begin at a page, so that they can be mapped.
_PAGE: Final = 4096


def export(
    function: Callable[..., Any],
    *arguments: Any,
    path: str | PathLike[str] | None = None,
    dynamic: Dynamic | None = None,
    opset: int | None = None,
    external: int = EXTERNAL,
) -> onnx.ModelProto:
    """Return what a function or module computes for these arguments as an ONNX model.

    ``dynamic`` names axes of inputs whose size may be any, ``{"x": {0: "batch"}}``: the function is
    traced for several sizes, and what follows from them is computed by the model. With ``path`` the
    model is written; weights of more than ``external`` bytes go to a file beside it. Tensors and
    arrays among the arguments are inputs, other values are what they are. Random numbers from a key
    are those that calor draws; from a generator, whose state no model can hold, the runtime draws
    others. Raises ExportError with all that ONNX cannot say, and ArgumentError for a function that
    changes other state.

    >>> import calor, calor_onnx
    >>> model = calor_onnx.export(lambda x: x * 2 + 1, calor.ones(3))
    >>> [node.op_type for node in model.graph.node]
    ['Mul', 'Add']
    >>> calor_onnx.load(model)([1.0, 2.0, 3.0]).tolist()
    [3.0, 5.0, 7.0]
    """
    if opset is not None and not OLDEST <= opset <= onnx.defs.onnx_opset_version():
        raise ArgumentError(
            f"opset={opset}; models are written for {OLDEST} to {onnx.defs.onnx_opset_version()}"
        )
    program = trace(function, arguments, dynamic or {})
    if opset is None:
        opset = DRAWING if program.keys else NEWEST
    name = getattr(function, "__name__", type(function).__name__)
    model = _model(program, opset, name if name.isidentifier() else "function")
    if path is not None:
        save(model, path, external)
    return model


def _model(program: Program, opset: int, name: str) -> onnx.ModelProto:
    shared = Shared(program, opset)
    w = Writer(shared)
    graph = program.graph
    values = [graph.values[v] for v in graph.inputs]
    given = [w.value(n, v.dtype) for n, v in zip(program.inputs, values, strict=False)]
    used = {v for step in graph.steps for v in step.inputs} | set(graph.outputs)
    held = [
        w.held(array, n) if v in used else ""
        for v, (n, array) in zip(graph.inputs[len(given) :], program.held, strict=True)
    ]
    shared.drawn.update(held[i] for i in program.keys)
    made = write(graph, [*given, *held], w)
    for value, output in zip(graph.outputs, program.outputs, strict=False):
        if graph.values[value].dtype.is_complex:
            why = f"the output {output} is complex; give its parts: y.real, y.imag"
            shared.problems.append(("output", why, "what the function returns"))
    if shared.problems:
        raise ExportError(shared.problems)
    outputs = _ends(w, made, program.outputs)
    proto = helper.make_graph(
        fuse_norms(_kept(w, outputs), outputs, shared),
        name,
        [_info(n, v) for n, v in zip(given, values, strict=False)],
        [_info(n, graph.values[v]) for n, v in zip(outputs, graph.outputs, strict=False)],
    )
    _initialize(proto, shared)
    imports = [helper.make_opsetid("", opset)]
    version = helper.find_min_ir_version_for(imports, ignore_unknown=True)
    model = helper.make_model(
        proto, opset_imports=imports, ir_version=version, producer_name="calor-onnx"
    )
    if shared.drawn & set(held):
        model.doc_string = DRAWN
    return model


def _ends(w: Writer, made: list[str], names: list[str]) -> list[str]:
    """Return the names of the outputs, each made by a node."""
    outputs = []
    for value, name in zip(made, names, strict=False):
        outputs.append(w.emit("Identity", [value], (w.type_of(value),), base=name)[0])
    return outputs


def _kept(w: Writer, outputs: list[str]) -> list[onnx.NodeProto]:
    """Return the nodes, without copies at the end: what they copy gets the name of the output."""
    copies = {
        node.output[0]: node.input[0]
        for node in w.nodes
        if node.op_type == "Identity" and node.output[0] in outputs
    }
    makers = {name for node in w.nodes for name in node.output} - set(copies)
    renamed: dict[str, str] = {}
    for output, source in copies.items():
        if source in makers and source not in renamed:
            renamed[source] = output
    dropped = set(renamed.values())
    kept = [node for node in w.nodes if node.output[0] not in dropped]
    for node in kept:
        _rename(node, renamed)
    return kept


def _rename(node: onnx.NodeProto, names: dict[str, str]) -> None:
    for field in (node.input, node.output):
        for i, name in enumerate(field):
            if name in names:
                field[i] = names[name]
    for attribute in node.attribute:
        for inner in attribute.g.node:
            _rename(inner, names)


def _dimension(size: Size) -> str | None:
    """Return what a symbolic size is called; None for one that has no name."""
    text = str(size)
    return None if UNEVEN in text else text.replace("·", "*")


def _info(name: str, value: Value) -> onnx.ValueInfoProto:
    shape = [_dimension(n) if isinstance(n, Size) else n for n in value.shape]
    return helper.make_tensor_value_info(name, element(value.dtype), shape)


def _initialize(graph: onnx.GraphProto, shared: Shared) -> None:
    """Add the constants that a node reads."""
    read: set[str] = set()

    def visit(nodes: Any) -> None:
        for node in nodes:
            read.update(node.input)
            for attribute in node.attribute:
                visit(attribute.g.node)

    visit(graph.node)
    for name, array in shared.initializers.items():
        if name in read:
            graph.initializer.append(_tensor(name, array))


def _tensor(name: str, array: np.ndarray[Any, Any]) -> onnx.TensorProto:
    dtype = dtypes.as_dtype(array.dtype)
    if dtype.kind == "storage" or dtype is dtypes.bfloat16:
        raw = np.ascontiguousarray(array).tobytes()
        return helper.make_tensor(name, element(dtype), array.shape, raw, raw=True)
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def save(model: onnx.ModelProto, path: str | PathLike[str], external: int = EXTERNAL) -> None:
    """Write a model; its weights go to ``NAME.data`` beside it where they exceed that size."""
    target = Path(path)
    weights = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    if weights <= external:
        onnx.save_model(model, target)
        return
    data = target.with_name(target.name + ".data")
    # The model is put together anew, as a copy of it would hold the weights twice.
    light = onnx.ModelProto(
        ir_version=model.ir_version,
        opset_import=model.opset_import,
        producer_name=model.producer_name,
    )
    graph = model.graph
    light.graph.name = graph.name
    light.graph.node.extend(graph.node)
    light.graph.input.extend(graph.input)
    light.graph.output.extend(graph.output)
    with data.open("wb") as file:
        for tensor in graph.initializer:
            added = light.graph.initializer.add()
            if len(tensor.raw_data) < _SMALL:
                added.CopyFrom(tensor)
                continue
            file.seek(-file.tell() % _PAGE, 1)
            added.name, added.data_type = tensor.name, tensor.data_type
            added.dims.extend(tensor.dims)
            added.data_location = onnx.TensorProto.EXTERNAL
            place = {"location": data.name, "offset": file.tell(), "length": len(tensor.raw_data)}
            for key, value in place.items():
                added.external_data.add(key=key, value=str(value))
            file.write(tensor.raw_data)
    onnx.save_model(light, target)
