"""Results with channels last: which values of a graph are stored so.

Requirements: on a device without large cubes a depthwise convolution of small images fills its
vectors only along channels. A value is stored with channels last if all that read it read it well
so, and all that makes it does. So no value is copied to change its layout: windows of one tap read
either layout, and write either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from calor.dtypes import float32
from calor.graph.graph import Graph
from calor.specs import Spec
from calor_kernel.contract.choices import spec_of
from calor_kernel.contract.fuser import Group
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.library.elementwise.operations import ROWS

ORDER: Final = (0, 2, 3, 1)
"""The order of the axes of a result with channels last."""
_CONVOLUTIONS: Final = ("conv", "conv_chain")
_CHAIN: Final = "elementwise_chain"
_REDUCTIONS: Final = ("window_reduce", "sum", "max", "row_program")
# Ops whose values are few numbers, spread over a shape.
_SPREAD: Final = ("full", "expand")
# With fewer output channels, a result with channels first is not computed from channels last.
_CHANNELS: Final = 32


@dataclass(frozen=True, slots=True)
class _Unit:
    """A node or a group: its op, its attributes, and the values that it reads and makes."""

    op: str
    attributes: Mapping[str, Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def in_order(spec: Spec) -> Spec:
    """Return the spec of a result in memory with channels last."""
    return spec_of(tuple(spec.shape[axis] for axis in ORDER), spec.dtype)


def channels_last(graph: Graph, units: Sequence[int | Group], info: DeviceInfo) -> frozenset[int]:
    """Return the values of a graph that are stored with channels last."""
    if info.max_units > 1 or all(node.op.name != "conv" for node in graph.nodes):
        return frozenset()
    search = _Search(graph, units, info.vector_bytes // float32.itemsize)
    return search.found() if any(map(search.depthwise, search.units)) else frozenset()


class _Search:
    """The units of a graph, and the values that may be stored with channels last."""

    def __init__(
        self,
        graph: Graph,
        units: Sequence[int | Group],
        lanes: int,
    ) -> None:
        self.graph, self.lanes = graph, lanes
        self.units = [self._unit(unit) for unit in units]
        self.readers: dict[int, list[_Unit]] = {}
        for unit in self.units:
            for value in unit.inputs:
                self.readers.setdefault(value, []).append(unit)
        self.spread = {o for n in graph.nodes if n.op.name in _SPREAD for o in n.outputs}
        self.last: set[int] = set()

    def _unit(self, unit: int | Group) -> _Unit:
        if isinstance(unit, Group):
            return _Unit(unit.op, unit.attributes, tuple(unit.inputs), tuple(unit.outputs))
        node = self.graph.nodes[unit]
        return _Unit(node.op.name, node.attributes, tuple(node.inputs), tuple(node.outputs))

    def found(self) -> frozenset[int]:
        """Return the values: at first all that ops write so, then those that all read so too."""
        makers = [unit for unit in self.units if self._writes(unit)]
        self.last.update(value for unit in makers for value in unit.outputs)
        while True:
            wrong = [unit for unit in makers if not self._stays(unit)]
            if not wrong:
                return frozenset(self.last)
            self.last.difference_update(value for unit in wrong for value in unit.outputs)
            makers = [unit for unit in makers if unit not in wrong]

    def depthwise(self, unit: _Unit) -> bool:
        """Return whether a unit is a depthwise convolution of enough channels."""
        if unit.op not in _CONVOLUTIONS:
            return False
        channels, outputs = self._shape(unit.inputs[0])[1], self._shape(unit.inputs[1])[0]
        groups = unit.attributes["groups"]
        return bool(self.lanes <= channels and groups == channels == outputs)

    def _shape(self, value: int) -> tuple[int, ...]:
        return self.graph.specs[value].shape

    def _images(self, value: int) -> bool:
        """Return whether a value is images of one number type that vectors hold."""
        spec = self.graph.specs[value]
        several = spec.ndim == len(ORDER) and prod(spec.shape[2:]) > 1
        return several and spec.dtype is float32 and bool(spec.size)

    def _writes(self, unit: _Unit) -> bool:
        """Return whether an op may write its results with channels last."""
        if unit.op not in _CONVOLUTIONS and unit.op not in ROWS:
            return unit.op == _CHAIN and self._alike(unit)
        return self._alike(unit) and (
            unit.op in ROWS
            or self.depthwise(unit)
            or (unit.attributes["groups"] == 1 and self._shape(unit.outputs[0])[1] >= self.lanes)
        )

    def _alike(self, unit: _Unit) -> bool:
        """Return whether all results are images of one shape."""
        return bool(unit.outputs) and all(
            self._images(v) and self._shape(v) == self._shape(unit.outputs[0]) for v in unit.outputs
        )

    def _stays(self, unit: _Unit) -> bool:
        """Return whether an op still writes its results with channels last."""
        wanted = set(self.graph.outputs)
        shape = self._shape(unit.outputs[0])
        if unit.op in _CONVOLUTIONS:
            x, w, *others = unit.inputs
            if w in self.last or (self.depthwise(unit) and x not in self.last):
                return False
        else:
            others = [*unit.inputs]
            if not any(v in self.last for v in others):
                return False
        if any(self._shape(v) == shape and v not in self.last | self.spread for v in others):
            return False
        return all(
            value not in wanted and all(self._reads(r, value) for r in self.readers.get(value, ()))
            for value in unit.outputs
        )

    def _reads(self, unit: _Unit, value: int) -> bool:
        """Return whether an op reads a value with channels last well."""
        if unit.op in _REDUCTIONS:
            # Sums of all pixels of a channel read adjacent channels together.
            shape = self._shape(value)
            alike = all(v in self.last for v in unit.inputs if self._shape(v) == shape)
            return alike and all(prod(self._shape(v)) == prod(shape[:2]) for v in unit.outputs)
        stays = all(v in self.last for v in unit.outputs)
        if unit.op not in _CONVOLUTIONS or unit.inputs[0] != value or self.depthwise(unit):
            return stays
        taps = self._shape(unit.inputs[1])[2:]
        if value in unit.inputs[1:] or unit.attributes["groups"] != 1 or any(n != 1 for n in taps):
            return False
        return stays or bool(self._shape(unit.inputs[1])[0] >= _CHANNELS)
