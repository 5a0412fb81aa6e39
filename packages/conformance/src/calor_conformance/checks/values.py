"""Values: every row with every dtype, special numbers, shapes, views and broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import calor
from calor.dtypes import DType
from calor.ops import movement as m

from ..rows.domains import chosen, grid
from ..rows.exemptions import NOT_EVERYWHERE
from ..rows.judging import judge, outputs, put
from ..rows.language import Case, case
from .base import Array, Check, Packable, Place, Run, Tier, packed
from .rows import graph_text, main_dtype, ordered, row_check, shared, tier_of
from .shrinking import smallest

SHAPES: tuple[tuple[int, ...], ...] = (
    (), (1,), (0,), (5,), (1, 1), (3, 0), (2, 3), (2, 1, 3), (0, 2, 3), (2, 2, 1, 2),
    (1, 2, 1, 3, 2),
)  # fmt: skip


def values(cases: Sequence[Case]) -> Iterator[Check]:
    """Yield checks of each row in each of its dtypes."""
    seen: set[Any] = set()
    for c in cases:
        for dtype in ordered(c):
            tier = tier_of(c, dtype, seen)
            yield _check("values", c, dtype, tier, explain=_explained(c, dtype))


def special_values(cases: Sequence[Case]) -> Iterator[Check]:
    """Yield checks of elementwise ops at NaN, infinities, zeros, denormals and integer extremes.

    Unary ops of 16-bit types get every bit pattern, others every combination of special numbers.
    Complex special values are left to the suite of the array API standard.
    """
    for c, dtype in _elementwise(cases):
        if c.op in NOT_EVERYWHERE or dtype.is_complex:
            continue
        everywhere = _everywhere(c, dtype)
        tier: Tier = "full" if dtype is main_dtype(c) else "dtypes"
        yield _check("special", everywhere, dtype, tier, subject=c.op,
                     explain=_explained(everywhere, dtype))  # fmt: skip


def shapes(cases: Sequence[Case]) -> Iterator[Check]:
    """Yield checks of elementwise ops at ranks 0 to 5, empty, with one element, and broadcast."""
    for c, dtype in _elementwise(cases):
        if dtype is not main_dtype(c):
            continue
        for shape in SHAPES:
            name = "x".join(map(str, shape)) or "scalar"
            yield _check("shapes", c.resized(shape), dtype, "full", subject=f"{c.op}-{name}")
        yield _broadcast(c, dtype)


def views(cases: Sequence[Case]) -> Iterator[Check]:
    """Yield checks of every row with flipped, transposed, reversed or reshaped operands.

    The views are movement ops just before the op, so that a device gets them inside a graph.
    """
    for c in cases:
        if not c.inputs:
            continue
        dtype = main_dtype(c)
        for name, view in VIEWS.items():
            yield _check("views", c, dtype, "full", subject=f"{c.label}-{name}", place_by=view)


def _check(
    kind: str,
    c: Case,
    dtype: DType,
    tier: Tier,
    *,
    subject: str = "",
    place_by: Callable[[Array], Any] | None = None,
    explain: Callable[[Place], str] | None = None,
) -> Check:
    body = _body(c, dtype, place_by)
    extra = place_by.__name__ if place_by is not None else ""
    return row_check(kind, c, dtype, tier, body, subject=subject, extra=extra, explain=explain)


def _body(
    c: Case, dtype: DType, place_by: Callable[[Array], Any] | None
) -> tuple[Run, Packable | None]:
    def call(*tensors: Any) -> list[Any]:
        return outputs(c.call(*tensors, dtype=dtype))

    def placed(arrays: Sequence[Array]) -> list[Any]:
        assert place_by is not None
        operands = [place_by(a) for a in arrays]
        return [*operands, *call(*operands)]

    def record(place: Place) -> Sequence[Any]:
        arrays = c.draw(dtype, place.seed)
        if place_by is None:
            return list(place.call(call, *put(arrays)))
        return list(place.call(lambda: placed(arrays)))

    def conclude(place: Place, got: Sequence[Array]) -> None:
        arrays = c.draw(dtype, place.seed)
        if place_by is not None:
            operands, got = got[: len(arrays)], got[len(arrays) :]
            for n, (a, b) in enumerate(zip(operands, arrays, strict=True)):
                assert a.tobytes() == b.tobytes(), f"operand {n} changed: {a!r}\nnot\n{b!r}"
        judge(c, dtype, arrays, got, place.flushes)

    run, steps = packed(record, conclude)
    return run, shared(c, steps)


def _explained(c: Case, dtype: DType) -> Callable[[Place], str]:
    def explain(place: Place) -> str:
        arrays = smallest(c, dtype, place)
        given = ", ".join(np.array2string(a, threshold=20) for a in arrays)
        return f"smallest failing input: {given}\n{graph_text(c, dtype, arrays, place)}"

    return explain


def _elementwise(cases: Sequence[Case]) -> list[tuple[Case, DType]]:
    """Return the first row of each elementwise op with each of its dtypes."""
    found: dict[tuple[str, DType], Case] = {}
    for c in cases:
        if c.elementwise:
            for dtype in c.dtypes:
                found.setdefault((c.op, dtype), c)
    return [(c, dtype) for (_, dtype), c in found.items()]


def _everywhere(c: Case, dtype: DType) -> Case:
    """Return the row with the special numbers of the dtype as its operands."""
    count = sum(d.dtype is None for d in c.inputs)
    arrays = iter(grid(dtype, count))
    size = grid(dtype, count)[0].size
    domains = tuple(
        chosen(next(arrays)) if d.dtype is None else d.resized((size,)) for d in c.inputs
    )
    return case(
        c.operation, *domains, oracle=c.oracle, dtypes=(dtype,), tol=c.tol, raw=c.raw, out=c.out,
        name="special",
    )  # fmt: skip


def _broadcast(c: Case, dtype: DType) -> Check:
    column, wide = c.resized((3, 1)), c.resized((3, 4))

    def call(*tensors: Any) -> list[Any]:
        return outputs(wide.call(*(m.expand(t, shape=(3, 4)) for t in tensors), dtype=dtype))

    def record(place: Place) -> Sequence[Any]:
        return list(place.call(call, *put(column.draw(dtype, place.seed))))

    def conclude(place: Place, got: Sequence[Array]) -> None:
        drawn = column.draw(dtype, place.seed)
        given = [np.broadcast_to(a, (3, 4)) for a in drawn]
        judge(wide, dtype, given, got, place.flushes)

    return row_check("shapes", wide, dtype, "full", packed(record, conclude),
                     subject=f"{c.op}-broadcast", extra="broadcast")  # fmt: skip


def _flipped(x: Array) -> Any:
    return m.flip(calor.asarray(np.flip(x).copy()), axes=tuple(range(x.ndim)))


def _transposed(x: Array) -> Any:
    axes = tuple(reversed(range(x.ndim)))
    return m.permute(calor.asarray(x.transpose().copy()), axes=axes)


def _stepped(x: Array) -> Any:
    """Return every other element of a larger array, backwards."""
    larger = np.zeros([2 * n + 1 for n in x.shape], x.dtype)
    larger[tuple(slice(1, None, 2) for _ in x.shape)] = np.flip(x)
    return m.slice_(
        calor.asarray(larger),
        starts=tuple(max(2 * n - 1, 0) for n in x.shape),
        stops=tuple(-1 if n else 0 for n in x.shape),
        steps=(-2,) * x.ndim,
    )


def _reshaped(x: Array) -> Any:
    return m.reshape(calor.asarray(x.reshape(-1)), shape=x.shape)


VIEWS: dict[str, Callable[[Array], Any]] = {
    "flipped": _flipped,
    "transposed": _transposed,
    "stepped": _stepped,
    "reshaped": _reshaped,
}
