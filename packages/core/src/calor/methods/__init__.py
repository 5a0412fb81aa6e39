"""The methods of tensors, by theme; importing this package gives them to the class."""

from calor.keywords import explain_methods
from calor.methods import (
    core,
    declared,
    dlpack,
    elementwise,
    host,
    indexing,
    interop,
    neural,
    operators,
    pickling,
    reductions,
    repr,
    shape,
    types,
)
from calor.tensor.tensor import Tensor

explain_methods(Tensor)

__all__ = [
    "core",
    "declared",
    "dlpack",
    "elementwise",
    "host",
    "indexing",
    "interop",
    "neural",
    "operators",
    "pickling",
    "reductions",
    "repr",
    "shape",
    "types",
]
