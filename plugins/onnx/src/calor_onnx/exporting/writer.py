"""Writes ONNX nodes: names, initializers, casts, and sizes as computed numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper

from calor import dtypes
from calor.dtypes import DType
from calor_onnx.exporting.errors import Refused
from calor_onnx.exporting.kernels import computed_in
from calor_onnx.exporting.program import Program, Step
from calor_onnx.exporting.sizes import UNEVEN, Dimension, Size
from calor_onnx.types import element_type

# The end of an axis in either direction, for ONNX's Slice.
TO_END: Final = np.iinfo(np.int64).max
TO_START: Final = np.iinfo(np.int64).min
# Constants with more elements are not deduplicated.
_SHARED: Final = 64


@dataclass
class Shared:
    """State that the writers of a graph and of its sub-graphs share."""

    program: Program
    opset: int
    names: dict[str, int] = field(default_factory=dict)
    types: dict[str, DType] = field(default_factory=dict)
    initializers: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    constants: dict[Any, str] = field(default_factory=dict)
    sizes: dict[Dimension, str] = field(default_factory=dict)
    # Real and imaginary part of complex values.
    pairs: dict[str, tuple[str, str]] = field(default_factory=dict)
    # Keys of generators, from which a model draws different numbers at each run.
    drawn: set[str] = field(default_factory=set)
    # Constants that are the default scale of a norm.
    ones: set[str] = field(default_factory=set)
    problems: list[tuple[str, str, str]] = field(default_factory=list)
    # The steps being written, the innermost last.
    steps: list[Step] = field(default_factory=list)


class Writer:
    """The nodes of one graph; ``root`` is the writer of the whole model."""

    def __init__(self, shared: Shared, root: Writer | None = None) -> None:
        self.shared = shared
        self.root = root or self
        self.nodes: list[onnx.NodeProto] = []

    def child(self) -> Writer:
        """Return a writer of a sub-graph, which can use the names of this one."""
        return Writer(self.shared, self.root)

    def fresh(self, base: str) -> str:
        """Return an unused name."""
        names = self.shared.names
        count = names.get(base, -1) + 1
        names[base] = count
        made = f"{base}_{count}" if count else base
        return made if not count or made not in names else self.fresh(base)

    def value(self, base: str, dtype: DType) -> str:
        """Return an unused name for a value of a type."""
        name = self.fresh(base)
        self.shared.types[name] = dtype
        return name

    def type_of(self, name: str) -> DType:
        """Return the type of a value."""
        return self.shared.types[name]

    def has(self, operator: str) -> bool:
        """Return whether the opset has an operator."""
        try:
            onnx.defs.get_schema(operator, self.shared.opset, "")
        except onnx.defs.SchemaError:
            return False
        return True

    def require(self, operator: str) -> None:
        """Raise Refused if the opset lacks an operator."""
        if not self.has(operator):
            since = onnx.defs.get_schema(operator).since_version
            raise Refused(f"ONNX has {operator} since opset {since}; pass opset={since}")

    # Constants.

    def held(self, array: np.ndarray[Any, Any], name: str) -> str:
        """Return the name of an initializer for a captured tensor."""
        made = self.value(name, dtypes.as_dtype(array.dtype))
        self.shared.initializers[made] = array
        return made

    def constant(self, array: Any, dtype: DType | None = None, name: str = "constant") -> str:
        """Return the name of an initializer; equal small arrays share one."""
        array = np.asarray(array, None if dtype is None else dtype.numpy)
        key = (array.dtype.name, array.shape, array.tobytes()) if array.size <= _SHARED else None
        if key is not None and key in self.shared.constants:
            return self.shared.constants[key]
        made = self.held(array, name)
        if key is not None:
            self.shared.constants[key] = made
        return made

    def integers(self, numbers: Sequence[int]) -> str:
        """Return the name of a vector of int64."""
        return self.constant(np.array(numbers, np.int64), name="sizes")

    def vector(self, sizes: Sequence[Dimension]) -> str:
        """Return the name of a vector of sizes; symbolic ones are computed."""
        known = [n for n in sizes if isinstance(n, int)]
        if len(known) == len(sizes):
            return self.integers(known)
        key: Any = ("vector", *sizes)
        if key not in self.shared.sizes:
            parts = [self.size(n) for n in sizes]
            made = parts[0] if len(parts) == 1 else self.root._sized("Concat", *parts, axis=0)
            self.shared.sizes[key] = made
        return self.shared.sizes[key]

    def size(self, size: Dimension) -> str:
        """Return the name of a vector with one size."""
        if not isinstance(size, Size):
            return self.integers([size])
        known = self.shared.sizes
        if size not in known:
            terms = []
            for monomial, factor in size.terms:
                factors = [self.symbol(s) for s in monomial]
                if factor != 1 or not factors:
                    factors.append(self.integers([factor]))
                terms.append(self._folded("Mul", factors))
            known[size] = self._folded("Add", terms)
        return known[size]

    def symbol(self, name: str) -> str:
        """Return the size of a symbol, read from an input's shape."""
        known = self.shared.sizes
        key = Size({(name,): 1})
        if name.startswith(UNEVEN):
            raise Refused(
                "a size depends on one that is not a polynomial of the symbolic sizes, such as a "
                "rounded one"
            )
        if key not in known:
            source, axis = self.shared.program.symbols[name]
            known[key] = self.root._sized("Shape", source, start=axis, end=axis + 1, base=name)
        return known[key]

    def _folded(self, operator: str, names: list[str]) -> str:
        made = names[0]
        for name in names[1:]:
            made = self.root._sized(operator, made, name)
        return made

    def _sized(self, operator: str, *inputs: str, base: str = "size", **attributes: Any) -> str:
        return self.emit(operator, inputs, (dtypes.int64,), base=base, **attributes)[0]

    # Nodes.

    def emit(
        self,
        operator: str,
        inputs: Sequence[str],
        gives: Sequence[DType],
        *,
        base: str | None = None,
        **attributes: Any,
    ) -> tuple[str, ...]:
        """Add a node and return the names of its outputs, of given types."""
        self.require(operator)
        name = base or operator.lower()
        outputs = tuple(self.value(name, dtype) for dtype in gives)
        node = helper.make_node(
            operator, list(inputs), list(outputs), name=f"{outputs[0]}_node", **attributes
        )
        self.nodes.append(node)
        return outputs

    def call(
        self,
        operator: str,
        *inputs: str,
        typed: Sequence[int] | None = None,
        result: DType | None = None,
        **attributes: Any,
    ) -> str:
        """Add a node of one output, with casts if its type has no kernel.

        ``typed`` are the inputs of the operator's type, all by default; ``result`` is the output's
        type if it differs.
        """
        places = range(len(inputs)) if typed is None else typed
        dtype = self.type_of(inputs[places[0]])
        work = computed_in(operator, dtype)
        if work is None:
            raise Refused(f"ONNX's {operator} takes neither {dtype.name} nor a wider type")
        given = [self.cast(x, work) if i in places else x for i, x in enumerate(inputs)]
        made = self.emit(operator, given, (result or work,), **attributes)[0]
        return made if result is not None else self.cast(made, dtype)

    def cast(self, name: str, dtype: DType) -> str:
        """Return a value in another type."""
        if self.type_of(name) is dtype:
            return name
        if dtype.is_complex or self.type_of(name).is_complex:
            raise Refused("ONNX has no complex arithmetic")
        return self.emit("Cast", [name], (dtype,), to=element_type(dtype.numpy))[0]

    def reshape(self, name: str, shape: Sequence[Dimension]) -> str:
        """Return a value in another shape; ONNX infers one symbolic size."""
        symbolic = [i for i, n in enumerate(shape) if isinstance(n, Size)]
        dtype = self.type_of(name)
        if len(symbolic) == 1 and 0 not in shape:
            given = self.integers([-1 if isinstance(n, Size) else n for n in shape])
            return self.emit("Reshape", [name, given], (dtype,))[0]
        zeros: dict[str, Any] = {"allowzero": 1} if 0 in shape or symbolic else {}
        return self.emit("Reshape", [name, self.vector(shape)], (dtype,), **zeros)[0]

    def transpose(self, name: str, axes: Sequence[int]) -> str:
        """Return a value with its axes in another order."""
        if list(axes) == list(range(len(axes))):
            return name
        return self.emit("Transpose", [name], (self.type_of(name),), perm=list(axes))[0]

    def broadcast(self, name: str, shape: Sequence[Dimension]) -> str:
        """Return a value broadcast to a shape."""
        return self.call("Expand", name, self.vector(shape), typed=[0])


def element(dtype: DType) -> int:
    """Return the number of TensorProto.DataType for a calor dtype."""
    found = element_type(dtype.numpy)
    assert found != TensorProto.UNDEFINED
    return found
