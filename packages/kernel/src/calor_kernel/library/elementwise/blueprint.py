"""Blueprints of elementwise kernels, and their reads of operands and writes of results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calor_kernel.language import Index, Pointer
from calor_kernel.library.elementwise.expression import Expression
from calor_kernel.library.elementwise.values import Value, load, store


@dataclass(frozen=True, slots=True)
class Blueprint:
    """The build-time parameters of a kernel.

    ``steps``: for each operand 1 if its values are adjacent along the lanes, 0 if they are one
    value, −1 if the launch has their stride. ``align``: for each operand, and then the results, the
    alignment of its start in bytes. ``width``: lanes of a vector, possibly several vectors of the
    device. ``shared_body``: whether the masked end uses the main body, so that a long expression is
    compiled once. ``nontemporal``: whether results bypass the caches. ``even``: whether all rows of
    the results have the alignment of the first.
    """

    expression: Expression
    steps: tuple[int, ...]
    align: tuple[int, ...]
    width: int
    shared_body: bool = False
    nontemporal: bool = False
    even: bool = False

    def read(
        self,
        sources: Sequence[Pointer],
        places: Sequence[Index],
        strides: Sequence[Index],
        ahead: Sequence[Value | None],
        rest: Index | None = None,
        *,
        dense: bool = False,
    ) -> list[Value]:
        """Return the operands' values at positions; those of ``ahead`` have been read already.

        ``rest``: how many of the lanes exist. ``dense``: whether the positions keep the alignment
        of the operands' starts.
        """
        return [
            known
            if known is not None
            else load(
                sources[k],
                dtype,
                places[k],
                self.width,
                step=strides[k] if self.steps[k] < 0 else self.steps[k],
                rest=rest,
                align=self.align[k] if dense else 0,
            )
            for k, (dtype, known) in enumerate(zip(self.expression.operands, ahead, strict=True))
        ]

    def write(
        self,
        targets: Sequence[Pointer],
        place: Index,
        values: Sequence[Value],
        rest: Index | None = None,
        *,
        dense: bool = False,
    ) -> None:
        """Write the results' values from a position on; arguments as for read."""
        for target, dtype, value in zip(targets, self.expression.outputs, values, strict=True):
            store(
                target,
                dtype,
                place,
                value,
                rest=rest,
                align=self.align[-1] if dense else 0,
                nontemporal=self.nontemporal and dense,
            )

    def fixed(self, sources: Sequence[Pointer], places: Sequence[Index]) -> list[Value | None]:
        """Return operands with one value along the lanes, read ahead; None for the others."""
        return [
            load(sources[k], dtype, places[k], self.width, step=0) if self.steps[k] == 0 else None
            for k, dtype in enumerate(self.expression.operands)
        ]
