"""Sessions of ONNX that run again with other elements in inputs that decide shapes and branches.

Targets of reshapes, bounds of slices, limits of ranges, counts of repeats and of loops, conditions
and places are inputs of a model. One session is run with drawn ones in a drawn order: at the same
sizes as before and at others, with elements that came before and with new ones. Each run gives what
NumPy gives, whatever the session has kept from the runs before.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

import numpy as np

from calor.dtypes import bool_, float32, int32, int64

from .base import Array, Check, Place
from .imported_models import PACKAGE, agree

CONTRACT: Final = "a session gives the same with an input whatever it was run with before"
_RUNS: Final = 7
Rng = np.random.Generator
Given = dict[str, Array]


def _whole(*values: Any) -> Array:
    return np.asarray(values, np.int64)


def _x(rng: Rng, rows: int, columns: int = 6) -> Array:
    return rng.integers(-9, 10, (rows, columns)).astype(np.float32)


class _Model(NamedTuple):
    """A model, its inputs, and what it means."""

    inputs: str
    output: str
    body: str
    draw: Callable[[Rng, int], Given]
    want: Callable[..., Array]
    constants: str = ""


def _target(rng: Rng, n: int) -> Given:
    same_rank = (n, 6), (6, n), (2, 3 * n), (3, 2 * n), (-1, 2), (2, -1)
    targets: tuple[tuple[int, ...], ...] = (*same_rank, (-1,), (n, 2, 3), (0, 3, 2))
    return {"x": _x(rng, n), "t": _whole(*targets[int(rng.integers(len(targets)))])}


def _reshaped(x: Array, t: Array) -> Array:
    return x.reshape([x.shape[k] if s == 0 else int(s) for k, s in enumerate(t.tolist())])


def _bounds(rng: Rng, n: int) -> Given:
    step = int(rng.choice((1, 2, -1, -2)))
    first, last = (int(v) for v in np.sort(rng.integers(-7, 8, 2)))
    first, last = (first, last) if step > 0 else (last, first)
    return {"x": _x(rng, n), "a": _whole(first), "b": _whole(last),
            "k": _whole(rng.integers(2)), "s": _whole(step)}  # fmt: skip


def _sliced(x: Array, a: Array, b: Array, k: Array, s: Array) -> Array:
    size, step = x.shape[int(k[0])], int(s[0])
    first, last = (v + size if v < 0 else v for v in (int(a[0]), int(b[0])))
    # ONNX takes the first place as one of the axis where NumPy finds nothing before it.
    low, high = (0, size) if step > 0 else (-1, size - 1)
    first, last = min(max(first, 0), high), min(max(last, low), high)
    return x.take(list(range(first, last, step)), int(k[0]))


def _limits(rng: Rng, n: int) -> Given:
    step = int(rng.choice((1, 2, 3, -1)))
    first, last = int(rng.integers(-3, 4)), int(rng.integers(-3, 12))
    return {"a": np.asarray(first, np.int64), "b": np.asarray(last, np.int64),
            "s": np.asarray(step, np.int64)}  # fmt: skip


def _looped(x: Array, n: Array, c: Array) -> Array:
    made = x
    for k in range(int(n) if bool(c) else 0):
        made = made * 2 + np.float32(k)
        if made.max() > 500:
            break
    return made


def _count(rng: Rng, n: int) -> Given:
    return {"x": _x(rng, n), "n": np.asarray(rng.integers(6), np.int64),
            "c": np.asarray(rng.random() < 0.8)}  # fmt: skip


def _halves(rng: Rng, n: int) -> Given:
    """Sizes in float numbers decide, after arithmetic, where a slice ends."""
    return {"x": _x(rng, n), "f": np.asarray([rng.integers(1, 7) / 2], np.float32)}


_LOOP: Final = """
    y = Loop <body = body (int64 k, bool go, float[N,6] v) => (bool on, float[N,6] w) {
        two = Constant <value = float {2.0}> ()
        most = Constant <value = float {500.0}> ()
        kf = Cast <to = 1> (k)
        twice = Mul (v, two)
        w = Add (twice, kf)
        top = ReduceMax <keepdims = 0> (w)
        over = Greater (top, most)
        on = Not (over)
    }> (n, c, x)"""
_IF: Final = """
    y = If <
        then_branch = one () => (float[A,B] p) { p = Transpose <perm = [1, 0]> (x) },
        else_branch = other () => (float[A,B] q) { q = Add (x, x) }
    > (c)"""
MODELS: Final[dict[str, _Model]] = {
    "Reshape": _Model("float[N,6] x, int64[K] t", "float y", "y = Reshape (x, t)",
                      _target, _reshaped),
    "Slice": _Model("float[N,6] x, int64[1] a, int64[1] b, int64[1] k, int64[1] s", "float[A,B] y",
                    "y = Slice (x, a, b, k, s)", _bounds, _sliced),
    "Range": _Model("int64 a, int64 b, int64 s", "int64[M] y", "y = Range (a, b, s)", _limits,
                    lambda a, b, s: np.asarray(range(int(a), int(b), int(s)), np.int64)),
    "Tile": _Model(
        "float[N,6] x, int64[2] t", "float[A,B] y", "y = Tile (x, t)",
        lambda rng, n: {"x": _x(rng, n), "t": rng.integers(0, 4, 2).astype(np.int64)},
        lambda x, t: np.tile(x, t)),
    "Expand": _Model(
        "float[N,1] x, int64[K] t", "float y", "y = Expand (x, t)",
        lambda rng, n: {"x": _x(rng, n, 1), "t": (_whole(n, 3), _whole(1, 4), _whole(2, n, 2),
                                                  _whole(5))[int(rng.integers(4))]},
        lambda x, t: np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(t)))),
    "ConstantOfShape": _Model(
        "int64[K] t", "float y", "y = ConstantOfShape <value = float[1] {2.5}> (t)",
        lambda rng, n: {"t": rng.integers(0, 4, int(rng.integers(1, 4))).astype(np.int64)},
        lambda t: np.full(tuple(t), 2.5, np.float32)),
    "If": _Model(
        "float[N,6] x, bool c", "float[A,B] y", _IF,
        lambda rng, n: {"x": _x(rng, n), "c": np.asarray(rng.random() < 0.5)},
        lambda x, c: x.T if c else x + x),
    "Loop": _Model("float[N,6] x, int64 n, bool c", "float[N,6] y", _LOOP, _count, _looped),
    "Gather": _Model(
        "float[N,6] x, int64[K] i", "float[K,6] y", "y = Gather <axis = 0> (x, i)",
        lambda rng, n: {"x": _x(rng, n), "i": rng.integers(-n, n, int(rng.choice((2, 3)))).astype(
            np.int64)},
        lambda x, i: x[i]),
    "gathered size": _Model(
        "float[N,6] x, int64 i", "float y",
        "s = Shape (x)\nd = Gather <axis = 0> (s, i)\nu = Unsqueeze (d, z)\n"
        "t = Concat <axis = 0> (u, m)\ny = Reshape (x, t)",
        lambda rng, n: {"x": _x(rng, n), "i": np.asarray(rng.integers(-2, 2), np.int64)},
        lambda x, i: x.reshape(x.shape[int(i)], -1), "int64[1] z = {0}, int64[1] m = {-1}"),
    "computed bound": _Model(
        "float[N,6] x, float[1] f", "float[A,B] y",
        "g = Mul (f, two)\nb = Cast <to = 7> (g)\ny = Slice (x, z, b, one)", _halves,
        lambda x, f: x[:, : int(f[0] * 2)],
        "float[1] two = {2.0}, int64[1] z = {0}, int64[1] one = {1}"),
    "Pad": _Model(
        "float[N,6] x, int64[4] p", "float[A,B] y", "y = Pad (x, p)",
        lambda rng, n: {"x": _x(rng, n), "p": rng.integers(0, 3, 4).astype(np.int64)},
        lambda x, p: np.pad(x, ((p[0], p[2]), (p[1], p[3])))),
    "TopK": _Model(
        "float[N,6] x, int64[1] k", "float[N,M] y", "y, i = TopK (x, k)",
        lambda rng, n: {"x": _x(rng, n), "k": _whole(rng.integers(1, 7))},
        lambda x, k: -np.sort(-x, -1)[:, : int(k[0])]),
    "Split": _Model(
        "float[N,6] x, int64[2] s", "float[N,M] y", "y, o = Split <axis = 1> (x, s)",
        lambda rng, n: {"x": _x(rng, n), "s": (lambda k: _whole(k, 6 - k))(rng.integers(1, 6))},
        lambda x, s: x[:, : int(s[0])]),
    "CumSum": _Model(
        "float[N,6] x, int64 k", "float[N,6] y", "y = CumSum (x, k)",
        lambda rng, n: {"x": _x(rng, n), "k": np.asarray(rng.integers(-2, 2), np.int64)},
        lambda x, k: x.cumsum(int(k), dtype=np.float32)),
    "ReduceSum": _Model(
        "float[N,6] x, int64[K] k", "float y", "y = ReduceSum <keepdims = 1> (x, k)",
        lambda rng, n: {"x": _x(rng, n), "k": (_whole(0), _whole(1), _whole(-1), _whole(0, 1))[
            int(rng.integers(4))]},
        lambda x, k: x.sum(tuple(k.tolist()), keepdims=True)),
    "OneHot": _Model(
        "int64[K] i, int64 d, float[2] v", "float[K,D] y", "y = OneHot (i, d, v)",
        lambda rng, n: {"i": rng.integers(0, 3, 3).astype(np.int64),
                        "d": np.asarray(rng.integers(3, 6), np.int64),
                        "v": rng.integers(-3, 4, 2).astype(np.float32)},
        lambda i, d, v: np.where(np.arange(int(d)) == i[:, None], v[1], v[0])),
    "Trilu": _Model(
        "float[N,6] x, int64 k", "float[N,6] y", "y = Trilu <upper = 1> (x, k)",
        lambda rng, n: {"x": _x(rng, n), "k": np.asarray(rng.integers(-3, 4), np.int64)},
        lambda x, k: np.triu(x, int(k))),
}  # fmt: skip
_HEAD: Final = '<ir_version: 9, opset_import: ["" : 19]>'


def proto_of(model: _Model) -> Any:
    """Return a model in ONNX's form."""
    from onnx import parser

    held = f"<{model.constants}>" if model.constants else ""
    text = f"{_HEAD} made ({model.inputs}) => ({model.output}) {held} {{ {model.body} }}"
    return parser.parse_model(text)


def _first(loaded: Any, given: Given) -> Any:
    return next(iter(loaded.run(given).values()))


def _run(name: str, number: int, place: Place) -> None:
    package, model = import_module(PACKAGE), MODELS[name]
    rng = np.random.default_rng([place.seed, 816, number])
    proto, sizes = proto_of(model), rng.permutation(range(1, 6))[:2].tolist()
    forms: dict[str, Callable[[Given], Any]] = {}
    for simplify in (True, False):
        loaded = package.load(proto, device=place.device, simplify=simplify)
        forms[f"simplified {simplify}"] = partial(_first, loaded)
    session = package.InferenceSession(proto.SerializeToString(), providers=[place.plain.name])
    forms["session"] = lambda given: session.run(None, given)[0]
    for way, run in forms.items():
        before: list[Given] = []
        for _ in range(_RUNS if place.interpreted else 4):
            again = bool(before) and rng.random() < 0.25
            given = (
                before[int(rng.integers(len(before)))]
                if again
                else model.draw(rng, int(rng.choice(sizes)))
            )
            before.append(given)
            told = [{n: a.tolist() for n, a in g.items() if n != "x"} for g in before]
            what = f"the {way} of {name} run with {told}, the last beside {given.get('x')}"
            agree(run(given), np.asarray(model.want(**given)), what)


def sessions_again() -> Iterator[Check]:
    """Yield a check of each model, if the packages are installed."""
    if find_spec(PACKAGE) is None or find_spec("onnx") is None:
        return
    for number, name in enumerate(MODELS):
        yield Check(
            kind="functions",
            subject=f"{PACKAGE}.sessions-again-{name.replace(' ', '-')}",
            tier="full",
            contract=CONTRACT,
            run=partial(_run, name, number),
            text=partial(inspect.getsource, _run),
            dtypes=(float32, int32, int64, bool_),
            looks=True,
        )
