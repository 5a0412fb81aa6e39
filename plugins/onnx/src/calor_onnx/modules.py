"""A model with trainable weights: an nn Module over an imported graph.

Requirements: the weights of the graph are the parameters of the module, under their names in the
file. Constants that decide shapes, statistics of batch normalization and scales of quantization
stay constants. The graph is that of inference: dropout that the exporter removed stays removed.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

import calor
from calor import Tensor, nn
from calor.backends.device import Device
from calor.device_selection import as_device
from calor_onnx.errors import InputError
from calor_onnx.execution import Run
from calor_onnx.graph import Graph, Node, ValueInfo
from calor_onnx.model import Model

# Positions of floating operands that are not weights, by operator.
_KEPT = {
    "BatchNormalization": (3, 4),
    "Clip": (1, 2),
    "DequantizeLinear": (1, 2),
    "Pad": (2,),
    "QuantizeLinear": (1, 2),
    "Resize": (1, 2, 3),
    "Upsample": (1,),
}


class OnnxModule(nn.Module):
    """A graph of ONNX as a module; :func:`as_module` returns one.

    Parameters
    ----------
    model : Model
        The imported model. Module and model share the memory of the weights.

    Attributes
    ----------
    weights : dict of Parameter
        The trainable parameters by their names in the file.

    Examples
    --------
    >>> import calor_onnx, onnx
    >>> proto = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 17]>
    ...     line (float[N, 2] x) => (float[N, 1] y) <float[2, 1] w = {1, 2}> {
    ...         y = MatMul (x, w)
    ...     }''')
    >>> module = calor_onnx.as_module(calor_onnx.load(proto))
    >>> sorted(module.weights)
    ['w']
    """

    def __init__(self, model: Model) -> None:
        model.keep_weights()
        names = trainable(model.graph)
        found = {name: tensor for name, tensor in model.parameters.items() if name in names}
        self.weights = {name: nn.Parameter(tensor) for name, tensor in found.items()}
        self._model = model
        self._graph = with_inputs(model.graph, tuple(found))

    def to(self, target: Any = None, *, device: Any = None, dtype: Any = None) -> Self:
        """Cast the weights in place.

        The constants of the graph are shared with the model, so the module cannot change its
        device.

        Parameters
        ----------
        target : dtype, Device, str or Tensor, default None
            A dtype, or a device as in `device`.
        device : Device or str, default None
            The device of the model; another one is an error.
        dtype : dtype, default None
            The dtype of the weights.

        Returns
        -------
        OnnxModule
            This module.

        Raises
        ------
        InputError
            If the device differs from that of the model.
        """
        wanted = target if isinstance(target, str | Device) else device
        if wanted is not None and as_device(wanted) is not self._model.device:
            raise self._misplaced(as_device(wanted))
        return super().to(target, device=device, dtype=dtype)

    def _misplaced(self, device: Any) -> InputError:
        name = device.name
        return InputError(
            f"the model's constants are on {self._model.device.name}, so its weights cannot be on "
            f"{name}; load the model there: "
            f"calor_onnx.as_module(calor_onnx.load(path, device={name!r}))"
        )

    def forward(self, *args: Any, **inputs: Any) -> Any:  # numpydoc ignore=RS01
        """Return the outputs of the graph.

        Parameters
        ----------
        *args : Tensor, array, list or number
            Inputs by position.
        **inputs : Tensor, array, list or number
            Inputs by name. Each input is given once; only optional ones may be None.

        Returns
        -------
        Tensor or tuple
            The output, or a tuple if the graph has several.

        Raises
        ------
        InputError
            If inputs are missing, unknown or given twice, or a weight was moved to another device.
        """
        model = self._model
        names = [info.name for info in model.inputs]
        given = dict(zip(names, args, strict=False)) | inputs
        # The count finds names given twice and surplus values; the keys find unknown names.
        if given.keys() != set(names) or len(args) + len(inputs) != len(names):
            raise InputError(f"the inputs are {', '.join(names)}; give each once")
        # An enclosing module can move the weights without a call of `to`.
        for weight in self.weights.values():
            if weight.device is not model.device:
                raise self._misplaced(weight.device)
        run = Run(model.device, {}, traced=True)
        values = [_value(info, given[info.name], model.device) for info in model.inputs]
        with calor.device(model.device):
            made = run.graph(self._graph, [*values, *self.weights.values()])
            outputs = tuple(run.tensor(x, model.device) if _is_number(x) else x for x in made)
        return outputs[0] if len(outputs) == 1 else outputs


def _value(info: ValueInfo, value: Any, device: Any) -> Any:
    if value is None and not info.kind.startswith("optional"):
        raise InputError(
            f"the input {info.name!r} is None, the model takes {info.type_name}; only optional "
            f"inputs may be None"
        )
    if value is None or isinstance(value, Tensor | list):
        return value
    return calor.asarray(value, device=device)


def _is_number(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype != np.object_


def with_inputs(graph: Graph, names: tuple[str, ...]) -> Graph:
    """Return a graph in which some constants are inputs, after the existing inputs."""
    constants = {name: c for name, c in graph.constants.items() if name not in names}
    own = [info for info in graph.inputs if info.name not in graph.constants]
    extra = [
        ValueInfo(name, graph.constants[name].dtype, graph.constants[name].shape) for name in names
    ]
    made = Graph(graph.name, [*own, *extra], graph.outputs, graph.nodes, constants)
    made.link()
    return made


def trainable(graph: Graph) -> set[str]:
    """Return the names of the constants that training may change."""
    kept: set[str] = set()
    used: set[str] = set()
    for node in graph.walk():
        for place, name in enumerate(node.inputs):
            (kept if _is_kept(node, place) else used).add(name)
    return used - kept


def _is_kept(node: Node, place: int) -> bool:
    if place in _KEPT.get(node.op, ()) or node.op.startswith("QLinear"):
        return True
    return node.operator is not None and place in node.operator.host


def as_module(model: Model) -> OnnxModule:
    """Return a module that computes the same as a model and has trainable weights.

    Parameters
    ----------
    model : Model
        The model, as `load` returns it.

    Returns
    -------
    OnnxModule
        The module. Its parameters share memory with the model.

    See Also
    --------
    load : Loads a model from a file.

    Examples
    --------
    >>> import calor, calor_onnx, onnx
    >>> proto = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 17]>
    ...     line (float[N, 2] x) => (float[N, 1] y) <float[2, 1] w = {1, 2}> {
    ...         y = MatMul (x, w)
    ...     }''')
    >>> module = calor_onnx.as_module(calor_onnx.load(proto, device="numpy"))
    >>> def loss(module, x):
    ...     return (module(x) ** 2).sum()
    >>> found = calor.grad(loss)(module, calor.ones((1, 2), device="numpy"))
    >>> found.weights["w"].tolist()
    [[6.0], [6.0]]
    """
    return OnnxModule(model)
