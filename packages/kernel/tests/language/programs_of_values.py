"""Programs about values: arithmetic, containers, register arrays and helpers; as ``programs``."""

# The programs try what people write, not what a linter likes.
# ruff: noqa: E731, B007, C416, PIE804, B905

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from calor_kernel.language import helper, kernel

from .program_table import program


# Arithmetic.
@program
def floor_division(y, x, n, *, make):
    a = n * 3 - 7
    y[0] = a // 3
    y[1] = a % 3
    y[2] = a // -3
    y[3] = a % -3
    y[4] = a // 4
    y[5] = a % 4
    y[6] = -17 // (n + 1)
    y[7] = -17 % (n + 1)
    y[8] = a // (n - 7)
    y[9] = a % (n - 7)


@program
def bits(y, x, n, *, make):
    a = n - 3
    y[0] = a & 6
    y[1] = a | 6
    y[2] = a ^ 6
    y[3] = ~a
    y[4] = a << 3
    y[5] = a >> 1
    y[6] = 5 & a
    y[7] = 1 << n
    y[8] = -100 >> n


@program
def signs(y, x, n, *, make):
    y[0] = -n
    y[1] = +n
    y[2] = abs(n - 3)
    y[3] = 10 - n
    y[4] = 3 * n - n * 0 + 0
    y[5] = abs(-4)


@program
def extremes(y, x, n, *, make):
    y[0] = min(n, 3)
    y[1] = max(2, n, x[0])
    y[2] = min([n, 4, x[1]])
    y[3] = max(3, 4)
    y[4] = min((5, 2), key=lambda v: -v)
    y[5] = max(k for k in (1, 8, 3))


@program
def augmented(y, x, n, *, make):
    y[0] = 1
    y[0] += n
    y[0] *= 3
    y[0] -= 1
    t = n
    t <<= 2
    t |= 1
    t %= 11
    y[1] = t


# Structures.
@program
def tuples(y, x, n, *, make):
    pair = (n, 2)
    first, (second, third) = pair[0], (pair[1], n + 1)
    *rest, last = [1, n, 3]
    for i in range(n):
        pair = (pair[0] + i, pair[1] * 2)
    y[0] = pair[0]
    y[1] = pair[1]
    y[2] = first + second * third
    y[3] = rest[1] + last


@program
def lists(y, x, n, *, make):
    best = [0, -1]
    for i in range(n):
        if x[i] > best[0]:
            best[0] = x[i]
            best[1] = i
    y[0] = best[0]
    y[1] = best[1]
    table = [[1, 2], [3, 4]]
    if n > 2:
        table[1][0] = n
    else:
        table[0][1] = -n
    y[2] = table[1][0]
    y[3] = table[0][1]
    grown = []
    for k in range(3):
        grown.append(n + k)
    y[4] = sum(grown)


@program
def dicts(y, x, n, *, make):
    state = {"low": 100, "high": -100}
    for i in range(n):
        state["low"] = min(state["low"], x[i])
        if x[i] > state["high"]:
            state["high"] = x[i]
    y[0] = state["low"]
    y[1] = state["high"]


@dataclass(frozen=True)
class State:
    """Values that belong together, and a name that the build knows."""

    total: Any
    best: Any
    name: str = "state"


@program
def dataclasses(y, x, n, *, make):
    state = State(n, n - n)
    for i in range(n):
        state = State(state.total + x[i], x[i] if x[i] > state.best else state.best, state.name)
    y[0] = state.total
    y[1] = state.best
    y[2] = len(state.name)
    if n > 2:
        state = replace(state, best=n)
    y[3] = state.best


@program
def register_arrays(y, x, n, *, make):
    acc = make((2, 2))
    for p in range(n):
        for i in range(2):
            for j in range(2):
                acc[i, j] = acc[i, j] + x[p] * (i + 1) + j
    for i in range(2):
        for j in range(2):
            y[i * 2 + j] = acc[i, j]


@helper
def bump(array, place, by):
    if by > 2:
        array[place] = array[place] + by
    else:
        array[place] = array[place] - 1


@program
def arrays_changed_by_helpers(y, x, n, *, make):
    a, b = make((3,)), make((3,))
    for i in range(n):
        bump(a, 1, x[i])
        if x[i] > 3:
            bump(b, 2, i)
    y[0] = a[1]
    y[1] = b[2]
    y[2] = a[0]


@helper
def taken(array, x, place):
    """Count a read in an array, and return what was read."""
    array[0] = array[0] + x[place]
    return x[place]


@program
def conditions_that_change_arrays(y, x, n, *, make):
    a = make((1,))
    if n > 1 and taken(a, x, n) > 1:
        y[0] = 1
    if n > 2 or taken(a, x, 1) > 3:
        y[1] = a[0]
    y[2] = a[0]


@program
def array_swap(y, x, n, *, make):
    a = make((2,))
    a[0], a[1] = n, 5
    for i in range(n):
        a[0], a[1] = a[1], a[0]
    y[0] = a[0]
    y[1] = a[1]


# Functions.
@helper
def clamp(v, low=0, *, high=4):
    if v < low:
        r = low
    elif v > high:
        r = high
    else:
        r = v
    return r


OFFSET = 11


@program
def helpers_and_defaults(y, x, n, *, make):
    y[0] = clamp(n * 2 - 3)
    y[1] = clamp(n, 2)
    y[2] = clamp(n, high=1)
    y[3] = OFFSET + n


@program
def inner_functions(y, x, n, *, make):
    scale = 3

    def apply(v, by=scale):
        if v > 2:
            w = v * by
        else:
            w = v
        return w

    twice = lambda v: apply(apply(v))
    y[0] = twice(n)
    y[1] = (lambda a, b: a - b)(n, 1)
    y[2] = apply(*[n, 2])
    y[3] = apply(n, **{"by": 7})


@program
def comprehensions(y, x, n, *, make):
    values = [x[k] * n for k in range(4) if k != 2]
    y[0] = sum(values)
    y[1] = sum(v + i for i, v in enumerate(values))
    y[2] = len({k % 2 for k in range(4)})
    named = {k: v for k, v in zip("ab", values)}
    y[3] = named["b"]
    pairs = [(a, b) for a in values for b in (1, 2)]
    y[4] = pairs[3][0] * pairs[3][1]


@program
def text_of_the_build(y, x, n, *, make):
    names = [f"v{k:02}" for k in range(3)]
    y[0] = n + len("-".join(names))
    assert len(names) == 3, "three"
    y[1] = {"v01": 5}[names[1]]


@kernel
def part(y, v, *, place):
    if v > 2:
        y[place] = v


@program
def kernels_in_kernels(y, x, n, *, make):
    y[0] = 1
    if make((1,)) is not None:
        for k in range(2):
            y[k + 1] = n * k
    call(part, y, n, 5)


def call(of, y, v, place):
    """Call a kernel as the language does, or as Python does."""
    if isinstance(v, int):
        of.function(y, v, place=place)
    else:
        of(y, v, place=place)
