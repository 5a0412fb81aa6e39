"""Options of layers: each reaches the function that the layer stands for, whatever its value.

A layer and a function of one name are a pair. Every option that both have gets values that are not
its default, alone and with others, and weights are drawn. The call of the layer gives the bits of
the call of the function with the same options.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import bool_, float32, int64
from calor.errors import CalorError

from ..rows.functions.printed import GIVEN
from .base import Check, Place
from .evaluated_modules import PACKAGE, fitting

CONTRACT: Final = "a layer is its function with the options that the layer was made with"
_TURNS: Final = 6
_COMPILED: Final = 12
_REFUSED: Final = (CalorError, TypeError, ValueError, IndexError, NotImplementedError)
# What a layer computes of other things than its operands and options.
_LEFT_OUT: Final = frozenset(("dtype", "device", "size_average", "reduce", "inplace", "init"))
_WORDS: Final = {
    "reduction": ("sum", "none", "mean"), "padding_mode": ("zeros",),
    "mode": ("sum", "max", "mean"), "approximate": ("none", "tanh"),
}  # fmt: skip
_TENSORS: Final = frozenset(("bias", "in_proj_bias"))
Rng = np.random.Generator


def _plain(name: str) -> str:
    return name.replace("_", "").lower().removesuffix("loss")


@cache
def _pairs() -> list[tuple[str, Any, Any]]:
    """Return the layers with a function of their name: name, class and function."""
    package = import_module(PACKAGE)
    functions = {_plain(n): getattr(package.functional, n) for n in package.functional.__all__}
    return [(name, getattr(package, name), functions[_plain(name)])
            for name in sorted(package.__all__)
            if inspect.isclass(getattr(package, name)) and _plain(name) in functions]  # fmt: skip


def _drawn(rng: Rng, name: str, default: Any) -> Any:
    """Return a value of an option, which is another one than its default; None if none is known."""
    if isinstance(default, bool):
        return not default
    if isinstance(default, int):
        return default + int(rng.integers(1, 3))
    if isinstance(default, float):
        return float(np.round(default * 0.5 + rng.integers(1, 7) / 8, 4))
    if isinstance(default, str):
        return str(rng.choice(_WORDS[name])) if name in _WORDS else None
    return None


def _weighed(rng: Rng, name: str, width: int) -> Any:
    if name in ("weight", "pos_weight"):
        return calor.asarray(np.asarray(rng.random(width) + 0.5, np.float32))
    return None


def _layer(kind: Any, shared: list[str], rng: Rng, turn: int) -> tuple[Any, dict[str, Any]] | None:
    """Return a layer with some options that its function has too, and these options."""
    every = inspect.signature(kind).parameters
    needed = {n: GIVEN[n] for n, p in every.items() if p.default is p.empty and n in GIVEN}
    chosen: dict[str, Any] = {}
    for number, name in enumerate(shared):
        if name in needed or every[name].default is inspect.Parameter.empty:
            continue
        # Each option is given alone, and later with others.
        wanted = number == turn % len(shared) if turn < len(shared) else rng.random() < 0.6
        value = _drawn(rng, name, every[name].default) if wanted else None
        if wanted and every[name].default is None:
            value = _weighed(rng, name, 4)
        if value is not None:
            chosen[name] = value
    try:
        return kind(**needed, **chosen), {**needed, **chosen}
    except _REFUSED:
        return None


def _further(layer: Any, rng: Rng) -> list[Any] | None:
    """Return operands of a loss of three, or of one with labels or signs."""
    x, y, z = (np.asarray(rng.normal(size=(2, 4)), np.float32) for _ in range(3))
    labels, signs = rng.integers(0, 4, 2), np.array([1.0, -1.0], np.float32)
    for given in ((x, labels), (x, y, signs), (x[:, 0], y[:, 0], signs), (x, y, np.abs(z) + 0.5),
                  (x, y, z), (x, rng.integers(0, 4, (2, 4)))):  # fmt: skip
        operands = [calor.asarray(one) for one in given]
        try:
            layer(*operands)
        except _REFUSED:
            continue
        return operands
    return None


def _compare(name: str, kind: Any, function: Any, rng: Rng, turn: int) -> bool:
    """Call a layer and its function; return whether both take operands of one form."""
    wide = inspect.signature(function).parameters
    shared = [n for n in inspect.signature(kind).parameters if n in wide and n not in _LEFT_OUT]
    found = _layer(kind, shared, rng, turn) if shared else None
    if found is None:
        return False
    layer, options = found
    if hasattr(layer, "eval"):
        layer = layer.eval()
    for tensor in layer.parameters():
        with calor.no_grad():
            tensor[...] = calor.asarray(np.asarray(rng.random(tensor.shape) + 0.25, np.float32))
    operands = fitting(layer, rng) or _further(layer, rng)
    if operands is None:
        return False
    names = list(wide)[len(operands) :]
    held = {n: getattr(layer, n) for n in names if n in dir(layer)}
    # A weight or bias is asked for by a truth, and given as a tensor.
    given = {n: v for n, v in options.items() if n in names and n not in _TENSORS}
    more = {**held, **given}
    try:
        want = function(*operands, **more)
    except _REFUSED:
        return False
    got = layer(*operands)
    what = f"{name}(**{options}) and its function with {sorted(more)}"
    for a, b in zip(calor.tree.leaves(got), calor.tree.leaves(want), strict=True):
        same = a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()
        assert same, f"{what}: {a.tolist()}, not {b.tolist()}"
    return True


def _run(place: Place) -> None:
    compared = set()
    for number, (name, kind, function) in enumerate(_pairs()):
        if not place.tries(number, _COMPILED):
            continue
        for turn in range(_TURNS):
            rng = np.random.default_rng([place.seed, number, turn, 233])
            if _compare(name, kind, function, rng, turn):
                compared.add(name)
    assert not place.interpreted or len(compared) > 20, f"only {sorted(compared)} were compared"


def options_of_layers() -> Iterator[Check]:
    """Yield the check, if the package of layers is installed."""
    if find_spec(PACKAGE) is not None:
        yield Check(
            kind="modules",
            subject="options-of-layers",
            tier="full",
            contract=CONTRACT,
            run=_run,
            text=partial(inspect.getsource, _compare),
            dtypes=(float32, int64, bool_),
            looks=True,
        )
