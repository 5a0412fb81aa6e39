"""Parts of operands that nothing reads: what stands there changes no result, and has no gradient.

One triangle of a factor, elements that no window covers, rows that no index names, and the operand
of `where` that is not chosen are not read, so NaN there stays there. Hidden keys, padding and what
is past a length weigh nothing: any finite number may stand there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import bool_, float32, int64
from calor.ops.base import TABLE

from .base import Array, Check, Place

CONTRACT: Final = "what is not read, or hidden, changes no result and has a gradient of zero"
_TURNS: Final = 2
# These are long programs.
_LONG: Final = ("ldl_factor", "ctc")
_NAN: Final = (np.nan, np.inf, -np.inf)
_FINITE: Final = (1e4, -3e4, 7.5)
_SIDES: Final = (2, 3, 5, 8, 17)
Rng = np.random.Generator


@dataclass
class Unread:
    """A function of operands, and where each of them is not read.

    Parameters
    ----------
    function : callable
        A function of tensors.
    operands : list of ndarray
        The operands.
    unread : list of ndarray
        Where each is not read; of fewer, the rest is read whole.
    junk : tuple of float, optional
        What may stand there.
    shared : bool, default False
        Whether a gradient is given to both triangles, of which one is read.
    """

    function: Callable[..., Any]
    operands: list[Array]
    unread: list[Array]
    junk: tuple[float, ...] = _NAN
    shared: bool = False


def _side(rng: Rng) -> int:
    return int(rng.choice(_SIDES))


def _normal(rng: Rng, *shape: int) -> Array:
    return np.asarray(rng.normal(size=shape), np.float32)


def _matrix(rng: Rng, n: int) -> Array:
    """Return one or several positive definite matrices."""
    lead = () if rng.random() < 0.5 else (2,)
    noise = rng.normal(size=(*lead, n, n))
    made = noise @ noise.swapaxes(-1, -2) / n + 2 * np.eye(n)
    return np.asarray(made + np.diag(3.0 * np.arange(n)), np.float32)


def _triangle(x: Array, lower: bool, strict: bool = True) -> Array:
    """Return the places of one triangle, without the diagonal if strict."""
    ones = np.ones(x.shape[-2:], np.bool_)
    made = np.tril(ones, -1 if strict else 0) if lower else np.triu(ones, 1 if strict else 0)
    return np.broadcast_to(made, x.shape)


def _linalg(name: str) -> Any:
    return getattr(import_module("calor_linalg"), name)


def _cholesky(rng: Rng) -> Unread:
    x, upper = _matrix(rng, _side(rng)), bool(rng.random() < 0.5)
    run = partial(_linalg("cholesky"), upper=upper)
    return Unread(run, [x], [_triangle(x, upper)], shared=True)


def _eigh(rng: Rng) -> Unread:
    x, only = _matrix(rng, _side(rng)), bool(rng.random() < 0.5)
    # Vectors have a sign of their own, which their squares have not.
    pair = lambda t: (lambda w, v: (w, v * v))(*_linalg("eigh")(t))  # noqa: E731
    return Unread(_linalg("eigvalsh") if only else pair, [x], [_triangle(x, False)], shared=True)


def _solve_triangular(rng: Rng) -> Unread:
    x = _matrix(rng, _side(rng))
    lower, transpose, unit = (bool(c) for c in rng.random(3) < 0.5)
    run = partial(_linalg("solve_triangular"), lower=lower, transpose=transpose, unit_diagonal=unit)
    hidden = _triangle(x, not lower, strict=not unit)
    x = np.where(_triangle(x, True) | _triangle(x, False), x / 8, x).astype(np.float32)
    return Unread(run, [x, _normal(rng, *x.shape[:-1], 3)], [hidden])


def _cholesky_solve(rng: Rng) -> Unread:
    x, upper = _matrix(rng, _side(rng)), bool(rng.random() < 0.5)
    low = np.linalg.cholesky(x.astype(np.float64))
    factor = np.asarray(low.swapaxes(-1, -2) if upper else low, np.float32)
    hidden = _triangle(x, upper)
    if rng.random() < 0.4:
        return Unread(partial(_linalg("cholesky_inverse"), upper=upper), [factor], [hidden])
    solve = _linalg("cholesky_solve")
    right = _normal(rng, *x.shape[:-1], 2)
    return Unread(lambda a, b: solve(b, a, upper=upper), [factor, right], [hidden])


def _reflections(rng: Rng) -> Unread:
    n = _side(rng)
    m = n + int(rng.integers(0, 3))
    x = _normal(rng, m, n) / 2
    tau = np.asarray(rng.uniform(0.2, 1.5, n), np.float32)
    hidden = _triangle(x, False, strict=False)
    if rng.random() < 0.5:
        return Unread(_linalg("householder_product"), [x, tau], [hidden])
    run = partial(_linalg("ormqr"), transpose=bool(rng.random() < 0.5))
    return Unread(run, [x, tau, _normal(rng, m, 2)], [hidden])


def _ldl(rng: Rng) -> Unread:
    x = _matrix(rng, int(rng.choice(_SIDES[:4])))
    return Unread(lambda t: _linalg("ldl_factor")(t)[0], [x], [_triangle(x, False)], shared=True)


def _triangles(rng: Rng) -> Unread:
    x, k = _normal(rng, 2, _side(rng), _side(rng)), int(rng.integers(-2, 3))
    low = bool(rng.random() < 0.5)
    kept = np.tril(np.ones(x.shape), k) if low else np.triu(np.ones(x.shape), k)
    return Unread(lambda t: (calor.tril if low else calor.triu)(t, k=k), [x], [kept == 0])


def _where(rng: Rng) -> Unread:
    shape = (_side(rng), _side(rng))
    c = rng.random(shape) < 0.5
    x, y = _normal(rng, *shape), _normal(rng, *shape)
    chosen = calor.asarray(c)

    def run(a: Any, b: Any) -> Any:
        picked = calor.where(chosen, a, b)
        # What is chosen is used, and made, in the same program.
        return picked, calor.sum(picked, axis=1), calor.exp(calor.where(chosen, a * 1, b * 1) * 0.5)

    return Unread(run, [x, y], [~c, c])


def _rows(rng: Rng) -> Unread:
    n = _side(rng)
    x = _normal(rng, n, 3)
    at = rng.integers(0, n, int(rng.integers(1, n + 1)))
    hidden = np.broadcast_to(~np.isin(np.arange(n), at)[:, None], x.shape)
    given = calor.asarray(at)
    forms: list[Any] = [
        lambda t: t[given], lambda t: calor.take(t, given, axis=0),
        lambda t: calor.sum(calor.take(t, given, axis=0), axis=0),
        lambda t: calor.take_along_axis(t, calor.asarray(np.stack([at] * 3, 1)), axis=0),
    ]  # fmt: skip
    return Unread(lambda t: [form(t) for form in forms], [x], [hidden])


def _cuts(rng: Rng) -> Unread:
    n = _side(rng) + 2
    x = _normal(rng, 2, n)
    first, step = int(rng.integers(0, 2)), int(rng.integers(1, 4))
    kept = np.zeros(x.shape, np.bool_)
    kept[:, first::step] = True
    forms: list[Any] = [
        lambda t: t[:, first::step], lambda t: calor.exp(t[:, first::step] * 0.3),
        lambda t: calor.sum(t[:, first::step], axis=1),
        lambda t: calor.matmul(t[:, first::step], calor.ones((int(kept[0].sum()), 2))),
    ]  # fmt: skip
    return Unread(lambda t: [form(t) for form in forms], [x], [~kept])


def _layer(name: str) -> Any:
    return getattr(import_module("calor_nn.functional"), name)


def _windows(rng: Rng) -> Unread:
    """Strides that pass over elements, and an end that no window reaches."""
    rank = int(rng.integers(1, 3))
    ks, extra = rng.integers(1, 4, rank).tolist(), rng.integers(0, 6, rank).tolist()
    ds = rng.integers(1, 3, rank).tolist()
    ss = [int(rng.integers(1, 5)) for _ in ks]
    sizes = [d * (k - 1) + 1 + e for k, d, e in zip(ks, ds, extra, strict=True)]
    read: Array = np.ones((), np.bool_)
    for k, d, s, n in zip(ks, ds, ss, sizes, strict=True):
        line = np.zeros(n, np.bool_)
        for first in range(0, n - d * (k - 1), s):
            line[first : first + d * (k - 1) + 1 : d] = True
        read = read[..., None] & line
    x = _normal(rng, 2, 2, *sizes)
    hidden = np.broadcast_to(~read, x.shape)
    name = str(rng.choice(("conv", "conv", "max_pool", "avg_pool")))
    if name == "conv":
        run = partial(_layer(f"conv{rank}d"), stride=ss, dilation=ds)
        return Unread(run, [x, _normal(rng, 3, 2, *ks)], [hidden])
    if name == "avg_pool" and max(ds) > 1:
        name = "max_pool"
    more = {"dilation": ds} if name == "max_pool" else {}
    pool = _layer(f"{name}{rank}d")
    return Unread(lambda t: pool(t, ks, stride=ss, **more), [x], [hidden])


def _attention(rng: Rng) -> Unread:
    """Keys that no query sees, by a mask, the causal order or both."""
    batch, heads, length, width = 2, 2, _side(rng), int(rng.choice((2, 4, 8)))
    keys = length + int(rng.integers(0, 4))
    q = _normal(rng, batch, heads, length, width)
    k, v = (_normal(rng, batch, heads, keys, width) for _ in "kv")
    causal = bool(rng.random() < 0.5)
    seen: Any = np.asarray(rng.random((batch, 1, 1, keys)) < 0.6)
    seen[..., 0] = True
    if rng.random() < 0.5:
        seen = np.logical_and(seen, rng.random((batch, heads, length, keys)) < 0.6)
    by_order = np.tri(length, keys, dtype=np.bool_) if causal else np.ones((length, keys), np.bool_)
    weighed: Array = np.broadcast_to(seen & by_order, (batch, heads, length, keys))
    hidden = np.asarray(~weighed.any(2))
    mask = calor.asarray(seen)
    attend = _layer("scaled_dot_product_attention")
    both = np.broadcast_to(hidden[..., None], k.shape)
    return Unread(
        lambda q, k, v: attend(q, k, v, mask=mask, causal=causal), [q, k, v],
        [np.zeros(q.shape, np.bool_), both, both], _FINITE,
    )  # fmt: skip


def _ignored(rng: Rng) -> Unread:
    """Rows whose target is ignored."""
    n, classes = _side(rng), int(rng.integers(2, 6))
    x, target = _normal(rng, n, classes), rng.integers(0, classes, n)
    number = int(rng.choice((-100, 0, classes - 1)))
    target[rng.random(n) < 0.4] = number
    target[0] = (number + 1) % classes if number >= 0 else 0
    hidden = np.broadcast_to((target == number)[:, None], x.shape)
    given, how = calor.asarray(target), str(rng.choice(("mean", "sum", "none")))
    name = str(rng.choice(("cross_entropy", "nll_loss")))
    loss = partial(_layer(name), ignore_index=number, reduction=how)
    return Unread(lambda t: loss(t, given), [x], [hidden], _FINITE)


def _bags(rng: Rng) -> Unread:
    n, width = _side(rng) + 1, 3
    table, at = _normal(rng, n, width), rng.integers(0, n, (4, 3))
    padding, mode = int(rng.integers(0, n)), str(rng.choice(("sum", "mean", "max")))
    hidden = ~np.isin(np.arange(n), at[at != padding])
    given = calor.asarray(at)
    run = partial(_layer("embedding_bag"), mode=mode, padding_index=padding)
    return Unread(
        lambda t: run(given, t), [table], [np.broadcast_to(hidden[:, None], table.shape)], _FINITE
    )


def _ctc(rng: Rng) -> Unread:
    steps, batch, classes = int(rng.integers(5, 9)), 2, 4
    x = _normal(rng, steps, batch, classes)
    x = x - np.log(np.exp(x).sum(-1, keepdims=True))
    inputs, outputs = rng.integers(4, steps + 1, batch), rng.integers(1, 3, batch)
    targets = rng.integers(1, classes, (batch, 2))
    hidden = np.arange(steps)[:, None, None] >= inputs[None, :, None]
    given = [calor.asarray(t) for t in (targets, inputs, outputs)]
    return Unread(
        lambda t: _layer("ctc_loss")(t, *given, reduction="none"), [x],
        [np.broadcast_to(hidden, x.shape)], _FINITE,
    )  # fmt: skip


# What draws a function, its op, and the package that has it.
_SUBJECTS: Final[dict[str, tuple[Callable[[Rng], Unread], str, str]]] = {
    "cholesky": (_cholesky, "cholesky", "calor_linalg"),
    "eigh": (_eigh, "eigh", "calor_linalg"),
    "solve_triangular": (_solve_triangular, "triangular_solve", "calor_linalg"),
    "cholesky_solve": (_cholesky_solve, "triangular_solve", "calor_linalg"),
    "reflections": (_reflections, "", "calor_linalg"),
    "ldl_factor": (_ldl, "", "calor_linalg"),
    "triangles": (_triangles, "where", ""), "where": (_where, "where", ""),
    "rows": (_rows, "gather", ""), "cuts": (_cuts, "slice", ""),
    "windows": (_windows, "conv", "calor_nn"), "attention": (_attention, "attention", "calor_nn"),
    "ignored": (_ignored, "where", "calor_nn"), "bags": (_bags, "gather", "calor_nn"),
    "ctc": (_ctc, "where", "calor_nn"),
}  # fmt: skip


def _leaves(made: Any) -> list[Array]:
    return [t.numpy() for t in calor.tree.leaves(made)]


def _gradients(one: Unread, operands: list[Array]) -> list[Array]:
    def loss(*given: Any) -> Any:
        made = calor.tree.leaves(one.function(*given))
        return sum(calor.sum(t * t * 0.5 + t) for t in made if t.dtype.is_inexact)

    found = calor.grad(loss, argnums=tuple(range(len(operands))))(*map(calor.asarray, operands))
    return _leaves(found)


def _near(got: list[Array], want: list[Array], what: str) -> None:
    assert len(got) == len(want), what
    for a, b in zip(got, want, strict=True):
        size = float(np.max(np.abs(b), initial=1e-3, where=np.isfinite(b)))
        same = np.isclose(a, b, rtol=1e-5, atol=2e-6 * size, equal_nan=True)
        assert same.all(), f"{what}: {a[~same][:4].tolist()}, not {b[~same][:4].tolist()}"


def _turn(name: str, rng: Rng, jitted: bool) -> None:
    one = _SUBJECTS[name][0](rng)
    while not any(hidden.any() for hidden in one.unread):
        one = _SUBJECTS[name][0](rng)
    if jitted:
        one.function = calor.jit(one.function)
    filled = list(one.operands)
    junk = rng.choice(one.junk) if rng.random() < 0.7 else None
    for n, hidden in enumerate(one.unread):
        there = rng.choice(one.junk, hidden.shape) if junk is None else junk
        filled[n] = np.where(hidden, there, filled[n]).astype(np.float32)
    shapes = [x.shape for x in one.operands]
    what = f"{name} of {shapes} with {'some junk' if junk is None else junk} in what is not read"
    made, want = (_leaves(one.function(*map(calor.asarray, x))) for x in (filled, one.operands))
    _near(made, want, f"{what}{', jitted' * jitted}")
    if name == "ldl_factor":
        return
    found, due = _gradients(one, filled), _gradients(one, one.operands)
    _near(found, due, f"the gradient of {what}")
    if one.shared:
        return
    for gradient, hidden in zip(found, one.unread, strict=False):
        lost = gradient[hidden]
        assert not lost.any(), f"the gradient of {what} there: {lost[lost != 0][:4].tolist()}"


def _run(name: str, place: Place) -> None:
    for turn in range(1 if name in _LONG else _TURNS):
        rng = np.random.default_rng([place.seed, 194, crc32(name.encode()), turn])
        _turn(name, rng, jitted=(turn + place.seed) % 2 == 1 and name not in _LONG)


def unread_parts() -> Iterator[Check]:
    """Yield a check of each function that reads a part of its operands."""
    for name, (draw, op, package) in _SUBJECTS.items():
        if package and find_spec(package) is None:
            continue
        yield Check(
            kind="unread",
            subject=name,
            tier="full",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, draw),
            op=op if op in TABLE else "where",
            dtypes=(float32, int64, bool_),
            looks=True,
        )
