"""Accesses of vectors with one mask for all lanes, as branches around whole accesses.

Languages without masked accesses guard each lane by itself, which turns a load of 16 bytes into
four.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor_kernel.ir.nodes import Block, Kernel, Operation, Value
from calor_kernel.ir.passes.rewriting import Parts, Rewriter


def branch_uniform_masks(kernel: Kernel) -> Kernel:
    """Return the kernel without masks of consecutive elements that one bool decides.

    >>> from calor.dtypes import float32, int64
    >>> from calor_kernel.language import Buffer, Scalar, kernel
    >>> @kernel
    ... def copy(x, y, n):
    ...     y.store(0, x.load(0, 4, mask=n > 3), mask=n > 3)
    >>> built = copy.build([Buffer(float32), Buffer(float32), Scalar(int64)])  # doctest: +SKIP
    >>> made = branch_uniform_masks(built)  # doctest: +SKIP
    >>> [o.name for o in made.body.walk() if o.regions]  # doctest: +SKIP
    ['if', 'if']
    """
    masked = any(operation.attributes.get("masked") for operation in kernel.body.walk())
    return _Branches().run(kernel) if masked else kernel


class _Branches(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        # The bools that fill masks.
        self.bools: dict[Value, Value] = {}

    def emit(self, name: str, operands: Sequence[Value] = (), *given: Any, **named: Any) -> Parts:
        made = super().emit(name, operands, *given, **named)
        if name == "splat":
            self.bools[made[0]] = operands[0]
        return made

    def operation(self, operation: Operation) -> Sequence[Parts] | None:
        name = operation.name
        if name not in ("load", "store") or not operation.attributes.get("masked"):
            return None
        index, *values = (self.get(value) for value in operation.operands)
        value, mask = values if name == "store" else reversed(values)
        condition = self.bools.get(mask)
        if condition is None or index.type.width > 1:
            return None
        said = {key: one for key, one in operation.attributes.items() if key != "masked"}
        operands = (index,) if name == "load" else (index, value)
        with self.inside(Block()) as there:
            there.yields = self.again(operation, operands, None, said)
        elsewhere = Block(yields=(value,) if name == "load" else ())
        types = [result.type for result in operation.results]
        made = self.emit("if", (condition,), types, regions=(there, elsewhere))
        return [(one,) for one in made]
