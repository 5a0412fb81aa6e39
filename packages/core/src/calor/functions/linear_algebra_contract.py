"""How two tensors are multiplied and summed over shared axes: one ``dot_general``, planned once.

Requirements: axes are named by labels, so that matmul, tensordot, vecdot and einsum are one engine.
Nothing is broadcast: an axis that only one operand has stays free in the product, which a permute
puts in its place, and an axis of size 1 that meets a longer one is dropped. So no operand, and no
gradient of one, is larger than it was. A plan is worked out once per combination of specs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor import dtypes
from calor.errors import DTypeError, ShapeError
from calor.local import local
from calor.ops.base import Signature, signature
from calor.ops.contraction import dot_general
from calor.ops.elementwise import cast
from calor.ops.movement import permute, reshape
from calor.precision import rounds
from calor.recording.recipes import Recipe
from calor.recording.record import recorded
from calor.specs import Spec
from calor.tensor.values import Handle

Labels = tuple[Any, ...]


class Product:
    """A planned product: casts and reshapes of the operands, the op, and the order of the axes."""

    __slots__ = ("_others", "axes", "recipe")

    def __init__(self, recipe: Recipe, axes: tuple[int, ...] | None) -> None:
        self.recipe = recipe
        self.axes = axes
        self._others: dict[str, Recipe] = {}

    def at(self, precision: str) -> Recipe:
        """Return the recipe of another precision than the highest: of float32, and of float8."""
        found = self._others.get(precision)
        if found is None:
            sig = self.recipe.signature
            found = self.recipe
            types = {s.dtype for s in (*sig.inputs, *sig.outputs)}
            if types == {dtypes.float32} or sig.inputs[0].dtype.kind == "storage":
                attributes = {**sig.attributes, "precision": precision}
                found = Recipe(signature(dot_general, sig.inputs, attributes), found.prologues)
            self._others[precision] = found
        return found

    def __call__(self, a: Handle, b: Handle) -> Any:
        """Record the product of two tensors of the planned specs."""
        precision = local.precision
        recipe = self.at(precision) if rounds(precision) else self.recipe
        made = recorded(recipe, (a, b))
        return made if self.axes is None else permute(made, axes=self.axes)


def plan(
    what: str,
    a: Spec,
    b: Spec,
    left: Labels,
    right: Labels,
    out: Labels,
    result: dtypes.DType | None = None,
) -> Product:
    """Return how to multiply specs whose axes are named ``left`` and ``right``.

    The labels of one operand are distinct. A label in both that is not in ``out`` is summed over;
    every other label is in ``out``. ``result``: the type of sums where it is not the common one.
    Raises ShapeError where sizes differ and neither is 1, DTypeError where the types have no common
    one.
    """
    factors, dtype = _types(what, a.dtype, b.dtype, result)
    sizes_a, sizes_b = dict(zip(left, a.shape, strict=True)), dict(zip(right, b.shape, strict=True))
    drop_a: set[Any] = set()
    drop_b: set[Any] = set()
    for name in sizes_a.keys() & sizes_b.keys():
        n, m = sizes_a[name], sizes_b[name]
        if n == m:
            continue
        if n != 1 and m != 1:
            raise ShapeError(
                f"{what}: shapes {a.shape} and {b.shape} do not fit; axis {left.index(name)} of "
                f"the first has size {n}, axis {right.index(name)} of the second has size {m}"
            )
        (drop_a if n == 1 else drop_b).add(name)
    steps_a, a = _prologue(a, factors[0], [n not in drop_a for n in left])
    steps_b, b = _prologue(b, factors[1], [n not in drop_b for n in right])
    left = tuple(n for n in left if n not in drop_a)
    right = tuple(n for n in right if n not in drop_b)
    if alone := [n for n in (*left, *right) if n not in out and (n in left) != (n in right)]:
        raise AssertionError(f"axes {alone} of one operand must be summed before the product")
    shared = [n for n in out if n in left and n in right]
    summed = [n for n in left if n in right and n not in out]
    made = shared + [n for n in left if n not in right] + [n for n in right if n not in left]
    attributes = {
        "contract": (_places(left, summed), _places(right, summed)),
        "batch": (_places(left, shared), _places(right, shared)),
        "dtype": dtype,
    }
    recipe = Recipe(signature(dot_general, (a, b), attributes), (steps_a, steps_b))
    order = _places(made, out)
    return Product(recipe, None if order == tuple(range(len(order))) else order)


def _types(
    what: str, a: dtypes.DType, b: dtypes.DType, result: dtypes.DType | None
) -> tuple[tuple[dtypes.DType, dtypes.DType], dtypes.DType]:
    """Return what the operands are cast to, and the type of the sums."""
    if result is not None and a.kind == b.kind == "storage":
        if result.kind != "float":
            raise DTypeError(
                f"{what}: products of {a.name} are summed in a floating type, not {result.name}; "
                f"dtype=calor.float32"
            )
        return (a, b), result
    try:
        common = dtypes.promote(a, b)
    except DTypeError as error:
        raise DTypeError(f"{what}: {error}") from None
    if common.kind == "storage":
        raise DTypeError(
            f"{what}: {common.name} is a storage type without arithmetic; name the type of the "
            f"sums in calor.matmul(..., dtype=calor.float32), or cast it first: "
            f"x.astype(calor.float32)"
        )
    if result is None or result is common:
        return (common, common), common
    kinds = {common.kind, result.kind}
    alike = kinds == {"int", "uint"} or (len(kinds) == 1 and common.kind != "bool")
    if not alike or dtypes.promote(common, result) is not result:
        raise DTypeError(
            f"{what}: sums of {common.name} need a dtype of the same kind that is at least as "
            f"wide, not {result.name}; cast the result instead: .astype(calor.{result.name})"
        )
    return (common, common), result


def _prologue(
    x: Spec, dtype: dtypes.DType, keep: Sequence[bool]
) -> tuple[tuple[Signature, ...], Spec]:
    """Return the nodes that cast an operand and drop axes of size 1, and the resulting spec."""
    steps = []
    if x.dtype is not dtype:
        steps.append(signature(cast, (x,), {"dtype": dtype}))
        x = steps[-1].outputs[0]
    if not all(keep):
        shape = tuple(n for n, k in zip(x.shape, keep, strict=True) if k)
        steps.append(signature(reshape, (x,), {"shape": shape}))
        x = steps[-1].outputs[0]
    return tuple(steps), x


def _places(labels: Sequence[Any], wanted: Sequence[Any]) -> tuple[int, ...]:
    return tuple(labels.index(n) for n in wanted)
