"""Choices among symbolic sizes: ``min``, ``max`` and comparisons for lowerings.

For plain integers they are Python's functions. For a size they build an expression, so one plan
serves both sides of a threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from math import inf
from typing import Any, Final, ParamSpec

from calor.dtypes import DType
from calor.sizes import Size, compares_by_expression, high_of, hint_of, low_of, text_of, trace_of
from calor.sizes import is_size as is_size
from calor.specs import Spec, spec

P = ParamSpec("P")

# What families and planner find in their tables by sizes holds for the expressions.
compares_by_expression(__package__.partition(".")[0])

# The tolerated cost of a known answer, relative to the best; it is below the cost of compiling even
# for many calls. A frequently called plan is rebuilt with the best answer.
_NEARLY: Final = 1.4
# The factor by which a size may pass the bound of a choice.
_FAR: Final = 4


def greatest(first: int, *others: int) -> int:
    """Return the largest; for sizes, without a guard on which one it is.

    >>> greatest(3, 5, 4)
    5
    """
    found: int = _extreme("max", (first, *others))
    return found


def least(first: int, *others: int) -> int:
    """Return the smallest; for sizes, without a guard on which one it is."""
    found: int = _extreme("min", (first, *others))
    return found


def _extreme(name: str, given: Sequence[Any]) -> Any:
    choose: Callable[..., Any] = max if name == "max" else min
    if not any(isinstance(n, Size) for n in given):
        return choose(given)
    trace = trace_of(*given)
    kept: list[Any] = []
    for n in given:
        # Skip a candidate that another one bounds.
        above, below = (high_of, low_of) if name == "min" else (low_of, high_of)
        if any(_beyond(name, above(k), below(n)) or _same(k, n) for k in kept):
            continue
        kept = [k for k in kept if not _beyond(name, above(n), below(k))]
        kept.append(n)
    if len(kept) == 1:
        return kept[0]
    kept.sort(key=text_of)
    return trace.atom(
        f"{name}({','.join(map(text_of, kept))})",
        choose(map(hint_of, kept)),
        kept,
        choose(map(low_of, kept)),
        choose(map(high_of, kept)),
    )


def _beyond(name: str, bound: float, other: float) -> bool:
    return bound <= other if name == "min" else bound >= other


def _same(a: Any, b: Any) -> bool:
    return a is b or (not isinstance(a, Size) and not isinstance(b, Size) and bool(a == b))


def choice(
    *, cost: Callable[..., float] | None = None, low: int = 0, high: float = inf
) -> Callable[[Callable[P, int]], Callable[P, int]]:
    """Make a function of integers opaque to tracing: it is evaluated at each size.

    Use it for choices that would need many guards. The answer lies in ``low`` to ``high``.
    ``cost(answer, *args)``: give it only if every answer is correct. Sizes of a template then reuse
    an earlier answer, and so known kernels, while its cost is close to the best.
    """

    def wrap(function: Callable[P, int]) -> Callable[P, int]:
        @wraps(function)
        def chosen(*args: P.args, **kwargs: P.kwargs) -> int:
            given: tuple[Any, ...] = args
            if not any(isinstance(n, Size) for n in given):
                return function(*args, **kwargs)
            trace = trace_of(*given)
            plain: Callable[..., int] = function
            text = ",".join(map(text_of, given))
            if cost is None or trace.habits is None:
                number = trace.function(function, lambda: plain)
            else:
                # Earlier answers of this choice, for other sizes of the structure.
                known = trace.habits.setdefault((function, text), [])
                number = trace.function((function, text), lambda: _Habit(plain, cost, known))
            hint = trace.functions[number](*map(hint_of, given))
            found: Any = trace.atom(f"f{number}({text})", hint, given, low, high)
            return found  # type: ignore[no-any-return]

        return chosen

    return wrap


class _Habit:
    """A choice that reuses an earlier answer while its cost is close to the best."""

    __slots__ = ("cost", "function", "known")

    def __init__(
        self, function: Callable[..., int], cost: Callable[..., float], known: list[int]
    ) -> None:
        self.function = function
        self.cost = cost
        self.known = known

    def __call__(self, *sizes: int) -> int:
        best = self.function(*sizes)
        if best not in self.known:
            cost = self.cost
            most = _NEARLY * cost(best, *sizes)
            for usual in self.known:
                if cost(usual, *sizes) <= most:
                    return usual
            self.known.append(best)
        return best


def exceeds(size: int, bound: int) -> bool:
    """Return whether a size exceeds a bound, for a choice that affects speed only.

    Sizes of a template reuse the earlier answer, and so known kernels, until it is wrong by a
    factor. Neither number is negative.
    """
    if not (is_size(size) or is_size(bound)):
        return size > bound
    habits = trace_of(size, bound).habits
    if habits is None:
        return size > bound
    n, most = hint_of(size), hint_of(bound)
    key = exceeds, text_of(size), text_of(bound)
    before = habits.get(key)
    # The earlier answer remains until it is wrong by a factor.
    found = habits[key] = (
        n > most if before is None else n > (most // _FAR if before else most * _FAR)
    )
    # This comparison becomes a guard; the hints answer it.
    return _FAR * size > bound if found else size > _FAR * bound


# A number's hint without a guard: for decisions that are correct at any size.
hinted = hint_of


def nearby(size: int) -> int:
    """Return a number like a size, for a choice that is correct at any size.

    It is the hint, guarded loosely: sizes of a template keep to the choice until they differ by a
    factor. Where choices depend on the sizes alone, it is the size itself. The size is not
    negative.

    >>> nearby(7)
    7
    """
    if not is_size(size) or trace_of(size).habits is None:
        return size
    number = hint_of(size)
    # The comparisons become guards, which the hint meets.
    near = _FAR * size >= number and size <= _FAR * number
    return number if near else size


def spec_of(shape: tuple[int, ...], dtype: DType) -> Spec:
    """Return the spec of a shape; it is interned unless the shape is symbolic."""
    return Spec(shape, dtype, False) if any(map(is_size, shape)) else spec(shape, dtype)
