"""What errors tell: the user's line and call, the module, the op, the axis, the index and the size.

Programs of a user are drawn: where the fault is, what stands around it, which modules it is in, and
how its result is asked for. An error that names another line, or half of it, costs hours.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.config import config
from calor.dtypes import float32, int32, int64
from calor.errors import CalorError, DTypeError, ElementIndexError, ShapeError

from .base import Array, Check, Place
from .errors import raised
from .modes import eagerly
from .user_programs import FILE, line, of_user

INDICES: Final = "an index out of range is told with line, call, module, index, axis and size"
FORMS: Final = (
    "operands that do not fit are refused with the op, the module and, if asked, the line"
)
_PROGRAMS, _MISFITS = 60, 30
Rng = np.random.Generator


@dataclass(frozen=True)
class _Fault:
    """An expression that reads or writes at a wrong index, and what the error says of it."""

    source: str
    call: str
    axis: int
    writes: bool = False


def _key(rng: Rng, shape: tuple[int, ...], axis: int) -> str:
    """Return a key with the wrong index ``i`` at an axis, and ints, slices and None elsewhere."""
    items = []
    for k, n in enumerate(shape):
        if k == axis:
            items.append("i")
        elif k < axis or rng.random() < 0.5:
            some = (":", f"{rng.integers(n)}", f"{rng.integers(n)}:", "::-1", f":{n}", f"-{n}:")
            items.append(str(rng.choice(some)))
        else:
            break
    if len(items) == len(shape) and axis and rng.random() < 0.3:
        items[0:axis] = ["..."]
    elif rng.random() < 0.2:
        items.insert(0, "None")
    return ", ".join(items)


def _fault(rng: Rng, shape: tuple[int, ...]) -> _Fault:
    axis = int(rng.integers(len(shape)))
    named = axis - (len(shape) if rng.random() < 0.4 else 0)
    key = _key(rng, shape, axis)
    # Places of several axes at once, of which one is wrong.
    places = f"calor.stack([{'i * 0, ' * axis}i], axis=-1)"
    few = f"calor.zeros((i.shape[0], {''.join(f'{n}, ' for n in shape[axis + 1 :])}))"
    match int(rng.integers(13)):
        case 0:
            return _Fault(f"calor.take(x, i, axis={named})", "take()", axis)
        case 1:
            return _Fault(f"x.take(i, axis={named})", "x.take()", axis)
        case 2:
            return _Fault(f"calor.take_along_axis(x, w, axis={named})", "take_along_axis()", axis)
        case 3:
            return _Fault(f"x.take_along_axis(w, {named})", "x.take_along_axis()", axis)
        case 4:
            return _Fault(f"x[{key}] = 1", "x[...] = y", axis, writes=True)
        case 5:
            return _Fault("x[i]", "x[...]", 0)
        case 6:
            return _Fault(f"calor.gather_nd(x, {places})", "gather_nd()", axis)
        case 7:
            kind = str(rng.choice(["assign", "add", "max"]))
            source = f'calor.scatter_nd(x, {places}, {few}, update="{kind}")'
            return _Fault(source, "scatter_nd()", axis)
        case 8:
            source = f"calor.scatter_along_axis(x, w, calor.zeros(w.shape), axis={named})"
            return _Fault(source, "scatter_along_axis()", axis)
        case 9:
            return _Fault(f"x[{'i * 0, ' * axis}i]", "x[...]", axis)
        case _:
            return _Fault(f"x[{key}]", "x[...]", axis)


# What stands around the fault: other work, and reads that are right, of other sizes.
_AROUND: Final = (
    "a = x * 2", "b = calor.sum(x, axis=0)", "c = calor.take(long, good, axis=0)",
    "d = long[good] + 1", "e = x.reshape(-1)", "long[good] = 3", "pass", "",
)  # fmt: skip


def _lines(rng: Rng, most: int = 4) -> list[str]:
    return [str(s) for s in rng.choice(_AROUND, int(rng.integers(0, most)))]


def _function(rng: Rng, fault: _Fault) -> tuple[list[str], int]:
    """Return the lines of a function's body, and which of them has the fault."""
    before, after = _lines(rng), _lines(rng)
    made = fault.source if fault.writes else f"y = {fault.source}"
    ends = ["return x + 0" if fault.writes else f"return y * {rng.integers(1, 3)}"]
    return [*before, made, *after, *ends], len(before)


def _program(rng: Rng, fault: _Fault, in_module: bool) -> tuple[str, int, str | None]:
    """Return a program with a function ``run``, the line of the fault and the module's path."""
    body, at = _function(rng, fault)
    head = [""] * int(rng.integers(0, 4))
    if not in_module:
        source = [*head, "def run(x, i, w, long, good):", *(f"    {s}" for s in body)]
        return "\n".join(source), len(head) + at + 2, None
    depth = int(rng.integers(0, 4))
    names = [str(rng.choice(["first", "blocks", "deep", "layer"])) + str(k) for k in range(depth)]
    listed = bool(depth) and bool(rng.integers(2))
    source = [*head, "class Part(nn.Module):", "    def forward(self, x, i, w, long, good):"]
    source += [f"        {s}" for s in body]
    row = len(head) + at + 3
    source += ["model = Part()"]
    for number, name in enumerate(reversed(names)):
        item = "[1]" if listed and not number else ""
        held = "[nn.Identity(), inner]" if item else "inner"
        source += [
            "class Around(nn.Module):", "    def __init__(self, inner):",
            f"        self.{name} = {held}", "    def forward(self, *given):",
            f"        return self.{name}{item}(*given) + 0", "model = Around(model)",
        ]  # fmt: skip
    source += ["run = model"]
    path = ".".join(names) + (".1" if listed else "")
    return "\n".join(source), row, f"{path} (Part)" if path else "Part"


def _evaluated(y: Any) -> Any:
    calor.eval(y)
    return y.numpy()


_ASKS: Final[dict[str, Callable[[Any], Any]]] = {
    "numpy": lambda y: y.numpy(), "tolist": lambda y: y.tolist(), "repr": repr,
    "eval": _evaluated, "sum": lambda y: y.sum().item(),
    "array": np.asarray, "later": lambda y: (y * 2 + 1).numpy(),
}  # fmt: skip


def _indices(place: Place) -> None:
    kinds = [k for k in ("int64", "int32") if place.plain.info.dtypes.get(calor.dtypes.as_dtype(k))]
    for turn in range(_PROGRAMS):
        rng = np.random.default_rng([place.seed, 61, turn])
        shape = tuple(int(n) for n in rng.integers(2, 6, int(rng.integers(1, 4))))
        fault = _fault(rng, shape)
        size = shape[fault.axis]
        bad = int(rng.choice([size, size + 3, -size - 1, -size - 4, 1000]))
        kind = str(rng.choice(kinds))
        index = np.zeros(int(rng.integers(1, 4)), kind)
        index[int(rng.integers(len(index)))] = bad
        wide = np.zeros(shape, kind)
        wide[tuple(int(rng.integers(n)) for n in shape)] = bad
        in_module = find_spec("calor_nn") is not None and bool(rng.integers(2))
        source, row, module = _program(rng, fault, in_module)
        mode = str(rng.choice(["lazy", "lazy", "eager", "jit", "jit after others"]))
        asked = str(rng.choice(list(_ASKS)))
        told = f"{mode}, {asked}:\n{source}"
        names: dict[str, Any] = {
            "calor": calor,
            "nn": import_module("calor_nn") if in_module else None,
        }
        file = f"/home/user/program{turn}.py"
        run = of_user(source, file=file, **names)["run"]
        _one(place, rng, run, mode, _ASKS[asked], (shape, index, wide),
             (fault, bad, size, line(row, file), module), told)  # fmt: skip


def _one(
    place: Place, rng: Rng, run: Any, mode: str, ask: Callable[[Any], Any],
    given: tuple[Any, Array, Array], want: tuple[_Fault, int, int, str, str | None], told: str,
) -> None:  # fmt: skip
    shape, index, wide = given
    fault, bad, size, at, module = want
    numbers = rng.integers(-9, 9, shape).astype(np.float32)

    def call(one: Any, index: Array, wide: Array) -> Any:
        arrays = numbers, index, wide, np.arange(17, dtype=np.float32), np.array([3, -2])
        return one(*map(calor.asarray, arrays))

    step = calor.jit(run) if mode.startswith("jit") else run
    if mode == "jit after others":
        for _ in range(2):
            call(step, index * 0, wide * 0).numpy()
    fine = calor.asarray(numbers) + 1
    with eagerly() if mode == "eager" else nullcontext():
        made: list[Any] = []

        def work() -> None:
            made.append(call(step, index, wide))
            ask(made[0])

        errors = [raised(work)]
    if made:
        errors.append(raised(lambda: made[0].numpy()))
    for error in errors:
        assert isinstance(error, ElementIndexError), f"{error!r}, {told}"
        assert error.op, f"the error names no op, {told}"
        assert _is_line(place, error.line, at), f"the line is {error.line}, not {at}, {told}"
        # Of several lines that are possible, each may call the axis otherwise.
        axis = fault.axis if error.line == at else error.axis
        found = error.index, error.axis, error.size
        assert found == (bad, axis, size), (
            f"index, axis and size are {found}, not {(bad, axis, size)}, {told}"
        )
        if error.line != at:
            continue
        assert error.call == fault.call, f"the call is {error.call}, not {fault.call}, {told}"
        assert error.module == module, f"the module is {error.module}, not {module}, {told}"
        text = str(error)
        words = [f"index {bad} is out of range for axis {fault.axis} of size {size}", at,
                 f"in op {error.op!r} of {fault.call}"]  # fmt: skip
        words += [f"in module {module}"] if module else []
        for word in words:
            assert word in text, f"{word!r} is not in {text!r}, {told}"
    assert (fine.numpy() == numbers + 1).all(), f"other work is lost, {told}"
    good = call(step, index * 0, wide * 0).numpy()
    assert np.isfinite(good).all(), f"after the error, {told}"


def _is_line(place: Place, found: str | None, wanted: str) -> bool:
    """Return whether a line is the wanted one, or one of several.

    A device with memory of its own tells later, when ops of other programs may have failed too.
    """
    if found == wanted or place.plain.info.feature("host_views"):
        return found == wanted
    first, _, listed = (found or "").partition("one of: ")
    named, *more = listed.split(" and ")
    lines = [one.partition(" in module ")[0] for one in named.split(", ")]
    return not first and (wanted in lines or bool(more))


def _alike(place: Place) -> None:
    """Of several reads that could have failed, the lines are told; of one alone, its line."""
    for turn in range(6):
        rng = np.random.default_rng([place.seed, 63, turn])
        count = int(rng.integers(1, 6))
        body, rows = [""] * int(rng.integers(3)), []
        for number in range(count):
            body += _lines(rng, 2)
            rows.append(line(len(body) + 2))
            body.append(f"y{number} = calor.take(x, i, axis=1)")
        made = ", ".join(f"y{n}" for n in range(count))
        source = "\n".join(["def run(x, i, long, good):", *(f"    {s}" for s in body),
                            f"    return [{made}]"])  # fmt: skip
        run = of_user(source, calor=calor)["run"]
        numbers = np.ones((2, 3), np.float32), np.array([7]), np.ones(17, np.float32), np.array([1])
        jitted = bool(rng.integers(2))
        step = calor.jit(run) if jitted else run
        chosen = int(rng.integers(count))

        def work(step: Any = step, numbers: Any = numbers, chosen: int = chosen) -> None:
            step(*map(calor.asarray, numbers))[chosen].numpy()

        error: Any = raised(work)
        more = f" and {count - 3} more" if count > 3 else ""
        want = f"one of: {', '.join(rows[:3])}{more}" if jitted and count > 1 else rows[chosen]
        right = error.line == want or _is_line(place, error.line, rows[chosen])
        assert right, f"the line is {error.line}, not {want}, of\n{source}"
        # A program that still lives is one of those that may have failed.
        del error, step, work


# Calls that are refused when they are recorded: the error, the op's name and words of the text.
_Misfit = tuple[str, type[CalorError], tuple[str, ...]]


def _misfit(rng: Rng) -> _Misfit:
    n, m, k = (int(v) for v in rng.permutation(np.arange(2, 9))[:3])
    rank = int(rng.integers(1, 4))
    axis = int(rng.choice([rank, rank + 2, -rank - 1]))
    shape = tuple(int(v) for v in rng.integers(1, 4, rank))
    match int(rng.integers(9)):
        case 0:
            return (
                f"calor.zeros(({n}, {m})) @ calor.zeros(({k}, {n}))",
                ShapeError,
                (f"{m}", f"{k}"),
            )
        case 1:
            return f"calor.zeros({n}) + calor.zeros({m})", ShapeError, (f"({n},)", f"({m},)")
        case 2:
            text = f"calor.zeros({shape}).sum(axis={axis})"
            return text, ShapeError, (f"axis {axis}",)
        case 3:
            return f"calor.zeros({n}).reshape({n + 1}, -1)", ShapeError, (f"{n}", f"{n + 1}")
        case 4:
            text = f"calor.concat([calor.zeros((1, {n})), calor.zeros((1, {m}))], axis=0)"
            return text, ShapeError, (f"{n}", f"{m}")
        case 5:
            text = f"calor.softmax(calor.zeros({shape}), axis={axis})"
            return text, ShapeError, (f"axis {axis}",)
        case 6:
            return f"calor.zeros({n}, dtype='int32') << calor.zeros({n})", DTypeError, ("float32",)
        case 7:
            return f"~calor.zeros({n})", DTypeError, ("float32",)
        case _:
            return (
                f"calor.permute_dims(calor.zeros({shape}), {(*range(rank), rank)})",
                ShapeError,
                (),
            )


def _forms(place: Place) -> None:
    with_modules = find_spec("calor_nn") is not None
    for turn in range(_MISFITS):
        rng = np.random.default_rng([place.seed, 62, turn])
        expression, kind, words = _misfit(rng)
        fault = _Fault(expression, "", 0)
        in_module = with_modules and bool(rng.integers(2))
        source, row, module = _program(rng, fault, in_module)
        names: dict[str, Any] = {
            "calor": calor,
            "nn": import_module("calor_nn") if in_module else None,
        }
        run = of_user(source, **names)["run"]
        good = calor.asarray(np.array([3]))
        given = calor.asarray(np.ones((2, 3), np.float32)), good, good, calor.zeros(17), good
        before = config.debug
        for debug in (False, True):
            config.debug = debug
            try:
                error = raised(partial(run, *given))
            finally:
                config.debug = before
            text = str(error)
            told = f"{text!r} of\n{source}"
            assert isinstance(error, kind), f"{type(error).__name__} {told}"
            assert error.module == module, f"the module is {error.module}, not {module}: {told}"
            assert module is None or text.endswith(f"in module {module}"), told
            for word in words:
                assert word in text, f"{word!r} is not in {told}"
            assert FILE not in text or debug or before, f"a line that nobody asked for: {told}"
            op, at = getattr(error, "op", None), getattr(error, "line", None)
            if op is not None:
                assert op in text, f"the op {op} is not in {told}"
                if debug:
                    assert at == line(row), f"the line is {at}, not {line(row)}: {told}"
                    assert f"recorded at {at}" in text, told


def told_errors() -> Iterator[Check]:
    """Yield checks of indices, of several that fail, and of operands that do not fit."""
    for subject, contract, run in (
        ("indices", INDICES, _indices), ("several", INDICES, _alike), ("operands", FORMS, _forms),
    ):  # fmt: skip
        yield Check(
            kind="errors",
            subject=f"told-{subject}",
            tier="full",
            contract=contract,
            run=run,
            text=partial(inspect.getsource, run),
            dtypes=(float32, int32, int64),
            looks=True,
        )
