"""Recipes: how operands of an elementwise op are brought to one dtype and shape.

Below the Tensor API nothing broadcasts or promotes; a recipe holds the explicit ``cast`` and
``expand`` nodes for one combination of operand specs, worked out once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from calor import dtypes
from calor.config import config
from calor.errors import DTypeError, ShapeError
from calor.graph.attributes import exact_items, exact_test, of_integers
from calor.graph.op import Op, Signature, find, signature
from calor.interning import remember
from calor.local import local
from calor.sizes import hint_of
from calor.specs import Spec, spec


class Recipe:
    """How one call of an op at the Tensor level is recorded: casts and expands, then the op."""

    __slots__ = (
        "cost",
        "integers",
        "keeps",
        "many",
        "out",
        "plain",
        "prologues",
        "signature",
        "tests",
    )

    def __init__(self, sig: Signature, prologues: tuple[tuple[Signature, ...], ...]) -> None:
        self.signature = sig
        self.out = sig.outputs[0]
        self.many = len(sig.outputs) > 1
        self.prologues = prologues
        self.plain = not any(prologues)
        # What a gradient record keeps, by which operands need one; filled by the gradient module.
        self.keeps: dict[tuple[bool, ...], Any] = {}
        self.cost = cost_of(sig)
        # What tells its attributes from others that are equal, such as 0.0 from −0.0: those that
        # are tuples of integers, which is quickest to see, and tests for the rest.
        given = sig.attributes.items()
        self.integers = tuple([name for name, value in given if of_integers(value)])
        tests = [(name, exact_test(value)) for name, value in given if name not in self.integers]
        self.tests = tuple([(name, test) for name, test in tests if test is not None])


def attributed_recipe(row: Op, specs: tuple[Spec, ...], attributes: dict[str, Any]) -> Recipe:
    """Return the recipe for attributes that the memo of the op does not find by ``==``.

    It is remembered under the key that :func:`~calor.recording.record.apply` looks for, unless that
    is taken by attributes that are only equal, or never found again since it holds a NaN.
    """
    precise = (exact_items(attributes), specs)
    recipe: Recipe | None = row.memo.get(precise)
    if recipe is None:
        recipe = Recipe(signature(row, specs, attributes), ((),) * len(specs))
        quick = (specs, *attributes.items())
        found_again = quick not in row.memo and not _holds_nan(tuple(attributes.values()))
        remember(row.memo, quick if found_again else precise, recipe)
    return recipe


def _holds_nan(value: Any) -> bool:
    if type(value) is tuple:
        return any(map(_holds_nan, value))
    return bool(value != value)


def cost_of(sig: Signature) -> int:
    """Return how much of the trace's room a node uses: one, and more for large outputs."""
    share = max(1, config.trace_bytes // config.trace_nodes)
    nbytes: int = sum(hint_of(s.nbytes) for s in sig.outputs)
    return 1 + nbytes // share


def recalled_recipe(row: Op, specs: tuple[Spec, ...], key: Any) -> Recipe:
    """Return the recipe of operands that the memo of the op does not have under a key.

    It is remembered under the key, or with the default dtype beside it where that decides.
    """
    if by_default(row, specs):
        key = (key, local.floating)
        found: Recipe | None = row.memo.get(key)
        if found is not None:
            return found
    recipe = elementwise_recipe(row, specs)
    remember(row.memo, key, recipe)
    return recipe


def by_default(row: Op, specs: Sequence[Spec]) -> bool:
    """Return whether the dtype in which an op computes is the default of floating numbers."""
    specs = specs[1:] if row.name == "where" else specs
    if any(s.dtype.is_inexact and not s.weak for s in specs):
        return False
    return row.promotion == "float" or any(s.dtype.is_inexact for s in specs)


# What sums and products of truth values are, as in NumPy and PyTorch.
_OF_TRUTH: Final = {"add": "bit_or", "mul": "bit_and"}


def elementwise_recipe(row: Op, specs: tuple[Spec, ...]) -> Recipe:
    """Return how to bring operands to a common dtype and shape, and the op's signature."""
    try:
        dtype = common_dtype(row, specs)
        shape = broadcast_shapes(row.name, specs)
    except (DTypeError, ShapeError) as error:
        error.name_op(row.name)
        raise
    if dtype is dtypes.bool_:
        row = find(_OF_TRUTH.get(row.name, row.name))
    weak = all(s.weak for s in specs)
    prologues = []
    targets = []
    for i, s in enumerate(specs):
        steps: list[Signature] = []
        wanted = s.dtype if row.name == "where" and i == 0 else dtype
        if s.dtype is not wanted:
            cast = signature(find("cast"), (s,), {"dtype": wanted})
            steps.append(cast)
            s = cast.outputs[0]
        if s.shape != shape:
            expand = signature(find("expand"), (s,), {"shape": shape})
            steps.append(expand)
            s = expand.outputs[0]
        prologues.append(tuple(steps))
        targets.append(s)
    sig = signature(row, tuple(targets), {})
    recipe = Recipe(sig, tuple(prologues))
    if weak and not recipe.out.weak:
        # What Python computes of its numbers is a Python number, also of another kind.
        recipe.out = spec(recipe.out.shape, recipe.out.dtype, True)
    return recipe


def common_dtype(row: Op, specs: Sequence[Spec]) -> dtypes.DType:
    """Return the dtype in which an elementwise op computes for these operands."""
    specs = specs[1:] if row.name == "where" else specs
    strong = [s.dtype for s in specs if not s.weak]
    weak = [s.dtype for s in specs if s.weak]
    try:
        result = None
        for t in strong:
            result = t if result is None else dtypes.promote(result, t)
        for t in weak:
            if result is None:
                result = t
            elif not strong:
                result = dtypes.promote(result, t)
            else:
                result = dtypes.promote_weak(result, t)
    except DTypeError as error:
        raise DTypeError(f"{row.name}: {error}") from None
    assert result is not None
    if row.promotion == "float" and not result.is_inexact:
        result = dtypes.float_of(result)
    return result


def broadcast_shapes(name: str, specs: Sequence[Spec]) -> tuple[int, ...]:
    """Return the common shape; ShapeError shows all shapes when there is none."""
    first = specs[0].shape
    if all(s.shape == first for s in specs):
        return first
    ndim = max(s.ndim for s in specs)
    result = [1] * ndim
    for s in specs:
        for i, size in enumerate(s.shape, ndim - s.ndim):
            if size != 1:
                if result[i] not in (1, size):
                    shapes = " and ".join(str(t.shape) for t in specs)
                    raise ShapeError(
                        f"{name}: shapes {shapes} cannot be broadcast; sizes of each axis, counted "
                        f"from the last, must be equal or 1"
                    )
                result[i] = size
    return tuple(result)
