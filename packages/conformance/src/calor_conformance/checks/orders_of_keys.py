"""Dictionaries whose keys come in another order: a value belongs to its key and not to its place.

Python's dictionaries are equal in any order of their keys. Trees of dictionaries are drawn, and
what goes with a tree (tangents, cotangents, axes, gradients, declared results, the next argument of
a program) is given with its keys turned at each level. Each leaf has a factor of its own, so what
is paired by places is another number.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import float32
from calor.errors import ShapeError
from calor.transforms.state import Stateful

from .base import Array, Check, Place

CONTRACT: Final = "what goes with a dictionary is found by its keys, in whatever order they come"
_TURNS, _SIDE, _NEAR = 6, 2, 1e-5
_KEYS: Final = ("b", "a", "weight", "0", 0, 1, "", "ä")
Rng = np.random.Generator
Path = tuple[Any, ...]
# A leaf by its path.
Leaves = dict[Path, Any]


def _drawn(rng: Rng, depth: int = 2) -> Any:
    """Return a tree of dictionaries, some within lists, with the number 0 for each leaf."""
    keys = [_KEYS[int(i)] for i in rng.permutation(len(_KEYS))[: int(rng.integers(2, 4))]]
    made = {key: _below(rng, depth - 1) for key in keys}
    return OrderedDict(made) if rng.random() < 0.25 else made


def _below(rng: Rng, depth: int) -> Any:
    kind = rng.random()
    if depth and kind < 0.4:
        return _drawn(rng, depth)
    return [0, _drawn(rng, 1)] if depth and kind < 0.6 else 0


def _filled(tree: Any, leaf: Callable[[Path], Any], path: Path = ()) -> Any:
    """Return the tree with a leaf of each path."""
    if isinstance(tree, dict):
        return type(tree)((k, _filled(v, leaf, (*path, k))) for k, v in tree.items())
    if isinstance(tree, list):
        return [_filled(v, leaf, (*path, i)) for i, v in enumerate(tree)]
    return leaf(path)


def _by_path(tree: Any, path: Path = ()) -> Leaves:
    if isinstance(tree, dict | list):
        items = tree.items() if isinstance(tree, dict) else enumerate(tree)
        return {p: x for k, v in items for p, x in _by_path(v, (*path, k)).items()}
    return {path: tree}


def _turned(tree: Any) -> Any:
    """Return the tree with the keys of every dictionary from the last to the first."""
    if isinstance(tree, dict):
        return type(tree)((k, _turned(v)) for k, v in reversed(tree.items()))
    return [_turned(v) for v in tree] if isinstance(tree, list) else tree


class _Held(Stateful):
    """An object with a tree in an attribute."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree


class _Turn:
    """A tree, a factor for each leaf, and trees of numbers of both orders of keys."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.form = _drawn(rng)
        paths = list(_by_path(self.form))
        self.factors = {
            p: float(i) for p, i in zip(paths, rng.permutation(len(paths)) + 2.0, strict=True)
        }

    def numbers(self, turned: bool = False) -> tuple[Any, dict[Path, Array]]:
        """Return a tree of tensors, and their numbers by paths."""
        known = {p: self.rng.integers(1, 9, _SIDE).astype(np.float32) for p in _by_path(self.form)}
        form = _turned(self.form) if turned else self.form
        return _filled(form, lambda p: calor.asarray(known[p])), known

    def times(self, tree: Any) -> Any:
        """Return the tree with each leaf times its factor, found by keys."""
        found = _by_path(tree)
        return _filled(tree, lambda p: found[p] * self.factors[p])

    def total(self, tree: Any) -> Any:
        """Return the sum over squares of leaves, each times its factor."""
        parts = [calor.sum(x * x) * self.factors[p] for p, x in _by_path(tree).items()]
        return sum(parts[1:], parts[0])

    def same(self, got: Any, want: dict[Path, Any], what: str, by: str = "") -> None:
        """Compare a tree with what is right by paths; ``by`` names what multiplies that."""
        found = _by_path(got)
        assert set(found) == set(want), f"{what}: the keys {list(found)}, not {list(want)}"
        for path, x in found.items():
            right = want[path] * self.factors[path] if by == "factor" else want[path]
            a = np.asarray(x.detach().numpy() if isinstance(x, calor.Tensor) else x)
            near = a.shape == np.shape(right) and np.allclose(a, right, rtol=_NEAR)
            assert near, f"{what}, at {list(path)}: {a.tolist()}, not {np.asarray(right).tolist()}"


def _jitted(t: _Turn) -> None:
    forms: dict[str, tuple[Callable[..., Any], Callable[[Any], tuple[Any, Any]]]] = {
        "an argument": (t.times, lambda x: ((x,), {})),
        "a keyword": (lambda *, tree: t.times(tree), lambda x: ((), {"tree": x})),
        "a part of a list": (lambda a: t.times(a[1]), lambda x: (([1.0, x],), {})),
        "an attribute": (lambda held: t.times(held.tree), lambda x: ((_Held(x),), {})),
    }
    for name, (function, given) in forms.items():
        ways = {"jitted": calor.jit(function)}
        if name == "an argument":
            ways["bound"] = calor.jit(lambda _, x: t.times(x)).bind(1.0)
        for way, call in ways.items():
            for turned in (False, True, False, True):
                x, known = t.numbers(turned)
                args, kwargs = given(x)
                got = call(*args, **kwargs)
                what = f"{name} of a {way} function"
                t.same(got, known, what, by="factor")
                assert list(got) == list(x), f"{what}: the keys {list(got)}, not {list(x)}"
    held = _Held(t.numbers()[0])
    program = calor.jit(lambda one: t.times(one.tree))
    for turned in (False, True, True, False):
        held.tree, known = t.numbers(turned)
        t.same(program(held), known, "an assigned attribute", by="factor")
    slope = calor.jit(calor.grad(t.total))
    for turned in (False, True):
        x, known = t.numbers(turned)
        t.same(slope(x), {p: 2 * a for p, a in known.items()}, "a jitted gradient", by="factor")


def _derivatives(t: _Turn) -> None:
    x, _ = t.numbers()
    moving, known = t.numbers(turned=True)
    t.same(calor.jvp(t.times, (x,), (moving,))[1], known, "jvp", by="factor")
    t.same(calor.linearize(t.times, x)[1](moving), known, "linearize", by="factor")
    pull = calor.vjp(t.times, x)[1]
    t.same(pull(moving)[0], known, "vjp", by="factor")
    # A part that is None stands for zeros.
    absent = next(iter(moving))
    left = {**moving, absent: None}
    parts = {p: a * (p[0] != absent) for p, a in known.items()}
    t.same(pull(left)[0], parts, "vjp of a part", by="factor")
    t.same(calor.jvp(t.times, (x,), (left,))[1], parts, "jvp of a part", by="factor")
    again = calor.grad(calor.checkpoint(lambda tree: t.total(_turned(tree))))
    x, known = t.numbers()
    t.same(again(x), {p: 2 * a for p, a in known.items()}, "checkpoint", by="factor")


def _rules(t: _Turn) -> None:
    """Rules of one's own return trees of the other order."""
    reverse = calor.custom_vjp(t.total)
    reverse.defvjp(
        lambda tree: (t.total(tree), tree), lambda kept, g: (_turned(_scaled(t, kept, g)),)
    )
    x, known = t.numbers()
    for name, slope in (("custom_vjp", calor.grad(reverse)),
                        ("jitted custom_vjp", calor.jit(calor.grad(reverse)))):  # fmt: skip
        t.same(slope(x), known, name, by="factor")
    forward = calor.custom_jvp(t.times)
    forward.defjvp(lambda given, moving: (t.times(given[0]), _turned(t.times(moving[0]))))
    moving, known = t.numbers(turned=True)
    t.same(calor.jvp(forward, (x,), (moving,))[1], known, "custom_jvp", by="factor")
    back = calor.vjp(forward, x)[1](moving)[0]
    t.same(back, known, "the transpose of custom_jvp", by="factor")

    def host(tree: Any) -> Any:
        found = _by_path(tree)
        return _turned(_filled(tree, lambda p: found[p] * np.float32(t.factors[p])))

    x, known = t.numbers()
    t.same(calor.callback(host, x, x), known, "callback", by="factor")
    called = calor.jit(lambda tree: calor.callback(host, tree, tree))
    t.same(called(x), known, "a jitted callback", by="factor")


def _scaled(t: _Turn, tree: Any, g: Any) -> Any:
    found = _by_path(tree)
    return _filled(tree, lambda p: found[p] * t.factors[p] * g)


def _mapped(t: _Turn) -> None:
    axes = {p: t.rng.choice((0, 1, -1)) for p in _by_path(t.form)}
    whole = {p: t.rng.integers(1, 9, (_SIDE, _SIDE)).astype(np.float32) for p in axes}
    x = _filled(t.form, lambda p: calor.asarray(whole[p]))
    along = _turned(_filled(t.form, lambda p: int(axes[p])))
    right = {p: np.moveaxis(a, int(axes[p]), 0) for p, a in whole.items()}
    t.same(calor.vmap(t.times, in_axes=(along,))(x), right, "in_axes", by="factor")
    made = calor.vmap(t.times, out_axes=along)(x)
    right = {p: np.moveaxis(a, 0, int(axes[p])) for p, a in whole.items()}
    t.same(made, right, "out_axes", by="factor")


def _trees(t: _Turn) -> None:
    (x, one), (y, other) = t.numbers(), t.numbers(turned=True)
    made = calor.tree.map(lambda a, b: a - 2 * b, x, y)
    t.same(made, {p: one[p] - 2 * other[p] for p in one}, "tree.map")


def _flows(t: _Turn) -> None:
    """Branches and carries of the other order are right, or refused."""
    x, known = t.numbers()

    def step(tree: Any) -> Any:
        return _turned(t.times(tree))

    flows: dict[str, Callable[[], Any]] = {
        "cond": lambda: calor.cond(calor.zeros(()) > 1, lambda tree: tree, step, x),
        "scan": lambda: calor.scan(lambda c, _: (step(c), None), x, length=1)[0],
        "fori_loop": lambda: calor.fori_loop(0, 1, lambda _, c: step(c), x),
    }  # fmt: skip
    for name, run in flows.items():
        try:
            made = run()
        except ShapeError:
            continue
        t.same(made, known, name, by="factor")


def _run(place: Place) -> None:
    parts = (_jitted, _derivatives, _rules, _mapped, _trees, _flows)
    for number in range(_TURNS):
        for part in parts:
            seed = [place.seed, crc32(b"orders of keys"), number, parts.index(part)]
            if place.tries(number, 3):
                part(_Turn(np.random.default_rng(seed)))


def orders_of_keys() -> Iterator[Check]:
    """Yield the check of orders of keys."""
    yield Check(
        kind="transforms",
        subject="orders-of-keys",
        tier="training",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _Turn),
        op="mul",
        dtypes=(float32,),
        looks=True,
    )
