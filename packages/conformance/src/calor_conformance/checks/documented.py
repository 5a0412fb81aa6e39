"""Functions refuse what their documentation says they refuse, and take arrays as they take tensors.

The sections "Raises" are read: dtypes, axes, names of options, numbers of elements and of axes that
they name are put in the place of what a call is right with. So a new function needs no row here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor import errors
from calor.dtypes import bool_, float32, int32, int64

from ..rows.functions import ways
from ..rows.functions.comparing import tensors
from ..rows.functions.drawing import Arguments, Rng, source
from ..rows.functions.layers import installed
from ..rows.judging import numpy_of
from .base import Array, Check, Place

CONTRACT: Final = "a function refuses what its documentation names, and an array is a tensor to it"
_RAISES: Final = re.compile(r"Raises\n-+\n(.*?)(?:\n\n\S[^\n]*\n-{3,}|\Z)", re.S)
_ALLOWED: Final = re.compile(r"no complex|not floating or complex")
_TICKED: Final = re.compile(r"`+(\w+)`+")
# Functions of which another operand of a wider dtype makes float8 that dtype.
_WIDENED: Final = frozenset(("diff",))
_KNOWN: Final = {
    name: getattr(errors, name)
    for name in ("DTypeError", "AxisError", "ArgumentError", "ShapeError")
}  # fmt: skip


@dataclass(frozen=True)
class Called:
    """A function, how its arguments are drawn, and the names of its parameters."""

    label: str
    function: Callable[..., Any]
    draw: Callable[[Rng], Arguments]
    parameters: tuple[str, ...]

    @property
    def operands(self) -> frozenset[str]:
        """The parameters that take a tensor, an array or a number."""
        found = inspect.signature(self.function).parameters.values()
        return frozenset(p.name for p in found if str(p.annotation).startswith("Operand"))


@cache
def raises(function: Callable[..., Any]) -> dict[str, tuple[str, ...]]:
    """Return what is said of each error, as sentences."""
    found = _RAISES.search(inspect.cleandoc(function.__doc__ or ""))
    made: dict[str, list[str]] = {}
    name = ""
    for line in found.group(1).split("\n") if found else ():
        if line and not line.startswith(" "):
            name = line.strip()
        elif name:
            made.setdefault(name, []).append(line.strip())
    return {name: tuple(_sentences(" ".join(lines))) for name, lines in made.items()}


def _sentences(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.;]) |, or |, if ", text) if part]


def _named(said: str, called: Called) -> list[str]:
    """Return the parameters that a sentence names; the first operand if it says "operand"."""
    names = [n for n in _TICKED.findall(said) if n in called.parameters]
    if not names and re.search(r"\boperands?\b|\bargument\b", said):
        names = [called.parameters[0]]
    return names


@dataclass
class _Given:
    """An array that is given as it is."""

    array: Any


def _as_given(value: Any) -> Any:
    return value.array if isinstance(value, _Given) else tensors(value)


@dataclass
class _Call:
    """Arguments by parameter."""

    called: Called
    by_name: dict[str, Any]

    def having(self, name: str, value: Any) -> _Call:
        return _Call(self.called, {**self.by_name, name: value})

    def make(self) -> Any:
        kinds = inspect.signature(self.called.function).parameters
        positional, named = [], {}
        for name, value in self.by_name.items():
            if kinds[name].kind is inspect.Parameter.KEYWORD_ONLY:
                named[name] = _as_given(value)
            else:
                positional.append((name, _as_given(value)))
        order = list(kinds)
        positional.sort(key=lambda pair: order.index(pair[0]))
        straight = [v for n, (name, v) in enumerate(positional) if order[n] == name]
        late = dict(positional[len(straight) :])
        return self.called.function(*straight, **late, **named)


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float32


def _is_whole(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "iu"


def _dtypes(said: str, call: _Call) -> Iterator[tuple[str, _Call]]:
    for name in _named(said, call.called):
        value: Any = call.by_name.get(name)
        if _is_float(value) and re.search(r"\bcomplex\b", said) and not _ALLOWED.search(said):
            yield f"{name} is complex", call.having(name, value.astype(np.complex64))
        alone = call.called.label not in _WIDENED
        if _is_float(value) and alone and re.search(r"\bfloat8\b", said):
            narrow = value.astype(calor.dtypes.float8_e4m3fn.numpy)
            yield f"{name} is float8", call.having(name, narrow)
        if _is_whole(value) and re.search(r"(not|must be) (of an )?integers?", said):
            yield f"{name} is floating", call.having(name, value.astype(np.float32))
        if name in call.called.operands and re.search(r"no[t]? (a )?tensor, array or number", said):
            yield f"{name} is a text", call.having(name, "text")


def _axes(said: str, call: _Call) -> Iterator[tuple[str, _Call]]:
    first = call.by_name.get(call.called.parameters[0])
    if "axis" not in call.called.parameters or not isinstance(first, np.ndarray):
        return
    if re.search(r"does not fit the shape of `|no such axis|is not an axis|does not exist", said):
        for axis in (first.ndim, -first.ndim - 1):
            if first.ndim or axis:
                yield f"axis is {axis} of {first.shape}", call.having("axis", axis)


def _options(said: str, call: _Call) -> Iterator[tuple[str, _Call]]:
    for name in _named(said, call.called):
        value = call.by_name.get(name, _default(call.called, name))
        if isinstance(value, str) and re.search(
            r"not one of|unknown|is none of|another (name|string)", said
        ):
            yield f"{name} is 'nonsense'", call.having(name, "nonsense")
        if type(value) is int and re.search(r"(below|less than) 1\b", said):
            yield f"{name} is 0", call.having(name, 0)
        if type(value) in (int, float) and re.search(r"\bis negative", said):
            yield f"{name} is negative", call.having(name, -1)
        if type(value) is float and re.search(r"(outside|within) \[0, 1\]", said):
            yield f"{name} is 1.5", call.having(name, 1.5)
            yield f"{name} is −0.5", call.having(name, -0.5)


def _default(called: Called, name: str) -> Any:
    return inspect.signature(called.function).parameters[name].default


def _shapes(said: str, call: _Call) -> Iterator[tuple[str, _Call]]:
    arrays = [n for n, v in call.by_name.items() if isinstance(v, np.ndarray)]
    names = [n for n in arrays if _is_float(call.by_name[n])]
    if (
        len(names) == 2
        and re.search(r"^If the shapes (do not broadcast|differ)", said)
        and names == arrays
    ):
        odd = np.ones((4, 5), np.float32)
        first = call.having(names[0], np.ones((4, 3), np.float32))
        yield f"{names[1]} does not broadcast", first.having(names[1], odd)
    fewer = re.search(r"fewer than (two|three|2|3) axes", said)
    for name in _named(said, call.called) if fewer else ():
        if _is_float(call.by_name.get(name)):
            yield f"{name} has one axis", call.having(name, np.ones(3, np.float32))
            yield f"{name} has no axis", call.having(name, np.ones((), np.float32))


_SPOILS: Final[dict[str, Callable[[str, _Call], Iterator[tuple[str, _Call]]]]] = {
    "DTypeError": _dtypes, "AxisError": _axes, "ArgumentError": _options, "ShapeError": _shapes,
}  # fmt: skip


def spoilt(call: _Call) -> Iterator[tuple[str, _Call, str]]:
    """Yield what is wrong with calls that are wrong in one way, and the error that is named."""
    for name, said in raises(call.called.function).items():
        for sentence in said if name in _SPOILS else ():
            for what, bad in _SPOILS[name](sentence, call):
                yield what, bad, name


def _looked_at(call: _Call) -> BaseException | None:
    try:
        made = call.make()
        for tensor in calor.tree.leaves(made):
            if isinstance(tensor, calor.Tensor):
                tensor.numpy()
    except Exception as error:
        return error
    return None


def _run(called: Called, place: Place) -> None:
    rng = source([place.seed, crc32(called.label.encode())])
    given, options = called.draw(rng)
    by_name = dict(zip(called.parameters, given, strict=False))
    if len(by_name) < len(given) or not set(options) <= set(called.parameters):
        return  # It takes any number of operands.
    call = _Call(called, {**by_name, **options})
    if not any(a.size for a in numpy_of(call.make())):
        return  # Of nothing, nothing is refused.
    for what, bad, name in spoilt(call):
        error = _looked_at(bad)
        assert isinstance(error, _KNOWN[name]), (
            f"{called.label}: {what}, which is a {name} by its documentation, not {error!r}"
        )
    _of_arrays(call)


def _of_arrays(call: _Call) -> None:
    """Give one operand after the other as an array."""
    names = [n for n in call.called.operands if isinstance(call.by_name.get(n), np.ndarray)]
    tensors_of = {k: tensors(v) for k, v in call.by_name.items()}
    want: list[Any] | None = None
    for name in sorted(names):
        if len(names) < 2 and name != call.called.parameters[0]:
            continue
        want = numpy_of(_Call(call.called, tensors_of).make()) if want is None else want
        given = {**tensors_of, name: _Given(call.by_name[name])}
        got = numpy_of(_Call(call.called, given).make())
        for a, b in zip(got, want, strict=True):
            assert _alike(a, b), f"{call.called.label}: with {name} as an array {a!r}, not {b!r}"


def _alike(a: Array, b: Array) -> bool:
    """Return whether two runs agree; devices with many cores add in any order."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.tobytes() == b.tobytes() or a.dtype.kind not in "fc":
        return a.tobytes() == b.tobytes()
    size = float(np.abs(b[np.isfinite(b)]).astype(np.float64).max(initial=0.0))
    return bool(
        np.allclose(a, b, rtol=0.0, atol=8 * calor.finfo(a.dtype).eps * size, equal_nan=True)
    )


def every() -> list[Called]:
    """Return the functions that are called by their own names, each once."""
    made: dict[str, Called] = {}
    for name, rows in installed().items():
        module = import_module(name)
        for row in rows:
            function = getattr(module, row.name)
            if row.call is None and inspect.isfunction(function):
                _add(made, f"{name}.{row.name}", function, row.draw)
    for way in ways():
        function = getattr(calor, way.name, None)
        if way.other is None and inspect.isfunction(function):
            _add(made, way.name, function, way.draw)
    return list(made.values())


def _add(made: dict[str, Called], label: str, function: Any, draw: Any) -> None:
    if label not in made:
        names = tuple(inspect.signature(function).parameters)
        made[label] = Called(label, function, draw, names)


def documented() -> Iterator[Check]:
    """Yield a check of what each function refuses."""
    for called in every():
        if raises(called.function):
            yield Check(
                kind="refusals",
                subject=f"documented-{called.label}",
                tier="full",
                contract=CONTRACT,
                run=partial(_run, called),
                text=partial(inspect.getsource, called.draw),
                dtypes=(float32, int32, int64, bool_),
                looks=True,
            )
