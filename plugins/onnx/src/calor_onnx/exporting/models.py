"""Export of a function or module as an ONNX model: inputs, outputs, named weights, and the file."""

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

# The newest opset of ONNX Runtime 1.31, and the oldest that export can write.
NEWEST: Final = 26
OLDEST: Final = 18
# The newest opset in which ONNX Runtime has RandomUniform.
DRAWING: Final = 21
# A protobuf file holds less than 2 GiB, including the graph.
EXTERNAL: Final = (1 << 31) - (1 << 24)
# The description of a model whose function draws from a generator.
DRAWN: Final = (
    "The runtime draws the random numbers: they differ at each run and from those of calor. Give "
    "the function a key to get the same numbers everywhere."
)
# Arrays of fewer bytes stay in the model's file.
_SMALL: Final = 1024
# Arrays beside it begin at a page, so that they can be memory-mapped.
_PAGE: Final = 4096


def export(
    function: Callable[..., Any],
    *arguments: Any,
    path: str | PathLike[str] | None = None,
    dynamic: Dynamic | None = None,
    opset: int | None = None,
    external: int = EXTERNAL,
) -> onnx.ModelProto:
    """Export a function or module as an ONNX model.

    The function is traced for the given arguments. Tensors and arrays among them become inputs of
    the model; other values become constants. Random numbers drawn with a key are those of calor.
    Random numbers drawn from a generator, whose state a model cannot hold, are those of the
    runtime.

    Parameters
    ----------
    function : callable
        A function or module that returns tensors.
    *arguments : object
        Example arguments. They set types and shapes.
    path : path-like, default None
        File to write. None writes none.
    dynamic : dict, default None
        Axes of any size by input, such as ``{"x": {0: "batch"}}``. The function is traced for
        several sizes, and the model computes dependent sizes itself. At most four symbols.
    opset : int, default None
        Opset to write, at least 18. None is 26, or 21 for functions that draw random numbers.
    external : int, default 2130706432
        Weights of more bytes in total go to ``NAME.data`` beside the model. The default keeps the
        protobuf file below its limit of 2 GiB.

    Returns
    -------
    onnx.ModelProto
        The model, also if it was written.

    Raises
    ------
    ExportError
        If ONNX cannot express operations of the function; the message lists all of them.
    ArgumentError
        If `opset` or `dynamic` does not fit, if the function returns no tensor, or if it changes
        tensors outside of itself.
    DTypeError
        If an argument is an array of a dtype that calor does not have.

    See Also
    --------
    load : Loads the model again.

    Examples
    --------
    >>> import calor, calor_onnx
    >>> model = calor_onnx.export(lambda x: x * 2 + 1, calor.ones(3))
    >>> [node.op_type for node in model.graph.node]
    ['Mul', 'Add']
    >>> calor_onnx.load(model)([1.0, 2.0, 3.0]).tolist()
    [3.0, 5.0, 7.0]
    """
    if opset is not None and not OLDEST <= opset <= onnx.defs.onnx_opset_version():
        raise ArgumentError(
            f"opset={opset} cannot be written; choose {OLDEST} to {onnx.defs.onnx_opset_version()}"
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
            why = f"the output {output} is complex; return its parts, y.real and y.imag"
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
    """Return the names of the outputs; a node computes each."""
    outputs = []
    for value, name in zip(made, names, strict=False):
        outputs.append(w.emit("Identity", [value], (w.type_of(value),), base=name)[0])
    return outputs


def _kept(w: Writer, outputs: list[str]) -> list[onnx.NodeProto]:
    """Return the nodes without final copies; the copied value takes the name of the output."""
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
    """Return the name of a symbolic size, or None if it has none."""
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
    """Write a model to a file.

    Parameters
    ----------
    model : onnx.ModelProto
        The model.
    path : path-like
        The file to write.
    external : int, default 2130706432
        Weights of more bytes in total go to ``NAME.data`` beside the file.
    """
    target = Path(path)
    weights = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    if weights <= external:
        onnx.save_model(model, target)
        return
    data = target.with_name(target.name + ".data")
    # A new model is assembled, because a copy would hold the weights twice.
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
