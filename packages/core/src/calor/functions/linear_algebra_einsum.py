"""Einstein's summation convention: products over named axes.

Requirements: a call that was seen before costs a look-up and one recorded op per pair of operands;
the order of the pairs keeps the intermediate results small, chosen greedily.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod
from typing import Any

from calor.dtypes import bool_
from calor.errors import ArgumentError, ShapeError
from calor.functions.arguments import common_dtype
from calor.functions.linear_algebra_contract import Product, plan
from calor.functions.operands import as_tensors, lowered
from calor.interning import remember
from calor.local import local
from calor.ops.base import Op, signature
from calor.ops.elementwise import cast
from calor.ops.movement import permute, reshape, slice_
from calor.ops.reductions import any_
from calor.ops.reductions import sum as total
from calor.specs import Spec
from calor.tensor.tensor import Operand, Tensor

Label = str | int
Step = tuple[Op, dict[str, Any]]


def einsum(equation: str, /, *operands: Operand) -> Tensor:
    """Return the sum of products that an equation of axis names describes.

    Parameters
    ----------
    equation : str
        Such as "ij,jk->ik": one letter for each axis, operands separated by commas. A name that is
        not in the output is summed over; one that an operand has twice takes its diagonal. "..."
        stands for axes that broadcast. Without "->" the output has the names that occur once, in
        alphabetical order.
    *operands : Tensor, ndarray or number
        One for each term of the equation. Axes of the same name have the same size or size 1.

    Returns
    -------
    Tensor
        The axes of the output, in the common dtype of the operands.

    Raises
    ------
    ArgumentError
        If the equation is malformed, or names another number of operands.
    ShapeError
        If the names do not fit an operand's axes, or sizes differ.
    DTypeError
        If there is no common dtype, or it is float8.

    Notes
    -----
    Several operands are multiplied in pairs, the pair with the smallest product of sizes first.

    Examples
    --------
    >>> import calor
    >>> x = calor.asarray([[1, 2], [3, 4]])
    >>> calor.einsum("ij,j->i", x, calor.asarray([1, 1])).tolist()
    [3, 7]
    >>> calor.einsum("ii", x).item()
    5
    """
    tensors: Sequence[Any] = operands
    if local.autocast is not None and len(operands) > 1:
        tensors = [lowered(t) for t in operands]
    try:
        key = (equation, *[t._value.spec for t in tensors])
    except AttributeError:
        tensors = as_tensors(*tensors)
        key = (equation, *[t._value.spec for t in tensors])
    program = _PROGRAMS.get(key)
    if program is None:
        program = remember(_PROGRAMS, key, _Program(equation, key[1:]))
    made: Tensor = program(tensors)
    # An equation that changes nothing still gives a tensor of its own.
    return made if program.changes else made.copy()


class _Program:
    """The ops of one equation: steps of each operand, products of pairs, steps of the result."""

    def __init__(self, equation: str, specs: tuple[Spec, ...]) -> None:
        self.first: list[list[Step]] = []
        self.pairs: list[tuple[int, int, Product]] = []
        self.last: list[Step] = []
        names, out = _parse(equation, specs)
        sizes = _sizes(equation, names, specs)
        dtype = common_dtype([x.dtype for x in specs], "einsum")
        parts = []
        for labels, x in zip(names, specs, strict=True):
            steps: list[Step] = []
            if x.dtype is not dtype:
                x = _step(steps, x, cast, dtype=dtype)
            parts.append(_without_repeats(labels, x, sizes, steps))
            self.first.append(steps)
        parts = [
            _summed(labels, x, _elsewhere(parts, i, out), self.first[i])
            for i, (labels, x) in enumerate(parts)
        ]
        while len(parts) > 1:
            parts = self._multiply(parts, out, sizes)
        labels, x = parts[0]
        if tuple(labels) != out:
            self.last.append((permute, {"axes": tuple(labels.index(n) for n in out)}))
        self.changes = bool(self.pairs or self.last or any(self.first))

    def _multiply(
        self, parts: list[tuple[list[Label], Spec]], out: tuple[Label, ...], sizes: dict[Label, int]
    ) -> list[tuple[list[Label], Spec]]:
        """Plan the product of the cheapest pair; return what is left, the product at the end."""

        def cost(pair: tuple[int, int]) -> int:
            return prod(sizes[n] for n in {*parts[pair[0]][0], *parts[pair[1]][0]})

        i, j = min(combinations(range(len(parts)), 2), key=cost)
        (left, a), (right, b) = parts[i], parts[j]
        rest = [p for k, p in enumerate(parts) if k not in (i, j)]
        wanted = {*out}.union(*(labels for labels, _ in rest))
        made = [n for n in dict.fromkeys((*left, *right)) if n in wanted]
        if not rest:
            made = list(out)
        product = plan("einsum", a, b, tuple(left), tuple(right), tuple(made))
        self.pairs.append((i, j, product))
        return [*rest, (made, a.with_shape(tuple(sizes[n] for n in made)))]

    def __call__(self, tensors: Sequence[Any]) -> Any:
        """Record the ops."""
        values = [_run(steps, x) for steps, x in zip(self.first, tensors, strict=True)]
        for i, j, product in self.pairs:
            made = product(values[i], values[j])
            values = [v for k, v in enumerate(values) if k not in (i, j)]
            values.append(made)
        return _run(self.last, values[0])


_PROGRAMS: dict[Any, _Program] = {}


def _run(steps: list[Step], x: Any) -> Any:
    for row, attributes in steps:
        x = row(x, **attributes)
    return x


def _parse(equation: str, specs: tuple[Spec, ...]) -> tuple[list[list[Label]], tuple[Label, ...]]:
    """Return the labels of each operand's axes and of the result's; those of "..." are numbers."""
    if not isinstance(equation, str):
        raise ArgumentError(
            f'einsum: the equation comes first, as in einsum("ij,jk->ik", x, y); it is a '
            f"{type(equation).__name__}"
        )
    text, arrow, result = equation.replace(" ", "").partition("->")
    terms = text.split(",")
    if len(terms) != len(specs):
        raise ArgumentError(
            f"einsum: {equation!r} names {len(terms)} operands, {len(specs)} were given"
        )
    names = [_labels(equation, t, x.ndim) for t, x in zip(terms, specs, strict=True)]
    every = [n for labels in names for n in labels]
    spread = range(min((n for n in every if isinstance(n, int)), default=0), 0)
    if not arrow:
        once = sorted(n for n in {*every} if isinstance(n, str) and every.count(n) == 1)
        return names, (*spread, *once)
    dots = len(spread) if "..." in result else 0
    out = _labels(equation, result, len(result.replace("...", "")) + dots)
    if len({*out}) != len(out) or not {*out} <= {*every}:
        raise ArgumentError(
            f"einsum: the output of {equation!r} must name axes of the operands, each once"
        )
    return names, tuple(out)


def _labels(equation: str, term: str, ndim: int) -> list[Label]:
    head, dots, tail = term.partition("...")
    if not (head + tail).isalpha() and head + tail:
        raise ArgumentError(
            f"einsum: {term!r} in {equation!r} is not made of letters and at most one '...'"
        )
    count = ndim - len(head) - len(tail)
    if count < 0 or (count and not dots):
        raise ShapeError(
            f"einsum: {term!r} in {equation!r} names {len(head) + len(tail)} axes of an operand "
            f"that has {ndim}"
        )
    return [*head, *range(-count, 0), *tail]


def _sizes(equation: str, names: list[list[Label]], specs: tuple[Spec, ...]) -> dict[Label, int]:
    sizes: dict[Label, int] = {}
    for labels, x in zip(names, specs, strict=True):
        for name, n in zip(labels, x.shape, strict=True):
            known = sizes.setdefault(name, n)
            if known == 1:
                sizes[name] = n
            elif n not in (1, known):
                raise ShapeError(
                    f"einsum: axis {name!r} of {equation!r} has sizes {known} and {n} for shapes "
                    f"{', '.join(str(s.shape) for s in specs)}"
                )
    return sizes


def _step(program: list[Step], x: Spec, row: Op, /, **attributes: Any) -> Spec:
    program.append((row, attributes))
    return signature(row, (x,), attributes).outputs[0]


def _without_repeats(
    labels: list[Label], x: Spec, sizes: dict[Label, int], steps: list[Step]
) -> tuple[list[Label], Spec]:
    """Drop axes of size 1 that are longer elsewhere, and take the diagonals of repeated labels."""
    keep = [i for i, n in enumerate(labels) if x.shape[i] == sizes[n]]
    if len(keep) < len(labels):
        x = _step(steps, x, reshape, shape=tuple(x.shape[i] for i in keep))
        labels = [labels[i] for i in keep]
    for name in [n for n in dict.fromkeys(labels) if labels.count(n) > 1]:
        places = [i for i, n in enumerate(labels) if n == name]
        others = [i for i, n in enumerate(labels) if n != name]
        x = _step(steps, x, permute, axes=(*others, *places))
        # The diagonal of a cube of side n is every (1 + n + n² …)-th element.
        n, shape = sizes[name], tuple(x.shape[: len(others)])
        x = _step(steps, x, reshape, shape=(*shape, n ** len(places)))
        stride = sum(n**k for k in range(len(places)))
        x = _step(
            steps,
            x,
            slice_,
            starts=(0,) * x.ndim,
            stops=x.shape,
            steps=(*(1,) * len(shape), stride),
        )
        labels = [*(labels[i] for i in others), name]
    return labels, x


def _elsewhere(parts: list[tuple[list[Label], Spec]], i: int, out: tuple[Label, ...]) -> set[Label]:
    return {*out}.union(*(labels for k, (labels, _) in enumerate(parts) if k != i))


def _summed(
    labels: list[Label], x: Spec, wanted: set[Label], steps: list[Step]
) -> tuple[list[Label], Spec]:
    """Sum over the axes that neither another operand nor the result has."""
    axes = tuple(i for i, n in enumerate(labels) if n not in wanted)
    if axes and x.dtype is bool_:
        x = _step(steps, x, any_, axes=axes)
    elif axes:
        x = _step(steps, x, total, axes=axes, dtype=x.dtype)
    return [n for n in labels if n in wanted], x
