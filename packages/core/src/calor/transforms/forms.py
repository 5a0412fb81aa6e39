"""The form of a pytree: where its tensors stand, and what stands in the other places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from calor import tree
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.specs import Spec
from calor.tensor.values import Handle
from calor.transforms.state import Static


@dataclass(frozen=True)
class Form:
    """Where the tensors of a flattened pytree stand; the other leaves are kept as they are."""

    structure: tree.TreeDef
    places: tuple[int, ...]
    others: tuple[Static, ...]

    @staticmethod
    def of(value: Any) -> tuple[Form, list[Any]]:
        """Return the form of a pytree and its tensors."""
        leaves, structure = tree.flatten(value)
        places = tuple(i for i, x in enumerate(leaves) if isinstance(x, Handle))
        others = tuple(Static(None if isinstance(x, Handle) else x) for x in leaves)
        return Form(structure, places, others), [leaves[i] for i in places]

    def filled(self, tensors: Sequence[Any], others: bool = True) -> Any:
        """Return the pytree with these tensors; the other leaves are None unless ``others``."""
        leaves = [x.value if others else None for x in self.others]
        for place, t in zip(self.places, tensors, strict=True):
            leaves[place] = t
        return tree.unflatten(self.structure, leaves)


def fitting(given: Any, wanted: Spec, told: str, what: str, advice: str) -> Any:
    """Return a tensor that a user's rule made, if it has the shape and the dtype of another one.

    ``told`` begins the error, ``what`` is what the tensor is and of what, such as a gradient for a
    tensor; ``advice`` is about shapes.
    """
    name, _, other = what.partition(" for ")
    if not isinstance(given, Handle):
        raise ArgumentError(f"{told} a {type(given).__name__} as a {name}; return a tensor")
    found = given._value.spec
    if found.shape != wanted.shape:
        raise ShapeError(
            f"{told} a {name} of shape {found.shape} for {other} of shape {wanted.shape}; {advice}"
        )
    if found.dtype is not wanted.dtype:
        raise DTypeError(
            f"{told} a {name} in {found.dtype.name} for {other} in {wanted.dtype.name}; convert "
            f"it: g.astype(calor.{wanted.dtype.name})"
        )
    return given
