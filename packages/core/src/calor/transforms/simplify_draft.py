"""The graph that a simplification builds, with known facts about its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from calor.graph.attributes import SizedScalar
from calor.graph.graph import Builder, Node
from calor.ops.base import Op, Scalar
from calor.ops.sources import HostArray, constant, full, iota
from calor.sizes import is_size
from calor.specs import Spec

Array = np.ndarray[Any, Any]

# Results of up to so many elements are computed ahead.
SMALL: Final = 64


class Step(NamedTuple):
    """A node to be added: its op, the numbers of its operands, and its attributes."""

    op: Op
    inputs: tuple[int, ...]
    attributes: Mapping[str, Any]


class Draft:
    """A graph under construction that knows the producer of a value and whether it is constant."""

    def __init__(self) -> None:
        self.builder = Builder()
        self.specs = self.builder.specs
        self._nodes: list[Node | None] = []
        self._one: dict[int, Array | None] = {}
        self._all: dict[int, Array | None] = {}

    def input(self, spec: Spec, host: bool) -> int:
        """Add an input."""
        self._nodes.append(None)
        return self.builder.input(spec, host)

    def add(self, step: Step, specs: Sequence[Spec]) -> tuple[int, ...]:
        """Add a node with results of these specs."""
        numbers = self.builder.add(step.op, step.inputs, step.attributes, specs)
        self._nodes.extend([self.builder.nodes[-1]] * len(numbers))
        return numbers

    def made_by(self, number: int, op: Op) -> Node | None:
        """Return the node that makes a value, if it is of this op."""
        node = self._nodes[number]
        return node if node is not None and node.op is op else None

    def uniform(self, number: int) -> Array | None:
        """Return the one element (shape (1,)) that a constant value repeats, if it does."""
        if number not in self._one:
            self._one[number] = self._uniform(number)
        return self._one[number]

    def _uniform(self, number: int) -> Array | None:
        node = self._nodes[number]
        if node is None or node.inputs or type(node.attributes.get("value")) is SizedScalar:
            return None
        if node.op is full:
            return evaluate(full, [], {**node.attributes, "shape": (1,)})
        return one_element(self.small(number))

    def small(self, number: int) -> Array | None:
        """Return the elements of a small constant value, if it is one."""
        if number not in self._all:
            node = self._nodes[number]
            known = (
                node is not None
                and node.op in (full, iota, constant)
                and type(node.attributes.get("value")) is not SizedScalar
                and is_small(self.specs[number])
            )
            self._all[number] = evaluate(node.op, [], node.attributes) if node and known else None
        return self._all[number]


def is_small(known: Spec) -> bool:
    """Return whether elements of a constant are looked at; never those of a symbolic number."""
    return not is_size(known.size) and known.size <= SMALL


def evaluate(op: Op, operands: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
    """Return the result of an op by its reference, dense."""
    assert op.reference is not None
    return np.array(op.reference(*operands, **attributes), order="C")


def one_element(array: Array | None) -> Array | None:
    """Return the element (shape (1,)) that an array repeats bit for bit, None where there is none.

    >>> import numpy as np
    >>> one_element(np.array([0.0, -0.0])) is None
    True
    """
    if array is None or not array.size:
        return None
    first = array.reshape(-1)[:1]
    return first if array.tobytes() == first.tobytes() * array.size else None


def source(values: Array, out: Spec) -> Step | None:
    """Return the node that makes a constant: ``full`` for a repeated element, else ``constant``.

    ``values`` has the shape of ``out``, or (1,) for a repeated element. None if neither op can make
    it: a large value, a weak one, or one with a NaN whose bits ``full`` would not keep.
    """
    element = one_element(values)
    if element is not None and not out.weak:
        attributes = {
            "value": Scalar(out.dtype.name, element.tobytes()),
            "shape": out.shape,
            "dtype": out.dtype,
        }
        if evaluate(full, [], {**attributes, "shape": (1,)}).tobytes() == element.tobytes():
            return Step(full, (), attributes)
    if not is_small(out):
        return None
    whole = values if values.shape == out.shape else np.broadcast_to(values.reshape(()), out.shape)
    return Step(constant, (), {"array": HostArray.of(whole), "weak": out.weak})
