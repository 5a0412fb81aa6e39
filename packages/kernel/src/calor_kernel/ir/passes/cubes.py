"""Folds cubes of three axes into fewer, for devices with a limit along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from calor.dtypes import int64
from calor_kernel.ir.nodes import Block, Kernel, Operation, Parameter, Value
from calor_kernel.ir.passes.rewriting import Parts, Rewriter
from calor_kernel.ir.types import Scalar, Type

# The parameters with the number of cubes along each axis.
COUNTS: Final = ("cubes_along_x", "cubes_along_y", "cubes_along_z")
COUNT: Final = Scalar(int64, nonnegative=True)


def fold_cubes(kernel: Kernel) -> Kernel:
    """Return the kernel for launches along x and y that represent cubes of three axes.

    Three more parameters give the number of cubes along each axis. The launch has at least as many
    in total; excess cubes do nothing. They are numbered as a launch numbers its own, x fastest.
    """
    return _Folded().run(kernel)


class _Folded(Rewriter):
    """Replaces positions and counts of cubes by functions of the launch's parameters."""

    def run(self, kernel: Kernel) -> Kernel:
        values = [Value(Type(int64), name, nonnegative=True) for name in COUNTS]
        counts = [Parameter(n, COUNT, v) for n, v in zip(COUNTS, values, strict=True)]
        self._counts = values
        made = super().run(kernel)
        return replace(made, parameters=(*made.parameters, *counts))

    def _visit(self, source: Block, target: Block) -> None:
        self.block = target
        x, y, z = self._counts
        across, down = (self._own("cube_position", axis) for axis in (0, 1))
        number = self.make("add", across, self.make("mul", down, self._own("cube_count", 0)))
        plane = self.make("mul", x, y)
        exists = self.make("lt", number, self.make("mul", plane, z))
        rest = self.make("quotient", number, x)
        self._places = (
            self.make("modulo", number, x),
            self.make("modulo", rest, y),
            self.make("quotient", number, plane),
        )
        regions = (self.region(source), Block())
        self.block.operations.append(Operation("if", (exists,), (), {}, regions))

    def _own(self, name: str, axis: int) -> Value:
        (made,) = self.emit(name, (), (Type(int64),), {"axis": axis})
        made.nonnegative = True
        return made

    def operation(self, operation: Operation) -> Sequence[Parts] | None:
        """Emit the replacement of a position or count of cubes."""
        if operation.name not in ("cube_position", "cube_count"):
            return None
        known = self._places if operation.name == "cube_position" else self._counts
        value = known[operation.attributes["axis"]]
        return [(self.convert(value, operation.result.type.dtype),)]
