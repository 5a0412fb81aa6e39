"""Kernels that ask every operation of every type, for the tests of printers and devices.

Requirements: one kernel holds many operations of one type, because a compiler's start costs more
than what it compiles; the numbers are those at which types and rules change; what must come out is
what lanes compute, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np

from calor.dtypes import (
    ALL,
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint8,
    uint32,
)
from calor_interpreter.launch import run_on_lanes
from calor_kernel.ir.nodes import Kernel
from calor_kernel.language import (
    Buffer,
    Scalar,
    absolute_position,
    barrier,
    bitcast,
    cast,
    ceil,
    clz,
    copysign,
    ctz,
    cube_count,
    cube_position,
    cube_size,
    fence,
    floor,
    fma,
    insert,
    intrinsic,
    kernel,
    modulo,
    mulhi,
    pack,
    popcount,
    private,
    quotient,
    rint,
    role,
    select,
    selected,
    shared,
    shuffle,
    splat,
    sqrt,
    trunc,
    unit_index,
    unit_position,
    vreduce,
)
from calor_kernel.language.builder import current

Array = np.ndarray[Any, Any]
DTYPES = tuple(t for t in ALL if t.kind in ("bool", "int", "uint", "float"))
INTEGERS = tuple(t for t in DTYPES if t.kind in ("int", "uint"))
HALVES = (float16, bfloat16)


@dataclass(frozen=True, eq=False)
class Case:
    """A built kernel, the cubes of its launch, and its arguments before it runs."""

    name: str
    kernel: Kernel
    cubes: tuple[int, int, int]
    arguments: tuple[Any, ...]
    outputs: tuple[str, ...] = field(default=())

    def fresh(self) -> list[Any]:
        """Return the arguments, arrays as copies."""
        return [a.copy() if isinstance(a, np.ndarray) else a for a in self.arguments]

    def expected(self) -> list[Any]:
        """Return the arguments after the kernel ran on lanes."""
        arguments = self.fresh()
        run_on_lanes(self.kernel, self.cubes, arguments)
        return arguments


def assert_alike(got: Array, want: Array, what: str) -> None:
    """Raise AssertionError unless two arrays have the same bits, any NaN for a NaN."""
    if want.dtype.kind in "fV":
        unequal = (got.astype(np.float64) != want.astype(np.float64)) | (
            np.signbit(got) != np.signbit(want)
        )
        unequal &= ~(np.isnan(got) & np.isnan(want))
    else:
        unequal = got != want
    if unequal.any():
        places = np.flatnonzero(unequal)[:5]
        raise AssertionError(f"{what} differs at {places}: {got[places]}, not {want[places]}")


def numbers(dtype: DType) -> Array:
    """Return the numbers at which a type's operations change what they do."""
    if dtype is bool_:
        return np.array([False, True])
    if dtype.kind == "float":
        limits = [0.0, 1.0, 0.5, 1.5, 2.5, 3.7, 1e-3, 127.5, 255.4, 32768.0, 65504.0, 65520.0]
        limits += [2.0**31, 2.0**31 - 128, 2.0**32, 2.0**63, 2.0**64, 3e9, 1e20, 3e38, 1e-40]
        limits += [2.0**-14, 2.0**-25, 2.0**-24 * 1.5, 1.00048828125, 1.001953125, np.inf]
        signed = np.array([*limits, *(-x for x in limits), np.nan])
        with np.errstate(all="ignore"):
            return signed.astype(dtype.numpy)
    info = np.iinfo(dtype.numpy)
    wanted = [0, 1, 2, 3, 5, 7, 100, 127, 128, 255, 256, 32767, 65535, 2**24 + 1, 2**31 - 1]
    wanted += [2**31, 2**32 - 1, 2**32 + 5, 2**53 + 1, 2**63 - 1, 2**64 - 1, 257 << 40, info.max]
    wanted += [-1, -2, -7, -128, -32768, -(2**31), -(2**53) - 1, info.min]
    return np.array(sorted({w for w in wanted if info.min <= w <= info.max}), dtype.numpy)


def operands(dtype: DType, count: int = 3, multiple: int = 16) -> list[Array]:
    """Return arrays in which every pair of numbers meets in the first two."""
    found = numbers(dtype)
    first, second = (x.ravel() for x in np.meshgrid(found, found, indexing="ij"))
    third = np.roll(first, 7)
    size = -(-first.size // multiple) * multiple
    return [np.resize(x, size) for x in (first, second, third)[:count]]


Operation = Callable[..., Any]


def _divisor(y: Any) -> Any:
    """Return a number by which all others can be divided."""
    bad = (y == 0) | (y == -1) if y.dtype.kind == "int" else y == 0
    return select(bad, 1, y)


def _shift(y: Any, bits: int) -> Any:
    return y & (bits - 1)


_ARITHMETIC: dict[str, Operation] = {
    "add": lambda x, y, z: x + y,
    "sub": lambda x, y, z: x - y,
    "mul": lambda x, y, z: x * y,
    "neg": lambda x, y, z: -x,
    "abs": lambda x, y, z: abs(x),
    "min": lambda x, y, z: x.builder.binary("min", x, y),
    "max": lambda x, y, z: x.builder.binary("max", x, y),
    "chain": lambda x, y, z: x * y - z * (y + x),
}
_COMPARISON: dict[str, Operation] = {
    "eq": lambda x, y, z: x == y,
    "ne": lambda x, y, z: x != y,
    "lt": lambda x, y, z: x < y,
    "le": lambda x, y, z: x <= y,
    "gt": lambda x, y, z: x > y,
    "ge": lambda x, y, z: x >= y,
}
_BITS: dict[str, Operation] = {
    "and": lambda x, y, z: x & y,
    "or": lambda x, y, z: x | y,
    "xor": lambda x, y, z: x ^ y,
    "not": lambda x, y, z: ~x,
}
_WHOLE: dict[str, Operation] = {
    "quotient": lambda x, y, z: quotient(x, _divisor(y)),
    "modulo": lambda x, y, z: modulo(x, _divisor(y)),
    "by_three": lambda x, y, z: quotient(x, 3) + modulo(x, 5),
    "floor_divide": lambda x, y, z: x // _divisor(y),
    "floor_modulo": lambda x, y, z: x % _divisor(y),
    "mulhi": lambda x, y, z: mulhi(x, y),
    "shl": lambda x, y, z: x << _shift(y, x.dtype.itemsize * 8),
    "shr": lambda x, y, z: x >> _shift(y, x.dtype.itemsize * 8),
    "one_shl": lambda x, y, z: (
        x.builder.coerce(1, x.type.scalar) << _shift(y, x.dtype.itemsize * 8)
        if x.width == 1
        else x << _shift(y, x.dtype.itemsize * 8)
    ),
    "popcount": lambda x, y, z: popcount(x),
    "clz": lambda x, y, z: clz(x),
    "ctz": lambda x, y, z: ctz(x),
}
_FLOATING: dict[str, Operation] = {
    "div": lambda x, y, z: x / y,
    "fma": lambda x, y, z: fma(x, y, z),
    "floor": lambda x, y, z: floor(x),
    "ceil": lambda x, y, z: ceil(x),
    "trunc": lambda x, y, z: trunc(x),
    "rint": lambda x, y, z: rint(x),
    "sqrt": lambda x, y, z: sqrt(x),
    "copysign": lambda x, y, z: copysign(x, y),
    "tenth": lambda x, y, z: x * 0.1 + 1e-30,
    "special": lambda x, y, z: select(x > 1.0, float("inf"), select(x < 1.0, float("-inf"), x)),
}
_MOVES: dict[str, Operation] = {
    "select": lambda x, y, z: select(x == y, y, z),
    "same_bits": lambda x, y, z: bitcast(x, _unsigned(x.dtype)),
}


def _unsigned(dtype: DType) -> DType:
    return next(t for t in INTEGERS if t.kind == "uint" and t.itemsize == dtype.itemsize)


def _casts() -> dict[str, Operation]:
    def to(dtype: DType) -> Operation:
        return lambda x, y, z: cast(x, dtype)

    return {f"to_{t.name}": to(t) for t in DTYPES}


def operations(dtype: DType, computed: bool = False) -> dict[str, Operation]:
    """Return the operations that a type has, by name; halves are ``computed`` by few devices."""
    found = dict(_casts())
    if dtype in HALVES and not computed:
        return found | {"same_bits": _MOVES["same_bits"]}
    if dtype is bool_:
        found |= _BITS | {k: _COMPARISON[k] for k in ("eq", "ne")}
        found["select"] = lambda x, y, z: select(x, y, z)
        return found
    found |= _ARITHMETIC | _COMPARISON | _MOVES
    found |= _FLOATING if dtype.kind == "float" else _BITS | _WHOLE
    return found


@kernel
def sheet(
    a: Any, b: Any, c: Any, n: Any, *outputs: Any, functions: Sequence[Operation], width: int
) -> None:
    i = absolute_position() * width
    if i < n:
        x, y, z = a.load(i, width), b.load(i, width), c.load(i, width)
        for out, function in zip(outputs, functions, strict=True):
            out.store(i, function(x, y, z))


def _results(dtype: DType, functions: Sequence[Operation], width: int) -> list[DType]:
    """Return the dtypes of the results of operations."""
    from calor_kernel.ir.types import Type
    from calor_kernel.language.builder import Builder

    builder = Builder()
    with builder.active():
        values = [builder.value(Type(dtype, width)) for _ in range(3)]
        return [f(*values).dtype for f in functions]


@cache
def sheet_case(
    dtype: DType,
    width: int = 1,
    cube: int = 1,
    computed: bool = False,
    part: tuple[int, int] = (0, 99),
) -> Case:
    """Return the case of the operations of a type; ``part``: of some, for few buffers."""
    found = dict(list(operations(dtype, computed).items())[slice(*part)])
    functions = tuple(found.values())
    a, b, c = operands(dtype)
    results = _results(dtype, functions, width)
    signature: list[Buffer | Scalar] = [Buffer(dtype, writable=False)] * 3
    signature.append(Scalar(int64, nonnegative=True))
    signature += [Buffer(d) for d in results]
    built = sheet.build(signature, cube=(cube, 1, 1), functions=functions, width=width)
    cubes = -(-a.size // (width * cube))
    outputs = [np.zeros(a.size, d.numpy) for d in results]
    some = "" if part == (0, 99) else f"-from-{part[0]}"
    name = f"{dtype.name}x{width}{'-computed' if computed else ''}{some}"
    return Case(name, built, (cubes, 1, 1), (a, b, c, a.size, *outputs), tuple(found))


@kernel
def lanes_of_vectors(x: Any, n: Any, *outputs: Any, functions: Any, width: int) -> None:
    i = absolute_position()
    if i < n:
        v = x.load(i * width, width)
        for out, function in zip(outputs, functions, strict=True):
            made = function(v)
            out.store(i * made.width, made)


def vector_functions(dtype: DType, width: int) -> dict[str, Callable[[Any], Any]]:
    """Return the operations that move and combine lanes."""
    found: dict[str, Callable[[Any], Any]] = {
        "extract": lambda v: v[width - 1],
        "insert": lambda v: insert(v, 1, v[0]),
        "reverse": lambda v: shuffle(v, range(width - 1, -1, -1)),
        "halves": lambda v: shuffle(v, range(width // 2)),
        "join": lambda v: shuffle(v, [*range(1, width), width], splat(v[0], width)),
        "splat": lambda v: splat(v[1], width),
        "pack": lambda v: pack([v[1], v[0]]),
    }
    kinds = ["and", "or", "xor"] if dtype.kind != "float" else []
    if dtype is not bool_ and dtype not in HALVES:
        kinds += ["add", "mul", "min", "max"]
    for kind in kinds:
        found[f"vreduce_{kind}"] = partial(vreduce, kind)
    if dtype is not bool_:
        for target in (uint8, uint32):
            lanes, rest = divmod(width * dtype.itemsize, target.itemsize)
            if lanes <= 16 and not rest:
                found[f"as_{target.name}"] = partial(bitcast, dtype=target)
    return found


@cache
def vector_case(dtype: DType, width: int, cube: int = 1) -> Case:
    """Return the case of the operations on the lanes of vectors."""
    from calor_kernel.ir.types import Type
    from calor_kernel.language.builder import Builder

    found = vector_functions(dtype, width)
    builder = Builder()
    with builder.active():
        value = builder.value(Type(dtype, width))
        types = [f(value).type for f in found.values()]
    held = np.resize(numbers(dtype), 4 * width * 4)
    n = held.size // width
    signature: list[Buffer | Scalar] = [Buffer(dtype, writable=False), Scalar(int64)]
    signature += [Buffer(t.dtype) for t in types]
    functions = tuple(found.values())
    built = lanes_of_vectors.build(signature, cube=(cube, 1, 1), functions=functions, width=width)
    outputs = [np.zeros(n * t.width, t.dtype.numpy) for t in types]
    cubes = (-(-n // cube), 1, 1)
    return Case(f"lanes-{dtype.name}x{width}", built, cubes, (held, n, *outputs), tuple(found))


# Control flow, effects in order, memory.
@kernel
def flow(x: Any, y: Any, z: Any, n: Any, *, step: int = 1) -> None:
    """Loops that swap, nested conditions, loads that a store must not overtake."""
    a, b = 1, 2
    total = 0.0
    for i in range(0, n, step):
        a, b = b, a + b
        if x[i] > 0.0:
            total = total + x[i]
            if x[i] > 2.0:
                total = total * 0.5
        else:
            y[i] = total
        kept = x[i]
        x[i] = kept + 1.0
        y[i] = y[i] + kept
    for i in range(n - 1, -1, -2):
        z[i] = a + i
    count = 0
    while a > 3 and count < 100:
        if a % 2 == 0:
            a = a // 2
        else:
            a = 3 * a + 1
        count += 1
    z[0] = count
    z[1] = b
    y[0] = total


def flow_case(step: int = 1) -> Case:
    """Return the case of control flow."""
    built = flow.build(
        [Buffer(float32), Buffer(float32), Buffer(int64), Scalar(int64, nonnegative=True)],
        step=step,
    )
    x = np.array([1.0, -1.0, 3.0, 0.0, 5.0, -2.0, 2.5, 7.0], np.float32)
    return Case("flow", built, (1, 1, 1), (x, np.zeros(8, np.float32), np.zeros(8, np.int64), 8))


@kernel
def masks(x: Any, at: Any, y: Any, z: Any, n: Any, *, width: int) -> None:
    """Masked loads and stores, gathers and scatters."""
    i = absolute_position() * width
    places = at.load(i, width)
    inside = places < n
    y.store(i, x.load(places, mask=inside, other=-1.0))
    z.store(places, x.load(i, width) * 2.0, mask=inside)


def masks_case(width: int, cube: int = 1) -> Case:
    """Return the case of masks and indices in vectors."""
    built = masks.build(
        [Buffer(float32), Buffer(int32), Buffer(float32), Buffer(float32), Scalar(int32)],
        cube=(cube, 1, 1),
        width=width,
    )
    places = np.random.default_rng(3).permutation(32).astype(np.int32)
    x = np.arange(32, dtype=np.float32)
    made = (x, places, np.zeros(32, np.float32), np.zeros(32, np.float32), 20)
    return Case(f"masks-{width}", built, (32 // width // cube, 1, 1), made)


@kernel
def selection(x: Any, y: Any, z: Any, out: Any, other: Any, n: Any) -> None:
    """Each cube reads one of three buffers, and writes one of two."""
    cube = cube_position()
    source = selected([x, y, z], (cube + n) % 3)
    target = selected([out, other], cube % 2)
    i = absolute_position()
    target[i] = source[i] * 2.0


def selection_case(units: int) -> Case:
    """Return the case of buffers that are selected by a number."""
    given = [Buffer(float32, writable=False)] * 3 + [Buffer(float32)] * 2
    built = selection.build([*given, Scalar(int64, nonnegative=True)], cube=(units, 1, 1))
    read = [np.arange(8 * units, dtype=np.float32) + 100.0 * k for k in range(3)]
    made = (*read, np.zeros(8 * units, np.float32), np.zeros(8 * units, np.float32), 1)
    return Case("selection", built, (8, 1, 1), made)


@kernel
def counters(slots: Any, marks: Any, *, kinds: Sequence[str]) -> None:
    """An atomic of each kind; what comes out does not depend on the order."""
    i = absolute_position()
    value = (i + 1).to(slots.dtype)
    for number, kind in enumerate(kinds):
        if kind == "compare":
            slots.atomic(kind, number, 5, current().coerce(9, slots.memory.type))
        elif kind == "exchange":
            marks[i] = slots.atomic(kind, number + 1 + i, value)
        else:
            slots.atomic(kind, number, value)


@intrinsic(
    "float32, int32 -> float32",
    c="({0} * 2.0f + (float){1})",
    wgsl="({0} * 2.0f + f32({1}))",
)
def twice_and(x: Any, n: Any) -> Any:
    return (x * 2 + n).astype(np.float32)


def copied(target: Any, to: Any, source: Any, of: Any, count: int, mask: Any = None) -> None:
    """Copy elements as a pipeline of a device with asynchronous copies does."""
    places = [to, of] if mask is None else [to, of, mask]
    said = {"source": source.memory, "elements": count, "group": ""}
    builder = of.builder
    operands = [builder.coerce(p) for p in places]
    builder.emit("copy_async", operands, (), said, memory=target.memory)
    builder.emit("commit_async", (), (), {"group": ""})
    builder.emit("wait_async", (), (), {"group": "", "pending": 0})


@kernel
def effects(x: Any, y: Any, n: Any, *, units: int) -> None:
    """What a kernel does beside computing: copies, fences, ordered accesses, intrinsics."""
    held = shared(units * 4, float32)
    i = unit_position() + cube_position() * 0
    start = absolute_position() * 4
    x.prefetch(start)
    copied(held, i * 4, x, start, 2)
    copied(held, i * 4 + 2, x, start + 2, 2, start < n)
    barrier()
    y.store(start, twice_and(held[i * 4], 3), order="release")
    fence()
    seen = y.load(start, order="acquire")
    y[start + 1] = seen + held[(units * 4 - 1) - (i * 4)]
    y[start + 2] = held[i * 4 + 2]


def effects_case(units: int) -> Case:
    """Return the case of effects."""
    signature: list[Buffer | Scalar] = [Buffer(float32), Buffer(float32), Scalar(int64)]
    built = effects.build(signature, cube=(units, 1, 1), units=units)
    x = np.arange(units * 8, dtype=np.float32)
    return Case(f"effects-{units}", built, (2, 1, 1), (x, np.zeros_like(x), units * 4))


@kernel
def parts(x: Any, *, units: int) -> None:
    """Units that do different things at the same time."""
    i = cube_position() * units + unit_index()
    with role(0, units // 2, scope="plane"):
        x[i] = 1.0
    with role(units // 2, units // 2, scope="plane"):
        x[i] = 2.0


def parts_case(units: int) -> Case:
    """Return the case of roles."""
    built = parts.build([Buffer(float32)], cube=(units // 2, 2, 1), units=units)
    return Case(f"parts-{units}", built, (3, 1, 1), (np.zeros(units * 3, np.float32),))


KINDS = ("add", "min", "max", "and", "or", "xor", "compare", "exchange")


def atomics_case(dtype: DType, units: int = 1, cubes: int = 8) -> Case:
    """Return the case of atomics."""
    kinds = KINDS if dtype.kind != "float" else ("add", "min", "max", "exchange")
    built = counters.build([Buffer(dtype), Buffer(dtype)], cube=(units, 1, 1), kinds=kinds)
    slots = np.full(len(kinds) + units * cubes, 5, dtype.numpy)
    marks = np.zeros(units * cubes, dtype.numpy)
    return Case(f"atomics-{dtype.name}", built, (cubes, 1, 1), (slots, marks))


@kernel
def cube_sum(x: Any, y: Any, n: Any, *, units: int) -> None:
    """A reduction of a cube through shared memory, halves first, and a private array."""
    held = shared(units, float32)
    own = private(4, float32)
    i = unit_position()
    start = absolute_position() * 4
    for k in range(4):
        own[k] = x.load(start + k, mask=start + k < n, other=0.0)
    total = own[0]
    for k in range(n * 0 + 1, 4):
        total = total + own[k]
    held[i] = total
    barrier()
    size = units // 2
    while size > 0:
        if i < size:
            held[i] = held[i] + held[i + size]
        barrier()
        size = size // 2
    if i == 0:
        y[absolute_position() // units] = held[0]


def cube_sum_case(units: int) -> Case:
    """Return the case of units that meet."""
    built = cube_sum.build(
        [Buffer(float32, writable=False), Buffer(float32), Scalar(int64, nonnegative=True)],
        cube=(units, 1, 1),
        units=units,
    )
    x = np.random.default_rng(5).normal(size=units * 11).astype(np.float32)
    return Case(f"cube_sum-{units}", built, (3, 1, 1), (x, np.zeros(3, np.float32), x.size))


@kernel
def positions(y: Any, *, axes: Any = (0, 1, 2)) -> None:
    """Where every unit is along three axes."""
    place: Any = 0
    for axis in axes:
        place = place * cube_count(axis) + cube_position(axis)
        place = place * cube_size(axis) + unit_position(axis)
    y[place] = place * 3 + cube_count(0)


def positions_case(cube: tuple[int, int, int]) -> Case:
    """Return the case of positions."""
    built = positions.build([Buffer(int64)], cube=cube)
    cubes = (2, 3, 4)
    size = int(np.prod(cubes) * np.prod(cube))
    return Case("positions", built, cubes, (np.zeros(size, np.int64),))


@kernel
def scalars(out: Any, *given: Any, targets: Sequence[DType]) -> None:
    """Scalars of every type as arguments."""
    for place, (value, target) in enumerate(zip(given, targets, strict=True)):
        out[place] = cast(value, target).to(float64)


def scalars_case() -> Case:
    """Return the case of arguments that are numbers."""
    targets = tuple(float32 if t in HALVES or t is bool_ else t for t in DTYPES)
    built = scalars.build([Buffer(float64), *(Scalar(t) for t in DTYPES)], targets=targets)
    given = [True, -3, -300, -70000, -(2**40), 200, 60000, 2**32 - 1, 2**40, 1.5, -2.5, 0.1, 0.1]
    return Case("scalars", built, (1, 1, 1), (np.zeros(len(targets)), *given))
