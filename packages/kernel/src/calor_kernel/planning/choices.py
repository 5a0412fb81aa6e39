"""Choices among sizes that are not known: what lowerings say where ``min`` and ``max`` would ask.

Requirements: for plain integers they are what Python has; of a size they make an expression, so
that one plan serves on both sides of where the choice changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec

from calor.dtypes import DType
from calor.specs import Spec, spec
from calor_kernel.planning.sizes import Size, high_of, hint_of, low_of, text_of, trace_of

P = ParamSpec("P")


def greatest(first: int, *others: int) -> int:
    """Return the largest; of sizes without asking which it is.

    >>> greatest(3, 5, 4)
    5
    """
    found: int = _extreme("max", (first, *others))
    return found


def least(first: int, *others: int) -> int:
    """Return the smallest; of sizes without asking which it is."""
    found: int = _extreme("min", (first, *others))
    return found


def _extreme(name: str, given: Sequence[Any]) -> Any:
    choose: Callable[..., Any] = max if name == "max" else min
    if not any(isinstance(n, Size) for n in given):
        return choose(given)
    trace = trace_of(*given)
    kept: list[Any] = []
    for n in given:
        # What another one bounds is never chosen.
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


def choice(function: Callable[P, int]) -> Callable[P, int]:
    """Make a function of integers one that is computed for each size, and not looked into.

    For choices whose way to the answer asks much. The answer is at least 0.
    """

    @wraps(function)
    def chosen(*args: P.args, **kwargs: P.kwargs) -> int:
        given: tuple[Any, ...] = args
        if not any(isinstance(n, Size) for n in given):
            return function(*args, **kwargs)
        trace = trace_of(*given)
        number = len(trace.functions)
        if function in trace.functions:
            number = trace.functions.index(function)
        else:
            trace.functions.append(function)
        plain: Callable[..., int] = function
        hint = plain(*map(hint_of, given))
        text = f"f{number}({','.join(map(text_of, given))})"
        found: Any = trace.atom(text, hint, given, 0)
        return found  # type: ignore[no-any-return]

    return chosen


def hinted(value: Any) -> Any:
    """Return a number by its hint, without a guard: for what is right whatever it is."""
    return value.hint if isinstance(value, Size) else value


def is_size(value: Any) -> bool:
    """Return whether a number is one that is not known."""
    return isinstance(value, Size)


def spec_of(shape: tuple[int, ...], dtype: DType) -> Spec:
    """Return the spec of a shape; of one with sizes that are not known it is no interned one."""
    return Spec(shape, dtype, False) if any(map(is_size, shape)) else spec(shape, dtype)
