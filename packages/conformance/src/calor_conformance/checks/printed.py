"""What is printed: tensors as NumPy prints arrays, modules as the calls that make them.

Shapes, dtypes, numbers and NumPy's print options are drawn; the text is made again here from the
array. A module's line is evaluated, and makes a module of the same line, state and settings.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import ALL, DType, bool_, complex64, float32, int32, int64
from calor.errors import CalorError

from ..rows.functions.printed import GIVEN, PRINTED
from .base import Array, Check, Place
from .capsules import OWN

TENSORS: Final = "a tensor is printed as NumPy prints its numbers, with what else it is"
MODULES: Final = "a module is printed as the call that makes it, below it what it holds"
_TURNS: Final = 40
_SHAPES: Final = ((), (1,), (0,), (3,), (2, 0), (2, 3), (40,), (1500,), (3, 400), (30, 41),
                  (7, 9, 8), (1, 2, 700))  # fmt: skip
Rng = np.random.Generator


def _numbers(rng: Rng, dtype: DType, shape: tuple[int, ...]) -> Array:
    if dtype is bool_:
        return np.asarray(rng.random(shape) < 0.5)
    made = np.asarray(rng.normal(size=shape) * 10.0 ** rng.integers(-3, 5))
    if dtype.is_complex:
        made = made + 1j * rng.integers(-5, 5, shape)
    if dtype.kind == "uint":
        made = np.abs(made) % 100
    with np.errstate(all="ignore"):
        found = np.asarray(np.clip(made.real, -100, 100) if dtype.is_integer else made)
        found = found.astype(dtype.numpy)
    if dtype.kind in ("float", "complex") and found.size and rng.random() < 0.3:
        found.reshape(-1)[int(rng.integers(found.size))] = float(
            rng.choice([np.nan, np.inf, -np.inf, -0.0])
        )
    return found


def _text(array: Array, dtype: DType, marks: list[str]) -> str:
    """Return what is printed of an array."""
    narrow = dtype.name in OWN
    shown = array.astype(np.float32) if narrow else array
    body = np.array2string(shown, separator=", ", prefix="tensor(", precision=4 if narrow else None)
    options = np.get_printoptions()
    parts = []
    if array.size > options["threshold"] or (not array.size and array.ndim > 1):
        parts.append(f"shape={array.shape}")
    if dtype not in (float32, int64, bool_, complex64):
        parts.append(f"dtype={dtype.name}")
    text = f"tensor({body}"
    for part in [*parts, *marks]:
        last = text.rpartition("\n")[2]
        room = options["linewidth"] - len(last) - len(part) - 3
        text += f", {part}" if room >= 0 else f",\n       {part}"
    return f"{text})"


def _tensors(place: Place) -> None:
    kinds = [d for d in ALL if place.plain.info.dtypes.get(d)]
    for turn in range(_TURNS):
        rng = np.random.default_rng([place.seed, 81, turn])
        dtype = kinds[int(rng.integers(len(kinds)))]
        array = _numbers(rng, dtype, _SHAPES[int(rng.integers(len(_SHAPES)))])
        learns = dtype.kind in ("float", "complex") and bool(rng.random() < 0.3)
        x = calor.asarray(array)
        marks = []
        if learns:
            x.requires_grad = True
            marks.append("requires_grad=True")
        # Beside usual options those at which a text begins to be another: as many elements, as
        # wide a line.
        near = max(array.size + int(rng.integers(-1, 2)), 0)
        options: Any = {
            "threshold": int(rng.choice([5, 50, 1000, near, near])),
            "edgeitems": int(rng.integers(1, 5)),
            "linewidth": int(rng.choice([40, 75, 120])), "precision": int(rng.integers(2, 9)),
            "suppress": bool(rng.integers(2)), "sign": str(rng.choice(["-", " ", "+"])),
        }  # fmt: skip
        if rng.random() < 0.4:
            with np.printoptions(**{**options, "linewidth": 10_000}):
                widest = max(map(len, _text(array, dtype, marks).split("\n")))
            options["linewidth"] = max(widest + int(rng.integers(-2, 3)), 12)
        with np.printoptions(**options):
            want = _text(array, dtype, marks)
            for name, way in (("repr", repr), ("str", str), ("format", format)):
                if name == "format" and not array.ndim:
                    continue
                got = way(x)
                assert got == want, f"{name} by {options} is\n{got}\nnot\n{want}"
    _formats(place, np.random.default_rng([place.seed, 82]))
    _others(place, np.random.default_rng([place.seed, 83]))


def _formats(place: Place, rng: Rng) -> None:
    number = round(float(rng.normal() * 100), 3)
    x = calor.asarray(np.asarray(number, np.float32))
    for spec in ("", ".2f", "8.1f", "e", "+.3g"):
        want = format(float(np.float32(number)), spec)
        assert format(x, spec) == want, f"{spec!r} of {number} is {format(x, spec)!r}, not {want!r}"
    n = calor.asarray(np.asarray(7))
    assert f"{n:03d} {n}" == "007 7", f"{n:03d} {n}"
    for spec in (".2f", "d"):
        try:
            format(calor.zeros((2, 3)), spec)
        except TypeError as error:
            said = str(error)
        else:
            raise AssertionError(f"{spec!r} of a matrix is formatted")
        assert repr(spec) in said, said
        assert "(2, 3)" in said, said
    traced: list[str] = []

    def look(a: Any) -> Any:
        traced.extend((repr(a), str(a * 2), f"{a}"))
        return a

    calor.jit(look)(calor.ones((2, 3)))
    assert traced == ["traced float32[2, 3]"] * 3, f"within jit a tensor is {traced}"


def _others(place: Place, rng: Rng) -> None:
    for dtype in ALL:
        told = repr(dtype), str(dtype)
        assert told == (f"calor.{dtype.name}", dtype.name), f"{told} of {dtype.name}"
    seed = int(rng.integers(1 << 20))
    stream = calor.random.Generator(seed)
    assert repr(stream) == f"Generator(seed={seed})", repr(stream)
    tree = {"a": [1, (2, None)], "b": 3}
    structure = calor.tree.flatten(tree)[1]
    assert repr(structure) == "dict('a': list(*, tuple(*, NoneType())), 'b': *)", repr(structure)
    step = calor.jit(lambda a: a + 1)
    for count in range(1, 4):
        step(calor.zeros(2, dtype=("float32", "int32", "int64")[count - 1]))
        assert f" {count} trace{'s' * (count != 1)}>" in repr(step), f"{step!r} of {count} traces"
    if place.plain is not calor.zeros(1).device:
        return
    there = calor.device("numpy")
    with there:
        other = calor.zeros(2)
    with calor.device(place.plain):
        same = other.device is place.plain
        assert ("device='numpy:0'" in repr(other)) is not same, repr(other)
    with calor.device("numpy"):
        mine = calor.asarray(np.zeros(2, np.float32), device=place.plain)
        assert (f"device='{place.plain.name}'" in repr(mine)) is not same, repr(mine)


def _drawn(rng: Rng, default: Any) -> Any:
    """Return another value of an option than its default; None where none is known."""
    if type(default) is bool:
        return not default
    if type(default) is int:
        return default + int(rng.integers(1, 3))
    other = round(float(rng.integers(1, 5)) / 8, 4)
    return default * 0.5 + other if type(default) is float else None


def _line(nn: Any, kind: Any, options: dict[str, Any], names: list[str], told: str) -> None:
    module = kind(**options)
    text = repr(module)
    call: Any = ast.parse(text, mode="eval").body
    plain = {n: getattr(nn, n) for n in nn.__all__}
    made = eval(text, plain)
    assert repr(made) == text, f"{text} makes {made!r}, {told}"
    places = [ast.literal_eval(a) for a in call.args]
    said = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
    bound = inspect.signature(kind).bind(*places, **said).arguments
    assert list(bound) == names, f"{text} says {list(bound)}, not {names}, {told}"
    for name, value in bound.items():
        if name in options and not isinstance(value, tuple):
            assert value == options[name], f"{text} says {name} is {value}, {told}"
    for name in bound:
        if name in vars(module):
            ours, theirs = vars(module)[name], vars(made)[name]
            same = ours is theirs or isinstance(ours, calor.Tensor) or ours == theirs
            assert same, f"{text} makes one of {name} {theirs}, not {ours}, {told}"


def _modules(place: Place) -> None:
    nn = import_module("calor_nn")
    for said, classes in PRINTED.items():
        for number, name in enumerate(classes.split()):
            rng = np.random.default_rng([place.seed, 84, number])
            kind = getattr(nn, name)
            every = inspect.signature(kind).parameters
            needed = {n: GIVEN[n] for n, p in every.items() if p.default is p.empty and n in GIVEN}
            if name == "Fold":
                needed["output_size"] = (4, 5)
            _line(nn, kind, needed, said.split(), "with what it needs")
            drawn = {n: _drawn(rng, every[n].default) for n in said.split() if n not in needed}
            for n, value in drawn.items():
                if value is not None:
                    try:
                        _line(nn, kind, {**needed, n: value}, said.split(), f"with {n}={value}")
                    except CalorError:
                        # The value does not go with the others.
                        continue
    _trees(nn, np.random.default_rng([place.seed, 85]))
    if find_spec("calor_train") is not None:
        _optimizers(nn, import_module("calor_train"), np.random.default_rng([place.seed, 86]))


def _grown(nn: Any, rng: Rng, depth: int) -> tuple[Any, list[str]]:
    """Return a module and the lines that are printed of it."""
    kind = int(rng.integers(4)) if depth else 3
    if kind == 3:
        ends = [int(n) for n in rng.integers(1, 5, 2)]
        leaf = (nn.Linear(*ends), nn.Tanh(), nn.Dropout(0.25))[int(rng.integers(3))]
        return leaf, [repr(leaf)]
    parts = [_grown(nn, rng, depth - 1) for _ in range(int(rng.integers(1, 4)))]
    names = [str(k) for k in range(len(parts))]
    if kind == 0:
        made = nn.Sequential(*(p for p, _ in parts))
    elif kind == 1:
        made = nn.ModuleList([p for p, _ in parts])
    else:
        names = [f"part{k}" for k in range(len(parts))]
        made = nn.ModuleDict(dict(zip(names, (p for p, _ in parts), strict=True)))
    lines = [f"{type(made).__name__}("]
    for name, (_, inside) in zip(names, parts, strict=True):
        first, *rest = inside
        lines += [f"  ({name}): {first}", *(f"  {line}" for line in rest)]
    return made, [*lines, ")"]


def _trees(nn: Any, rng: Rng) -> None:
    for _ in range(6):
        made, lines = _grown(nn, rng, 3)
        assert repr(made).split("\n") == lines, f"{made!r}\nnot\n" + "\n".join(lines)
    _summaries(nn, rng)


def _summaries(nn: Any, rng: Rng) -> None:
    """The table of a model: a line for each module, what it holds, and the sums."""
    first, middle, last, batch = (int(n) for n in rng.integers(2, 40, 4))
    tied = nn.Linear(middle, middle)
    other = nn.Linear(middle, middle)
    other.weight = tied.weight
    inside = nn.Sequential(tied, nn.BatchNorm1d(middle), other)
    frozen = nn.Linear(middle, last)
    frozen.requires_grad_(False)
    model = nn.Sequential(nn.Linear(first, middle), inside, frozen)
    state = {n: t.numpy() for n, t in model.state_dict().items()}
    text = model.summary((batch, first))
    assert all((t.numpy() == state[n]).all() for n, t in model.state_dict().items()), "state moved"
    assert text == nn.summary(model, calor.zeros((batch, first))), "a shape and a tensor differ"
    head, *lines = text.split("\n")
    assert head.split() == ["layer", "output", "parameters", "bytes"], head
    wide, end = f"[{batch}, {middle}]", f"[{batch}, {last}]"
    counts = [first * middle + middle, None, middle * middle + middle, 2 * middle, middle, None]
    wants = [
        ("Sequential", end, ""),
        (f"  0: Linear({first}, {middle}, bias=True)", wide, _count(counts[0])),
        ("  1: Sequential", wide, ""),
        (f"    0: Linear({middle}, {middle}, bias=True)", wide, _count(counts[2])),
        (f"    1: {inside[1]!r}", wide, _count(counts[3])),
        (f"    2: Linear({middle}, {middle}, bias=True)", wide,
         f"{middle:,} (tied) {4 * middle:,}"),
        (f"  2: Linear({middle}, {last}, bias=True)", end, _count(middle * last + last)),
    ]  # fmt: skip
    for line, (title, shape, count) in zip(lines, wants, strict=False):
        want = " ".join(f"{title} {shape} {count}".split())
        assert " ".join(line.split()) == want, f"{line!r}, not {want!r}"
        indent = len(title) - len(title.lstrip())
        assert len(line) - len(line.lstrip()) == indent, f"{line!r} is not {indent} in"
    total, stopped = model.num_parameters(), middle * last + last
    nbytes = sum(t.nbytes for t in (*model.parameters(), *model.buffers()))
    held = sum(t.nbytes for t in model.buffers())
    sums = [f"parameters: {total:,} ({stopped:,} frozen)",
            f"bytes: {nbytes:,} ({held:,} in buffers)"]  # fmt: skip
    assert lines[len(wants) :] == ["", *sums], f"{lines[len(wants) :]}, not {sums}"
    assert "output" not in nn.summary(model), "shapes of no call"


def _count(count: Any) -> str:
    return f"{count:,} {4 * count:,}"


def _optimizers(nn: Any, train: Any, rng: Rng) -> None:
    layer = nn.Linear(2, 3)
    rates = [round(float(r), 3) for r in rng.uniform(0.01, 1, 2)]
    for name in ("SGD", "Adam", "AdamW", "RMSprop", "NAdam", "Rprop"):
        groups = [{"params": [layer.weight], "lr": rates[0]}, {"params": [layer.bias]}]
        made = getattr(train, name)(groups, lr=rates[1])
        first, *lines, last = repr(made).split("\n")
        assert (first, last, len(lines)) == (f"{name} (", ")", 2), repr(made)
        for line, group, rate in zip(lines, made.param_groups, rates, strict=True):
            numbers = ", ".join(f"{n}={group[n]}" for n in group.hyperparameters())
            assert line == f"  1 parameters: {numbers}", line
            assert f"lr={rate}," in line, line
        assert made.lr == rates[0], f"lr is {made.lr}, not {rates[0]}"
        made.lr = 0.75
        assert [g["lr"] for g in made.param_groups] == [0.75, 0.75], "lr of all groups"


def printed() -> Iterator[Check]:
    """Yield a check of tensors, and one of modules if their package is installed."""
    subjects: dict[str, tuple[str, Callable[[Place], None]]] = {"tensors": (TENSORS, _tensors)}
    if find_spec("calor_nn") is not None:
        subjects["modules"] = (MODULES, _modules)
    for subject, (contract, run) in subjects.items():
        yield Check(
            kind="functions",
            subject=f"printed-{subject}",
            tier="full",
            contract=contract,
            run=run,
            text=partial(inspect.getsource, run),
            dtypes=(float32, int32, int64, bool_),
            looks=True,
        )
