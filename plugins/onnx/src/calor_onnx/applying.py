"""One operator of ONNX as a function, outside of any model.

Requirements: the operator behaves as it does in a model: host arrays stay on the host, tensors on
their device; so Python source that was written from a graph can call operators that calor has under
no name of its own.
"""

from __future__ import annotations

from typing import Any

from onnx import defs

import calor
from calor import Tensor
from calor.backends.selection import current_device
from calor_onnx.errors import UnsupportedOperatorsError
from calor_onnx.execution import Run, Scope
from calor_onnx.graph import Graph, Node
from calor_onnx.resolving import Resolver
from calor_onnx.tensors import Weights


def apply(
    name: str, *inputs: Any, domain: str = "", version: int | None = None, outputs: int = 1,
    **attributes: Any,
) -> Any:  # fmt: skip
    """Return the output of an operator, a tuple of them where ``outputs`` is more than one.

    Inputs are tensors, host arrays, lists for sequences, or None for one that is left out.
    ``version`` is the opset whose meaning is wanted, the newest without it. Raises
    UnsupportedOperatorsError for an operator or attribute that there is not.

    >>> import calor, calor_onnx
    >>> calor_onnx.apply("Selu", calor.ones(1, device="numpy"), gamma=2.0).tolist()
    [2.0]
    """
    import calor_onnx.operators  # noqa: F401 - it fills the registry

    if version is None:
        version = defs.onnx_opset_version() if not domain else 1000
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
