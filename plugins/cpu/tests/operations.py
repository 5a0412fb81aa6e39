"""The rows of the operation tests: what each operation is, as a function of three operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from calor.dtypes import ALL, DType, bool_
from calor_kernel.ir.nodes import Kernel
from calor_kernel.ir.types import Buffer, Type
from calor_kernel.language import (
    bitcast,
    ceil,
    clz,
    copysign,
    ctz,
    cube_position,
    floor,
    fma,
    insert,
    kernel,
    modulo,
    mulhi,
    pack,
    popcount,
    quotient,
    rint,
    select,
    shuffle,
    splat,
    sqrt,
    trunc,
    vreduce,
)

Function = Callable[[Any, Any, Any], Any]

STORED = tuple(t for t in ALL if t.kind in ("bool", "int", "uint", "float"))
COMPUTED = tuple(t for t in STORED if t.name not in ("float16", "bfloat16"))
LETTERS = {"bool": "b", "int": "i", "uint": "u", "float": "f"}


def _shift(a: Any, b: Any) -> Any:
    return b & (a.dtype.itemsize * 8 - 1)


def _divisor(b: Any) -> Any:
    """Return a divisor with which every division has a result."""
    return select((b == 0) | (b + 1 == 0), b + 2, b)


# Name, kinds of the operands, meaning.
SCALARS: tuple[tuple[str, str, Function], ...] = (
    ("add", "iuf", lambda a, b, c: a + b),
    ("sub", "iuf", lambda a, b, c: a - b),
    ("mul", "iuf", lambda a, b, c: a * b),
    ("div", "f", lambda a, b, c: a / b),
    ("neg", "iuf", lambda a, b, c: -a),
    ("fma", "f", fma),
    ("quotient", "iu", lambda a, b, c: quotient(a, _divisor(b))),
    ("modulo", "iu", lambda a, b, c: modulo(a, _divisor(b))),
    ("mulhi", "iu", lambda a, b, c: mulhi(a, b)),
    ("min", "iuf", lambda a, b, c: a.builder.binary("min", a, b)),
    ("max", "iuf", lambda a, b, c: a.builder.binary("max", a, b)),
    ("abs", "iuf", lambda a, b, c: abs(a)),
    ("floor", "f", lambda a, b, c: floor(a)),
    ("ceil", "f", lambda a, b, c: ceil(a)),
    ("trunc", "f", lambda a, b, c: trunc(a)),
    ("rint", "f", lambda a, b, c: rint(a)),
    ("sqrt", "f", lambda a, b, c: sqrt(a)),
    ("copysign", "f", lambda a, b, c: copysign(a, b)),
    ("and", "biu", lambda a, b, c: a & b),
    ("or", "biu", lambda a, b, c: a | b),
    ("xor", "biu", lambda a, b, c: a ^ b),
    ("not", "biu", lambda a, b, c: ~a),
    ("shl", "iu", lambda a, b, c: a << _shift(a, b)),
    ("shr", "iu", lambda a, b, c: a >> _shift(a, b)),
    ("popcount", "iu", lambda a, b, c: popcount(a)),
    ("clz", "iu", lambda a, b, c: clz(a)),
    ("ctz", "iu", lambda a, b, c: ctz(a)),
    ("eq", "biuf", lambda a, b, c: a == b),
    ("ne", "biuf", lambda a, b, c: a != b),
    ("lt", "iuf", lambda a, b, c: a < b),
    ("le", "iuf", lambda a, b, c: a <= b),
    ("gt", "iuf", lambda a, b, c: a > b),
    ("ge", "iuf", lambda a, b, c: a >= b),
    ("select", "biuf", lambda a, b, c: select(a == b, b, c)),
)


def _half_of(a: Any, start: int) -> Any:
    width = max(a.width // 2, 1)
    return shuffle(a, [(start + i) % a.width for i in range(width)])


VECTORS: tuple[tuple[str, str, Function], ...] = (
    ("extract", "biuf", lambda a, b, c: a[-1]),
    ("splat", "biuf", lambda a, b, c: splat(a[1], a.width)),
    ("insert", "biuf", lambda a, b, c: insert(a, 1, b[0])),
    ("pack", "biuf", lambda a, b, c: pack([b[1], a[0], a[1]])),
    ("shuffle half", "biuf", lambda a, b, c: _half_of(a, 1)),
    ("shuffle one", "biuf", lambda a, b, c: shuffle(a, [a.width + 1], b)),
    ("shuffle both", "biuf", lambda a, b, c: shuffle(a, [0, a.width, 1, a.width + 1], b)),
    ("constant lanes", "iuf", lambda a, b, c: a + _lanes(a)),
    *(
        (f"vreduce {kind}", kinds, lambda a, b, c, kind=kind: vreduce(kind, a))
        for kind, kinds in (
            ("add", "iuf"),
            ("mul", "iuf"),
            ("min", "iuf"),
            ("max", "iuf"),
            ("and", "biu"),
            ("or", "biu"),
            ("xor", "biu"),
        )
    ),
)


def _lanes(a: Any) -> Any:
    return a.builder.constant(tuple(range(a.width)), a.dtype)


CASTS: tuple[tuple[str, str, Function], ...] = tuple(
    (f"to {t.name}", "biuf", lambda a, b, c, t=t: a.to(t)) for t in STORED
)


def _regrouped(t: DType) -> Function:
    def function(a: Any, b: Any, c: Any) -> Any:
        whole = a.type.nbytes % t.itemsize == 0
        return bitcast(a, t) if whole else a

    return function


BITCASTS: tuple[tuple[str, str, Function], ...] = tuple(
    (f"as {t.name}", "iuf", _regrouped(t)) for t in STORED if t is not bool_
)
ROWS = {"scalars": SCALARS, "vectors": VECTORS, "casts": CASTS, "bitcasts": BITCASTS}


def chosen(group: str, dtype: DType) -> list[tuple[str, Function]]:
    """Return the rows of a group that take operands of a dtype."""
    return [(n, f) for n, kinds, f in ROWS[group] if LETTERS[dtype.kind] in kinds]


@kernel
def every(*memories, functions, width):
    """Do every row on the same operands, each into its own memory."""
    at = cube_position(0)
    a, b, c = (m.load(at * width, width) for m in memories[:3])
    for memory, function in zip(memories[3:], functions, strict=True):
        result = function(a, b, c)
        memory.store(at * result.width, result)


@kernel
def shapes(*memories, functions, width, found):
    """Find the type of each row's result, without storing any."""
    a, b, c = (m.load(0, width) for m in memories)
    for function in functions:
        found.append(function(a, b, c).type)


def build(group: str, dtype: DType, width: int) -> tuple[Kernel, list[Type]]:
    """Return the kernel of a group for a dtype, and the type of each row's result."""
    functions = [f for _, f in chosen(group, dtype)]
    given = [Buffer(dtype, writable=False)] * 3
    found: list[Type] = []
    shapes.build(given, functions=functions, width=width, found=found)
    results = [Buffer(t.dtype) for t in found]
    return every.build([*given, *results], functions=functions, width=width), found


def values(dtype: DType, count: int = 1536) -> list[np.ndarray[Any, Any]]:
    """Return three arrays in which every pair of special values meets."""
    with np.errstate(all="ignore"):
        return _values(dtype, count)


def _values(dtype: DType, count: int) -> list[np.ndarray[Any, Any]]:
    random = np.random.default_rng(dtype.index)
    host = dtype.numpy
    if dtype.kind == "bool":
        special = np.array([False, True])
    elif dtype.kind == "float":
        special = np.array(list(_floats(dtype))).astype(host)
    else:
        special = _integers(host)
    pairs = np.array(list(product(special, special)), host)
    extra = special[random.integers(0, len(special), (count, 2))]
    if dtype.kind == "float":
        extra = (random.standard_normal((count, 2)) * 10.0 ** random.integers(-6, 7)).astype(host)
    a, b = np.concatenate([pairs, extra])[:count].T.copy()
    return [a, b, b[::-1].copy()]


def _floats(dtype: DType) -> Iterator[float]:
    yield from (0.0, 0.5, 1.0, 1.5, 2.5, 3.25, 127.5, 128.0, 255.9, 2049.0, 65519.0, 65520.0)
    yield from (2.0**31, 2.0**32, 2.0**63, 2.0**64, 1e-8, float("inf"), float("nan"))
    small = {2: 2.0**-24, 4: 2.0**-149, 8: 2.0**-1074}[dtype.itemsize]
    yield from (-0.0, -0.5, -1.0, -2.5, -129.0, -(2.0**31), -(2.0**63), -3e9, -float("inf"))
    yield from (small, -small, 1 + 2.0**-8 + 2.0**-30, 1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-40)


def _integers(host: np.dtype[Any]) -> np.ndarray[Any, Any]:
    info = np.iinfo(host)
    numbers = {0, 1, 2, 3, 5, 7, 100, 127, info.max, info.max - 1, info.max // 2, info.max // 3}
    if info.min < 0:
        numbers |= {-1, -2, -3, -7, -100, info.min, info.min + 1, info.min // 2}
    for shift in (8, 9, 24, 25, 33, 53, 54, 62):
        near = {(1 << shift) - 1, 1 << shift, (1 << shift) + 1, (3 << shift) // 2 + 1}
        numbers |= {n for n in near if n <= info.max}
    return np.array(sorted(numbers), host)
