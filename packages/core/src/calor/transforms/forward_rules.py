"""Forward rules that the user writes: derivatives along tangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from calor import tree
from calor.errors import ArgumentError
from calor.ops.sources import zeros_of
from calor.specs import Spec
from calor.tensor.values import is_weak
from calor.transforms.forms import Form, fitting


@dataclass(frozen=True)
class Push:
    """A forward rule on tensors: operands and their tangents to the tangents of the value.

    ``name``: of the function. ``specs``: of the tensors in its value.
    """

    name: str
    rule: Callable[..., Any]
    arguments: Form
    value: Form
    specs: tuple[Spec, ...]

    def __call__(self, operands: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        moving = [_tangent(x, t) for x, t in zip(operands, tangents, strict=True)]
        primals = self.arguments.filled(operands)
        found = self.rule(primals, self.arguments.filled(moving, others=False))
        if not isinstance(found, tuple) or len(found) != 2:
            what = f"{len(found)} parts" if isinstance(found, tuple) else type(found).__name__
            raise ArgumentError(
                f"the forward rule of {self.name} returned {what}; return a pair of the value and "
                f"its derivative"
            )
        return self._checked(found[1])

    def _checked(self, derivative: Any) -> list[Any]:
        """Return the derivative's tensors if they fit those of the value."""
        leaves = tree.aligned(derivative, self.value.structure, absent=True)
        if leaves is None:
            raise ArgumentError(
                f"the forward rule of {self.name} returned a derivative of the structure "
                f"{tree.flatten(derivative)[1]} for a value of {self.value.structure}; they have "
                f"one structure"
            )
        given = [leaves[i] for i in self.value.places]
        return [self._fitting(*one) for one in zip(given, self.specs, strict=True)]

    def _fitting(self, t: Any, wanted: Spec) -> Any:
        if t is None or not wanted.dtype.is_inexact:
            return None
        told = f"the forward rule of {self.name} returned"
        return fitting(t, wanted, told, "derivative for a value", "they have one shape")


def _tangent(x: Any, tangent: Any) -> Any:
    """Return a tangent of an operand, zeros if it does not move, None if it cannot."""
    if tangent is not None or not x._value.spec.dtype.is_inexact or is_weak(x):
        return tangent
    return zeros_of(x._value.spec, x._value.device)
