"""Loops and branches on routers, and drawn programs on members that hold few values.

No member takes the control flow, and each lacks ops of its bodies, so a router steps through it:
loops of any length, from either end, with rows that come and go, branches that read what is
outside, and one in another. Results and derivatives are those of a single device. Programs whose
values are more than members may hold compute the same, within what they may hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final

import numpy as np

import calor
from calor.backends.device import Device, device_of
from calor.errors import OutOfMemoryError
from calor.ops.base import TABLE

from .base import Array, Check, Place
from .device_subjects import device_subjects
from .routed_programs import _HELD, PACKAGE, Member, _results, router

CONTRACT: Final = "a router steps through control flow, and within its members' memory, as one does"
_FLOWS, _LIMITED, _LENGTHS = 6, 8, (0, 1, 2, 5, 63, 64, 65, 130)
_CONTROL: Final = frozenset(("cond", "while_loop", "scan"))
Rng = np.random.Generator
Step = Callable[[Any, Any], Any]
_STEPS: Final[tuple[Step, ...]] = (
    lambda a, b: calor.sin(a) + b, lambda a, b: calor.tanh(a @ b), lambda a, b: a * b - a,
    lambda a, b: calor.maximum(a, b), lambda a, b: calor.flip(a, axis=0) + calor.exp(-b * b),
    lambda a, b: calor.where(a > b, a, b * 0.5),
)  # fmt: skip


def _divided(rng: Rng) -> list[Device]:
    """Return members without control flow that lack other ops each; together they have the rest."""
    names = sorted(set(TABLE) - _HELD - _CONTROL)
    left = [n for n in names if rng.random() < 0.5]
    without = [{*left, *_CONTROL}, {*names} - {*left} | _CONTROL]
    # What only few members have is left to both.
    shared = {"concat", "dynamic_slice", "pad"}
    return [device_of(Member(f"half{n}", w - shared), 0) for n, w in enumerate(without)]


def _step(rng: Rng) -> Step:
    """Draw a body of two matrices."""
    picked = [_STEPS[int(n)] for n in rng.integers(0, len(_STEPS), int(rng.integers(1, 3)))]

    def step(a: Any, b: Any) -> Any:
        for one in picked:
            a = calor.tanh(one(a, b))
        return a

    return step


def _scanned(rng: Rng) -> Callable[..., list[Any]]:
    """A scan over rows of two ranks, with two states, and rows that are kept."""
    first, second, back = _step(rng), _step(rng), bool(rng.random() < 0.5)
    plain, kept = bool(rng.random() < 0.3), int(rng.integers(3))

    def program(w: Any, xs: Any, ys: Any) -> list[Any]:
        def body(state: Any, row: Any) -> Any:
            a, b = state
            x, y = (xs_row * 1 for xs_row in row)
            a = first(a, x if not plain else w)
            b = second(b, w) * y
            return (a, b), {0: (a, y), 1: (b,), 2: (y, a + b, x)}[kept]

        (a, b), rows = calor.scan(body, (w, w * 0.5), (xs, ys), reverse=back)
        return [a, b, *rows]

    return program


def _looped(rng: Rng) -> Callable[..., list[Any]]:
    """A loop that ends by what it computed, around a drawn body, with a count beside."""
    step, most = _step(rng), float(rng.choice([0.5, 3.0, 7.0]))

    def program(w: Any, xs: Any, ys: Any) -> list[Any]:
        def going(state: Any) -> Any:
            return calor.sum(calor.abs(w)) * 0 + state[1] < most

        def body(state: Any) -> Any:
            return step(state[0], w), state[1] + 1.0

        a, count = calor.while_loop(going, body, (w, calor.sum(w) * 0))
        return [a, count]

    return program


def _branched(rng: Rng) -> Callable[..., list[Any]]:
    """A branch by what was computed, with a scan or a branch in one of its arms."""
    first, second, third = (_step(rng) for _ in range(3))
    inner, over = bool(rng.random() < 0.5), float(rng.normal())

    def program(w: Any, xs: Any, ys: Any) -> list[Any]:
        def then(a: Any) -> Any:
            if inner:
                return calor.cond(calor.sum(a) > over, lambda b: first(b, w), lambda b: b * 2, a)
            return calor.scan(lambda c, x: (second(c, x), x), a, xs)[0]

        return [calor.cond(calor.sum(w) > 0, then, lambda a: third(a, w), w * 0.5)]

    return program


_PROGRAMS: Final = (_scanned, _looped, _branched)


def _flows(place: Place) -> None:
    for number in range(_FLOWS):
        rng = np.random.default_rng([place.seed, 911, number])
        size, length = int(rng.integers(1, 4)), int(rng.choice(_LENGTHS))
        if number >= 4:
            # Rows are joined in groups, and what is left of the last of them.
            length = min(length, 5)
        shapes = (size, size), (length, size, size), (length,)
        arrays = [rng.normal(size=s).astype(np.float32) for s in shapes]
        program = _PROGRAMS[number % len(_PROGRAMS)](rng)
        members = _divided(rng)
        device = router(members)
        function = calor.jit(program) if rng.random() < 0.5 else program
        _compare(function, arrays, device, f"{program.__qualname__}, {length} rows")
        if number % len(_PROGRAMS) != 1 and length < 9:
            _compare(_slopes(program), arrays, device, f"slopes of {program.__qualname__}")


def _slopes(program: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    def loss(*operands: Any) -> Any:
        return sum(calor.sum(calor.sin(y)) for y in program(*operands))

    return lambda *operands: list(calor.grad(loss, argnums=(0, 1))(*operands))


def _compare(function: Any, arrays: list[Array], device: Device, told: str) -> None:
    wants = _results(function, arrays, "numpy")
    for got, want in zip(_results(function, arrays, device), wants, strict=True):
        same = got.shape == want.shape and got.dtype == want.dtype
        same = same and np.allclose(got, want, rtol=1e-5, atol=1e-6, equal_nan=True)
        assert same, f"{told}: {got.tolist()}, on one device {want.tolist()}"


_OPS: Final[tuple[Step, ...]] = (
    lambda a, b: a + b, lambda a, b: calor.tanh(a), lambda a, b: calor.tanh(a @ b),
    lambda a, b: a * 0.5, lambda a, b: calor.concat([a, b])[4:-4][: a.shape[0]],
)  # fmt: skip


def _values(rng: Rng) -> Callable[..., list[Any]]:
    """Draw a program of many values, of which several are used late."""
    steps = rng.integers(0, len(_OPS), int(rng.integers(8, 26)))
    places = [rng.integers(0, 3 + n, 2).tolist() for n in range(len(steps))]
    late = int(rng.integers(len(steps)))

    def program(x: Any, w: Any) -> list[Any]:
        values = [x, w, x @ w]
        for step, (i, j) in zip(steps.tolist(), places, strict=True):
            a, b = values[i], values[j]
            values.append(_OPS[step](a, b))
        return [values[-1], values[-2], values[3 + late]]

    return program


def _limited(place: Place) -> None:
    measure = import_module("calor_router.speeds").measure
    for number in range(_LIMITED):
        rng = np.random.default_rng([place.seed, 912, number])
        products = ["dot_general"] if rng.random() < 0.6 else []
        members = [device_of(Member("first", products), 0), device_of(Member("second"), 0)]
        members = members[: 1 + (rng.random() < 0.7 or bool(products))]
        if not products and rng.random() < 0.5:
            members.reverse()
        size = 16
        limits = tuple(int(rng.integers(4, 8)) * 4 * size * size for _ in members)
        measure(members, limits)
        device = router(members, limits)
        program = calor.jit(_values(rng))
        arrays = [rng.normal(size=(size, size)).astype(np.float32) / 4 for _ in range(2)]
        wants = _results(program, arrays, "numpy")
        for _ in range(2):
            try:
                found = _results(program, arrays, device)
            except OutOfMemoryError:
                # One op and what it reads may be more than a member holds.
                if min(limits) >= 5 * 4 * size * size:
                    raise
                break
            for got, want in zip(found, wants, strict=True):
                assert got.tobytes() == want.tobytes(), f"within {limits}: {got.tolist()}"
        for member, limit in zip(members, limits, strict=True):
            peak = member.memory.peak
            assert peak <= limit, f"{peak} bytes of a member that may hold {limit}"


_SUBJECTS: Final[dict[str, Callable[[Place], None]]] = {
    "routed-flows": _flows, "routed-within-limits": _limited,
}  # fmt: skip


def routed_flows() -> Iterator[Check]:
    """Yield the checks, if calor-router is installed."""
    yield from device_subjects(PACKAGE, _SUBJECTS, CONTRACT)
