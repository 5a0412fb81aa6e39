"""One operator of ONNX as a function, outside of any model.

Requirements: the operator behaves as in a model: host arrays stay on the host, tensors on their
device. Python source written from a graph calls operators this way when calor has no function for
them.
"""

from __future__ import annotations

from typing import Any

import calor
from calor import Tensor
from calor.device_selection import current_device
from calor_onnx.errors import UnsupportedOperatorsError
from calor_onnx.execution import Run
from calor_onnx.graph import Graph, Node
from calor_onnx.resolving import Resolver
from calor_onnx.schemas import newest_opset
from calor_onnx.scope import Scope
from calor_onnx.tensors import Weights


def apply(
    name: str, *inputs: Any, domain: str = "", version: int | None = None, outputs: int = 1,
    **attributes: Any,
) -> Any:  # fmt: skip
    """Run one operator of ONNX on given inputs.

    Parameters
    ----------
    name : str
        Name of the operator, such as "Selu".
    *inputs : Tensor, array, list or None
        Inputs by position. A list is a sequence; None leaves out an optional input.
    domain : str, default ""
        Domain of the operator; "" is ai.onnx.
    version : int, default None
        Opset that defines the operator's meaning. None is the newest.
    outputs : int, default 1
        Number of outputs to return.
    **attributes : int, float, str, list or array
        Attributes of the operator. None leaves one out.

    Returns
    -------
    Tensor, array, list or tuple
        The output, or a tuple of the outputs if `outputs` is more than one. Results computed from
        host arrays only are host arrays.

    Raises
    ------
    UnsupportedOperatorsError
        If calor-onnx has no such operator or attribute.
    ModelError
        If the inputs or attributes break a rule of the operator.

    Examples
    --------
    >>> import calor, calor_onnx
    >>> calor_onnx.apply("Selu", calor.ones(1, device="numpy"), gamma=2.0).tolist()
    [2.0]
    """
    import calor_onnx.operators  # noqa: F401 - it fills the registry

    if version is None:
        version = newest_opset() if not domain else 1000
    kept = {key: value for key, value in attributes.items() if value is not None}
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    made = [f"y{i}" for i in range(outputs)]
    node = Node(name, domain, version, "", names, made, kept)
    missing: Any = {}
    node.operator = Resolver({}, Weights(None)).find(node, missing, ())
    if missing:
        raise UnsupportedOperatorsError(
            [(domain, op, tuple(nodes), reason) for (domain, op, reason), nodes in missing.items()]
        )
    device = next((x.device for x in inputs if isinstance(x, Tensor)), None) or current_device()
    values = {n: x for n, x in zip(names, inputs, strict=True) if n}
    scope = Scope(Graph(name, [], [], [node]), values, None)
    with calor.device(device):
        Run(device, {}, traced=True).node(node, scope)
    found = tuple(scope.values[n] for n in made)
    return found[0] if outputs == 1 else found
