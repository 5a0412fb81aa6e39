"""Stacks whose rows begin at multiples of the device's alignment.

Requirements: the launches of a step address a row of a stack by its offset, as they do memory of
its own, so rows must be aligned. Others, such as the index of a counted loop, are copied to stacks
with a pitch by one launch, and results back from them, instead of by a copy at each step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

from calor.backends.protocol import Executable
from calor.graph.attributes import Scalar
from calor.graph.graph import Builder, Graph
from calor.ops.base import TABLE
from calor.specs import Spec, spec
from calor_kernel.planning.engine import Engine

# Stacks with a pitch take no more memory than this.
_MOST: Final = 64 << 20


class Pitches:
    """The stacks of a scan. ``rows``: the spec of a row of each; ``build`` compiles a graph.

    ``sizes``: the bytes from row to row. ``fits``: whether they can have a pitch.
    """

    def __init__(
        self,
        engine: Engine,
        build: Callable[[Engine, Graph], Executable],
        rows: Sequence[Spec],
        length: int,
    ) -> None:
        self.engine, self._build, self.rows, self.length = engine, build, rows, length
        align = engine.device.info.starts
        self.sizes = [-(-row.nbytes // align) * align for row in rows]
        self.wide = [k for k, row in enumerate(rows) if self.sizes[k] != row.nbytes]
        self.nbytes = sum(self.sizes[k] for k in self.wide) * length
        self.fits = (
            engine.pool.parts
            and all(row.nbytes for row in rows)
            and all(align % rows[k].dtype.itemsize == 0 for k in self.wide)
            and self.nbytes <= _MOST
        )

    def spread(self, stacks: Sequence[Any]) -> list[Any]:
        """Return stacks with pitches, of dense ones."""
        return self._copied(self._spread, stacks) if self.wide else [*stacks]

    def gathered(self, stacks: Sequence[Any]) -> list[Any]:
        """Return dense stacks, of those with pitches."""
        return self._copied(self._gathered, stacks) if self.wide else [*stacks]

    def _copied(self, plan: Executable, stacks: Sequence[Any]) -> list[Any]:
        made = dict(zip(self.wide, plan([stacks[k] for k in self.wide]), strict=True))
        return [made.get(k, stack) for k, stack in enumerate(stacks)]

    @cached_property
    def _spread(self) -> Executable:
        graph, outputs = Builder(), list[int]()
        stacks = [graph.input(self._dense(k)) for k in self.wide]
        for k, stack in zip(self.wide, stacks, strict=True):
            row, (count, pitch) = self.rows[k], self._elements(k)
            (flat,) = graph.add(TABLE["reshape"], [stack], {"shape": (self.length, count)})
            zero = {"value": Scalar.of(0, row.dtype), "shape": (), "dtype": row.dtype}
            (value,) = graph.add(TABLE["full"], [], zero)
            edges = {"low": (0, 0), "high": (0, pitch - count), "interior": (0, 0)}
            outputs += graph.add(TABLE["pad"], [flat, value], edges)
        return self._build(self.engine, graph.build(outputs))

    @cached_property
    def _gathered(self) -> Executable:
        graph, outputs = Builder(), list[int]()
        sizes = [self._elements(k) for k in self.wide]
        stacks = [
            graph.input(spec((self.length, pitch), self.rows[k].dtype))
            for k, (_, pitch) in zip(self.wide, sizes, strict=True)
        ]
        for k, stack, (count, _) in zip(self.wide, stacks, sizes, strict=True):
            part = {"starts": (0, 0), "stops": (self.length, count), "steps": (1, 1)}
            (flat,) = graph.add(TABLE["slice"], [stack], part)
            outputs += graph.add(TABLE["reshape"], [flat], {"shape": self._dense(k).shape})
        return self._build(self.engine, graph.build(outputs))

    def _dense(self, k: int) -> Spec:
        row = self.rows[k]
        return spec((self.length, *row.shape), row.dtype)

    def _elements(self, k: int) -> tuple[int, int]:
        """Return the elements of a row, and from row to row."""
        itemsize = self.rows[k].dtype.itemsize
        return self.rows[k].nbytes // itemsize, self.sizes[k] // itemsize
