"""Accessors: how kernels of every family read operands and write results that are not plain memory.

Requirements: work before a kernel (a cast, a bias, an activation, dequantisation) is done where it
reads, and work after it where it writes, with no memory in between and the same numbers; a kernel
takes an accessor as a build-time argument and calls it, so that what is fused is part of its key;
an accessor of plain memory costs nothing.

A kernel keeps, per operand of the accessor, a pointer and the place of an element in it, counted in
values, not in elements of memory: a complex value is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType
from calor_kernel.ir.types import Buffer
from calor_kernel.library.elementwise.expression import Expression
from calor_kernel.library.elementwise.values import Value, load, store, stored


@dataclass(frozen=True, slots=True)
class Reader:
    """What reads a value: an expression with one result, of operands in memory.

    ``steps``: per operand how its values lie along the lanes of a vector: 1, one after another;
    0, one value for all; −1, as far apart as the call says.

    >>> from calor.dtypes import float16, float32
    >>> plain = Reader.of(float32)
    >>> bias = Reader(Expression.of("add", (float32, float32), float32), (1, 0))
    >>> [b.dtype.name for b in bias.buffers], bias.dtype.name
    (['float32', 'float32'], 'float32')
    """

    expression: Expression
    steps: tuple[int, ...] = (1,)

    @staticmethod
    def of(dtype: DType, step: int = 1) -> Reader:
        """Return the reader of plain memory."""
        return Reader(Expression((dtype,)), (step,))

    @property
    def dtype(self) -> DType:
        """The dtype of what is read."""
        (made,) = self.expression.outputs
        return made

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """What a kernel's signature says of the operands."""
        return tuple(Buffer(stored(t), writable=False) for t in self.expression.operands)

    def read(
        self,
        sources: Sequence[Any],
        places: Sequence[Any],
        width: int = 1,
        *,
        strides: Sequence[Any] = (),
        rest: Any = None,
        align: int = 0,
    ) -> Value:
        """Return ``width`` values from the places of the first one on.

        ``strides``: per operand the distance of its values along the lanes, for steps of −1.
        ``rest``: how many of the values exist; those beyond are computed from zeros.
        ``align``: bytes by which the places of all operands with steps of 1 divide.
        """
        values = operands_of(
            self.expression.operands,
            self.steps,
            sources,
            places,
            width,
            strides=strides,
            rest=rest,
            align=align,
        )
        (made,) = self.expression.evaluate(values)
        return made


@dataclass(frozen=True, slots=True)
class Writer:
    """What writes a value: an expression whose first operand is what the kernel has computed.

    ``steps``: as a Reader's, for the other operands. The results are written densely.

    >>> from calor.dtypes import float32
    >>> Writer.of(float32).outputs
    (calor.float32,)
    """

    expression: Expression
    steps: tuple[int, ...] = ()

    @staticmethod
    def of(dtype: DType) -> Writer:
        """Return the writer of plain memory."""
        return Writer(Expression((dtype,)))

    @property
    def dtype(self) -> DType:
        """The dtype of what the kernel hands over."""
        return self.expression.operands[0]

    @property
    def outputs(self) -> tuple[DType, ...]:
        """The dtypes of the results."""
        return self.expression.outputs

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """What a kernel's signature says of the other operands, and then of the results."""
        others = tuple(Buffer(stored(t), writable=False) for t in self.expression.operands[1:])
        return (*others, *(Buffer(stored(t)) for t in self.outputs))

    def write(
        self,
        targets: Sequence[Any],
        place: Any,
        value: Value,
        sources: Sequence[Any] = (),
        places: Sequence[Any] = (),
        width: int = 1,
        *,
        strides: Sequence[Any] = (),
        rest: Any = None,
        align: int = 0,
        nontemporal: bool = False,
    ) -> None:
        """Write what becomes of the value's lanes, one after another from ``place`` on."""
        others = operands_of(
            self.expression.operands[1:],
            self.steps,
            sources,
            places,
            width,
            strides=strides,
            rest=rest,
        )
        made = self.expression.evaluate([value, *others])
        for target, dtype, result in zip(targets, self.outputs, made, strict=True):
            store(
                target,
                dtype,
                place,
                result,
                rest=rest,
                align=align,
                nontemporal=nontemporal,
            )


def operands_of(
    dtypes: Sequence[DType],
    steps: Sequence[int],
    sources: Sequence[Any],
    places: Sequence[Any],
    width: int,
    *,
    strides: Sequence[Any] = (),
    rest: Any = None,
    align: int = 0,
) -> list[Value]:
    """Return the values of operands in memory; arguments as for Reader.read."""
    return [
        load(
            sources[k],
            dtype,
            places[k],
            width,
            step=strides[k] if steps[k] < 0 else steps[k],
            rest=rest,
            align=align,
        )
        for k, dtype in enumerate(dtypes)
    ]
