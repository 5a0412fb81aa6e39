"""Values that compare equal and differ: each place where a program may take one for the other.

A program is kept for what is not a tensor: static arguments, attributes of objects, keys and parts
of containers, what functions close over, numbers of an op. Keys compare by ``==`` and by hash, and
0.0 is -0.0, 1 is True, NaN is not itself, a dtype has two names. Values of one family are given in
any order at every place; what the program saw of a value is part of its result.
"""

from __future__ import annotations

import enum
import inspect
import zlib
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

import calor
from calor.backends.device import Device
from calor.dtypes import float32
from calor.transforms.state import Stateful

from .base import Array, Check, Place

PLACES: Final = "values that are equal and differ are two, wherever a program gets them from"
NUMBERS: Final = "a number of an op has the sign, the digits and the type that it was given with"
_OTHERS, _TURNS = 2, 5
Rng = np.random.Generator


class _Order(enum.IntEnum):
    FIRST = 1
    SECOND = 2


class _Name(str):
    """A text of another type."""

    __slots__ = ()


class _Pair(NamedTuple):
    one: Any
    other: Any


class _Other(NamedTuple):
    one: Any
    other: Any


def _families(place: Place) -> list[list[Any]]:
    """Return lists of values of which several are equal, or have one hash."""
    name = place.device.name
    return [
        [0.0, -0.0, 0, False, np.float32(0), np.float32(-0.0), np.float64(-0.0), np.int64(0), 0j],
        [1, True, 1.0, np.float32(1), np.int32(1), np.bool_(True), 1 + 0j, _Order.FIRST,
         Fraction(1)],
        [float("nan"), float("nan"), np.float32("nan"), 2.0, None],
        [2**53, 2**53 + 1, float(2**53), np.int64(2**53 + 1), 2**61 - 1, 0],
        [-1, -2, -1.0, -2.0, np.int8(-1)],
        ["a", _Name("a"), b"a", "b", "A", ("a",)],
        [(0.0, 1), (-0.0, 1), (0, True), (0.0, 1.0), _Pair(0.0, 1), _Other(0.0, 1), (0.0, (1,))],
        [frozenset({0.0}), frozenset({-0.0}), frozenset({0}), frozenset({False})],
        [range(0, 3, 2), range(0, 4, 2), range(0), range(5, 5), slice(0, 1), slice(False, 1.0)],
        [float32, "float32", np.float32, np.dtype("float32"), calor.float64, "float64"],
        [place.device, name, calor.device("numpy"), "numpy"],
        [(float("nan"),), (float("nan"), 1), (0j,), (complex(0.0, -0.0),), (complex(-0.0, 0.0),)],
    ]  # fmt: skip


def _told(value: Any) -> str:
    """Return a text that differs wherever two values do, but for which object they are."""
    kind = type(value).__name__
    if isinstance(value, tuple):
        return f"{kind}({', '.join(map(_told, value))})"
    if isinstance(value, list):
        return f"{kind}[{', '.join(map(_told, value))}]"
    if isinstance(value, frozenset):
        return f"{kind}{sorted(map(_told, value))}"
    if isinstance(value, slice):
        return f"{kind}({', '.join(map(_told, (value.start, value.stop, value.step)))})"
    return f"{kind} {value!r}"


def _code(value: Any) -> int:
    return zlib.crc32(_told(value).encode()) % 4093


def _seen(x: Any, value: Any) -> Any:
    """Return numbers that tell which value a program saw."""
    return x * 2 + _code(value)


class _Part(Stateful):
    """An object with a value among its attributes."""

    def __init__(self) -> None:
        self.w = calor.ones(2)
        self.value: Any = "none"
        self.held: list[Any] = ["none", 1]
        self.by: dict[Any, Any] = {"value": "none"}
        self.within: Any = None

    @calor.jit
    def method(self, x: Any) -> Any:
        """Tell what the attribute is."""
        return _seen(x * self.w, self.value)


class _Tagged:
    """A container of a tensor with a value in its structure."""

    def __init__(self, x: Any, value: Any) -> None:
        self.x, self.value = x, value


calor.tree.register(
    _Tagged, lambda t: ((t.x,), t.value), lambda value, parts: _Tagged(parts[0], value)
)
Way = Callable[[Any, Any], Any]


def _is_number(value: Any) -> bool:
    """Tell whether an argument has numbers of a program, which are no part of its structure."""
    return type(value) in (int, float, complex) or (
        isinstance(value, tuple) and any(map(_is_number, value))
    )


def _of_objects() -> dict[str, Way]:
    """Return programs that find the value in an object."""
    part, root = _Part(), _Part()
    root.within = part
    jitted = {
        "attribute": calor.jit(lambda p, x: _seen(x, p.value)),
        "attribute in a list": calor.jit(lambda p, x: _seen(x, p.held[0])),
        "attribute in a dict": calor.jit(lambda p, x: _seen(x, p.by["value"])),
        "attribute of an attribute": calor.jit(lambda p, x: _seen(x, p.within.value)),
        "captured attribute": calor.jit(lambda x: _seen(x, part.value)),
    }
    bound = jitted["attribute"].bind(part)

    def given(way: Callable[[Any], Any], x: Any, value: Any) -> Any:
        part.value, part.held, part.by = value, [value, 1], {"value": value}
        return way(x)

    ways: dict[str, Callable[[Any], Any]] = {
        name: partial(call, root if "of an" in name else part)
        for name, call in jitted.items()
        if name != "captured attribute"
    }
    ways["captured attribute"] = jitted["captured attribute"]
    ways["bound object"], ways["method"] = bound, part.method
    return {name: partial(given, way) for name, way in ways.items()}


def _of_arguments() -> dict[str, Way]:
    """Return programs that are given the value."""
    by_number = calor.jit(_seen, static_argnums=1)
    by_name = calor.jit(lambda x, value: _seen(x, value), static_argnames="value")
    plain = calor.jit(_seen)
    several = calor.jit(lambda x, held: _seen(held[1]["x"] * 0 + x, held[0]))
    keys = calor.jit(lambda x, held: _seen(held.popitem()[1] * 0 + x, held.popitem()[0]))
    tagged = calor.jit(lambda t: _seen(t.x, t.value))
    first = calor.jit(lambda value, x: _seen(x, value), static_argnums=0)
    returned = calor.jit(lambda x, value: (x * 2 + _code(value), value), static_argnums=1)

    box: list[Any] = [None]

    def in_place(x: Any, value: Any) -> Any:
        """Give the same list at each call, with something else inside."""
        box[0] = value
        return by_number(x, box) - _code(box) + _code(value)

    def again(x: Any, value: Any) -> Any:
        made, back = returned(x, value)
        assert _told(back) == _told(value), f"a program returns {back!r} for {value!r}"
        return made

    return {
        "static by number": by_number, "static by name": lambda x, v: by_name(x, value=v),
        "argument": plain, "in containers": lambda x, v: several(x, (v, {"x": x})),
        "key": lambda x, v: keys(x, {v: x, "last": x}), "tag": lambda x, v: tagged(_Tagged(x, v)),
        "bound": lambda x, v: first.bind(v)(x), "returned": again,
        "in a tuple, static": lambda x, v: by_number(x, (v, (v,))) - _code((v, (v,))) + _code(v),
        "in a list, static": in_place,
    }  # fmt: skip


def _of_functions() -> dict[str, Way]:
    """Return transforms of functions that have the value."""
    mapped = calor.jit(lambda x, v: calor.vmap(lambda t: _seen(t, v))(x), static_argnums=1)
    again = calor.checkpoint(_seen)
    compiled_again = calor.jit(calor.checkpoint(_seen), static_argnums=1)

    def looped(x: Any, value: Any) -> Any:
        return calor.fori_loop(0, 2, lambda i, y: _seen(x, value) + y * 0, x)

    def scanned(x: Any, value: Any) -> Any:
        return calor.scan(lambda c, t: (c, _seen(t, value)), calor.zeros(()), x)[1]

    def chosen(x: Any, value: Any) -> Any:
        return calor.cond(x[0] == x[0], lambda t: _seen(t, value), lambda t: t * 0, x)

    def differentiated(x: Any, value: Any) -> Any:
        made, back = calor.value_and_grad(lambda t: calor.sum(_seen(t, value)) * 1)(x)
        return (made - calor.sum(x) * 2) / x.size + x * back

    def with_default(x: Any, value: Any) -> Any:
        return calor.jit(lambda t, v=value: _seen(t, v), static_argnums=1)(x)

    return {
        "closure": lambda x, v: calor.jit(lambda t: _seen(t, v))(x),
        "partial": lambda x, v: calor.jit(partial(_seen, value=v), static_argnames="value")(x),
        "default": with_default, "vmap": lambda x, v: calor.vmap(lambda t: _seen(t, v))(x),
        "jitted vmap": mapped, "checkpoint": again, "jitted checkpoint": compiled_again,
        "loop": looped, "jitted loop": calor.jit(looped, static_argnums=1), "scan": scanned,
        "jitted scan": calor.jit(scanned, static_argnums=1), "cond": chosen,
        "gradient": differentiated, "linearized": lambda x, v: calor.jvp(
            lambda t: _seen(t, v), (x,), (x,))[0],
    }  # fmt: skip


# Places that are for numbers of programs another matter: there they are no part of a structure.
_DYNAMIC: Final = ("argument", "in containers")


def _taken(name: str, value: Any) -> bool:
    """Tell whether a place is for a value."""
    if name in _DYNAMIC:
        return not _is_number(value)
    if name == "key" and isinstance(value, _Name | np.dtype | Device):
        # These are equal to texts, and no keys of anybody.
        return False
    # A slice has a hash in newer Pythons only.
    return name not in ("key", "tag") or not isinstance(value, slice)


def _places(place: Place) -> None:
    families = _families(place)
    array = np.arange(1, 3, dtype=np.float32)
    x = calor.asarray(array)
    ways = _of_objects() | _of_arguments() | _of_functions()
    for number, (name, way) in enumerate(ways.items()):
        rng = np.random.default_rng([place.seed, 141, number])
        told: list[str] = []
        # Zeros and ones at every place, of the others some.
        for which in (0, 1, *rng.permutation(np.arange(2, len(families)))[:_OTHERS]):
            family = [v for v in families[which] if _taken(name, v)]
            for k in rng.permutation(len(family) * 2)[:_TURNS]:
                value = family[k % len(family)]
                told.append(_told(value))
                got = way(x, value).numpy()
                want = array * 2 + _code(value)
                assert (got == want).all(), (
                    f"{name} of {_told(value)} saw "
                    f"{[_told(v) for v in family if _code(v) == got[0] - 2]}, after {told}"
                )


def _same(got: Any, want: Array, what: str) -> None:
    found = got.numpy()
    assert found.dtype == want.dtype, f"{what} is {found.dtype}, not {want.dtype}"
    assert found.tobytes() == want.tobytes(), f"{what} is {found.tolist()}, not {want.tolist()}"


# Ops of a tensor of float32 and a number, by NumPy's name; a number keeps its sign in each.
_OPS: Final[dict[str, tuple[Callable[[Any, Any], Any], Callable[[Array, Any], Any]]]] = {
    "x * v": (lambda x, v: x * v, lambda x, v: x * v),
    "v * x": (lambda x, v: v * x, lambda x, v: v * x),
    "v - x": (lambda x, v: v - x, lambda x, v: v - x),
    "x / v": (lambda x, v: x / v, lambda x, v: x / v),
    "where": (lambda x, v: calor.where(x > 1, x, v), lambda x, v: np.where(x > 1, x, v)),
    "full": (lambda x, v: calor.full((2,), v, dtype=float32), lambda x, v: np.full(2, v)),
    "full_like": (lambda x, v: calor.full_like(x, v), lambda x, v: np.full(2, v)),
    "copysign": (lambda x, v: calor.copysign(x, v), np.copysign),
    "pad": (lambda x, v: calor.pad(x, (1, 0), value=v),
            lambda x, v: np.pad(x, (1, 0), constant_values=v)),
    "asarray": (lambda x, v: calor.asarray(v, dtype=float32), lambda x, v: np.asarray(v)),
    "masked": (lambda x, v: calor.stack([x, calor.zeros(2) + v]),
               lambda x, v: np.stack([x, x * 0 + v])),
    "write": (lambda x, v: _written(x, v), lambda x, v: np.array([v, x[1]])),
    "nested": (lambda x, v: calor.asarray([v, 1.0], dtype=float32), lambda x, v: np.array([v, 1])),
}  # fmt: skip


def _written(x: Any, value: Any) -> Any:
    made = x.copy()
    made[0] = value
    return made


_ALIKE: Final = (
    (0.0, -0.0, 0, False), (1.0, 1, True, -1.0), (float("nan"), 0.0, float("nan"), 1.0),
    (16777216, 16777217.0, 16777218, 0.1, 0.1 + 1e-9), (float("inf"), -float("inf"), 3.4e38),
    (1e-45, -1e-45, 0.0, -0.0), (2, 2.0, -2, 2 + 2**-22),
)  # fmt: skip


def _numbers(place: Place) -> None:
    """Ops of numbers, at once, in compiled calls, and as numbers of these."""
    array = np.array([1.0, 3.0], np.float32)
    flushes = float32 in place.flushes
    for number, family in enumerate(_ALIKE):
        rng = np.random.default_rng([place.seed, 142, number])
        x = calor.asarray(array)
        for name, (call, meaning) in _OPS.items():
            ways: dict[str, Way] = {
                "at once": call, "jitted": calor.jit(call),
                "static": calor.jit(call, static_argnums=1),
                "closed": lambda x, v, call=call: calor.jit(lambda t: call(t, v))(x),  # type: ignore[misc]
            }  # fmt: skip
            for turn in rng.permutation(len(family) * 2):
                value = family[int(turn) % len(family)]
                if flushes and 0 < abs(value) < 1e-37:
                    continue
                with np.errstate(all="ignore"):
                    want = np.asarray(meaning(array, value)).astype(np.float32)
                how = str(rng.choice(list(ways)))
                if how == "jitted" and name in ("asarray", "nested"):
                    continue
                got = ways[how](x, value)
                if np.isnan(want).any():
                    want = np.where(np.isnan(want), np.float32("nan"), want)
                    got = calor.where(calor.isnan(got), float("nan"), got)
                _same(got, want, f"{name} {how} with {value!r}")


def alike_values() -> Iterator[Check]:
    """Yield a check of places of values, and one of numbers of ops."""
    for subject, contract, run in (("values", PLACES, _places), ("numbers", NUMBERS, _numbers)):
        yield Check(
            kind="history",
            subject=f"drawn-alike-{subject}",
            tier="compiled",
            contract=contract,
            run=run,
            text=partial(inspect.getsource, run),
            dtypes=(float32,),
            looks=True,
        )
