"""Jitted functions that compute with sizes as numbers, in every way that Python has.

A program may be kept for a range of sizes, so what a function's Python makes of sizes is asked
where it matters: each operator, from either side, and each function of Python and of the standard
library that takes a whole number. The functions are called at sizes in a drawn order, and at them
again; plain Python says what the numbers are.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32

from .base import Check, Place

CONTRACT: Final = "a size in a jitted function is the whole number that it is at this call"
_CALLS, _NEAR = 6, 1e-5
Expression = Callable[[Any, Any], Any]
# Expressions of two sizes n and m, whose results are numbers.
_NUMBERS: Final[dict[str, dict[str, Expression]]] = {
    "sums": {
        "n + m": lambda n, m: n + m, "7 - n": lambda n, m: 7 - n, "n * m": lambda n, m: n * m,
        "abs(n - m)": lambda n, m: abs(n - m), "+n": lambda n, m: +n, "~n": lambda n, m: ~n,
        "sum": lambda n, m: sum((n, m, 1)), "prod": lambda n, m: math.prod((n, m)),
    },
    "powers": {
        "n ** 2": lambda n, m: n**2, "n ** m % 13": lambda n, m: n**m % 13,
        "2 ** n": lambda n, m: 2**n, "n ** 0.5": lambda n, m: n**0.5,
        "sqrt": lambda n, m: math.sqrt(n), "isqrt": lambda n, m: math.isqrt(n),
        "log2": lambda n, m: math.log2(n), "comb": lambda n, m: math.comb(n, 2),
    },
    "quotients": {
        "n / m": lambda n, m: n / m, "1 / n": lambda n, m: 1 / n, "n / 2": lambda n, m: n / 2,
        "n // 2": lambda n, m: n // 2, "20 // n": lambda n, m: 20 // n,
        "n // m": lambda n, m: n // m, "-n // 2": lambda n, m: -n // 2,
        "-(-n // 4)": lambda n, m: -(-n // 4), "(n + m) // 3": lambda n, m: (n + m) // 3,
        "round(n / m)": lambda n, m: round(n / m), "floor": lambda n, m: math.floor(n / 2),
        "ceil": lambda n, m: math.ceil(n / 3), "ceil(n)": lambda n, m: math.ceil(n),
    },
    "remainders": {
        "n % 3": lambda n, m: n % 3, "-n % 3": lambda n, m: -n % 3, "20 % n": lambda n, m: 20 % n,
        "n * m % 4": lambda n, m: n * m % 4, "gcd": lambda n, m: math.gcd(n, m),
        "divmod(n, 3)": lambda n, m: sum(divmod(n, 3)),
        "divmod(9, n)": lambda n, m: divmod(9, n)[1],
    },
    "bits": {
        "n << 1": lambda n, m: n << 1, "n >> 1": lambda n, m: n >> 1, "1 << n": lambda n, m: 1 << n,
        "64 >> n": lambda n, m: 64 >> n, "n & 3": lambda n, m: n & 3, "n & m": lambda n, m: n & m,
        "n & (n - 1)": lambda n, m: n & (n - 1), "n | 1": lambda n, m: n | 1,
        "n ^ m": lambda n, m: n ^ m, "6 & n": lambda n, m: 6 & n,
        "n.bit_length()": lambda n, m: n.bit_length(),
    },
    "choices": {
        "max": lambda n, m: max(n, m), "min": lambda n, m: min(n, m, 5),
        "sorted": lambda n, m: sorted((n, m, 4))[1], "in": lambda n, m: 2 if n in (2, 3, 5) else 1,
        "get": lambda n, m: {3: 5.0, 4: 2.0}.get(n, 1.0), "bool": lambda n, m: 2 if n - m else 1,
        "not": lambda n, m: 3 if not n - 3 else 1, "chain": lambda n, m: 2 if 2 < n <= m else 1,
    },
    "counts": {
        "len(range)": lambda n, m: len(range(0, n, 2)), "sum(range)": lambda n, m: sum(range(n)),
        "[0] * n": lambda n, m: len([0] * n + [1] * m), "x[n]": lambda n, m: range(3, 20)[n],
        "x[n % 3 : m]": lambda n, m: sum(range(12)[n % 3 : m]),
        "arange": lambda n, m: float(np.sqrt(n) + np.arange(n).sum()),
    },
    "texts": {
        "str": lambda n, m: int(str(n)), "f-string": lambda n, m: int(f"{n:03d}1"),
        "format": lambda n, m: float(f"{n:.2f}"), "repr": lambda n, m: len(repr(n)),
        "hash": lambda n, m: hash(n) % 7, "int": lambda n, m: int(n),
        "float": lambda n, m: float(n),
        "complex": lambda n, m: abs(complex(n, 1)),
        "isinstance": lambda n, m: 2 if isinstance(n, int) else 1,
    },
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    for number, (text, expression) in enumerate(_NUMBERS[name].items()):
        if not place.tries(number, 3):
            continue
        rng = np.random.default_rng([place.seed, 449, list(_NUMBERS).index(name), number])

        def function(x: Any, y: Any, expression: Expression = expression) -> Any:
            return calor.sum(x) + calor.sum(y) * expression(x.shape[0], y.shape[0])

        jitted, before = calor.jit(function), list[tuple[int, int]]()
        sizes = [(int(a), int(b)) for a, b in rng.integers(1, 10, (_CALLS, 2))]
        for n, m in (*sizes, sizes[1]):
            before.append((n, m))
            x, y = np.ones(n, np.float32), np.full(m, 0.5, np.float32)
            got = jitted(calor.asarray(x), calor.asarray(y)).item()
            want = n + 0.5 * m * expression(n, m)
            told = f"sum(x) + sum(y) * {text} at sizes {before}: {got}, not {want}"
            assert abs(got - want) <= _NEAR * (1 + abs(want)), told


def numbers_of_sizes() -> Iterator[Check]:
    """Yield a check of each kind of expression."""
    for name in _NUMBERS:
        yield Check(
            kind="sizes",
            subject=f"numbers-of-user-code-{name}",
            tier="compiled",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, _run),
            op="sum",
            dtypes=(float32,),
            looks=True,
        )
