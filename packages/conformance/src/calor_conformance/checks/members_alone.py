"""Members of a batch that differ by many decades: each is computed as it is alone.

What iterates takes as many steps as its slowest member needs, and what scales may scale all members
by one number; both are right for members that resemble each other. So matrices of a batch differ
in norm, in condition and in the number of steps that they need, and so do numbers of functions that
add up series. Each member is compared with the call of that member alone, by a batch, by two batch
axes and by ``vmap``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

import numpy as np

import calor
from calor.dtypes import DType, float32, float64

from ..rows.language import limits_of
from .base import Array, Check, Place, Run

CONTRACT: Final = "a member of a batch is computed as it is alone, whatever the others need"
_MEMBERS, _SIDE = 4, 5
_ROOM: Final = 64
Rng = np.random.Generator


def _orthogonal(rng: Rng) -> Array:
    return np.linalg.qr(rng.standard_normal((_SIDE, _SIDE)))[0]


def _matrices(rng: Rng, *, decades: float = 4, spread: float = 2) -> Array:
    """Return square matrices whose norms and conditions differ."""
    made = []
    for size in rng.permutation(np.linspace(-decades, decades, _MEMBERS)):
        values = np.logspace(0, -spread * rng.random(), _SIDE) * 10**size
        made.append(_orthogonal(rng) * values @ _orthogonal(rng).T)
    return np.stack(made)


def _symmetric(rng: Rng) -> Array:
    """Return positive definite matrices whose norms and conditions differ."""
    made = []
    for size in rng.permutation(np.linspace(-4, 4, _MEMBERS)):
        q = _orthogonal(rng)
        made.append(q * (np.logspace(0, -2 * rng.random(), _SIDE) * 10**size) @ q.T)
    return np.stack(made)


def _exponents(rng: Rng) -> Array:
    """Return matrices whose exponentials take from no squaring to several."""
    sizes = 10 ** rng.permutation(np.linspace(-5, 1.5, _MEMBERS))
    drawn = rng.standard_normal((_MEMBERS, _SIDE, _SIDE))
    return np.asarray(drawn * sizes[:, None, None] / _SIDE)


def _deficient(rng: Rng) -> Array:
    """Return matrices of different ranks and norms."""
    made = _matrices(rng, spread=1)
    for k, rank in enumerate(rng.permutation(np.arange(_SIDE))[:_MEMBERS]):
        u, s, v = np.linalg.svd(made[k])
        made[k] = (u * np.where(np.arange(_SIDE) <= rank, s, 0)) @ v
    return made


class _Of(NamedTuple):
    """A function of matrices, their members, and how many roundings one may lose.

    ``units`` is for the largest element of a member; what is compared exactly has 0.
    """

    call: Callable[[Any], Any]
    draw: Callable[[Rng], Array]
    op: str
    units: float = _ROOM


def _spectrum(x: Any) -> Any:
    return calor.linalg.eigh(x).eigenvalues


def _rebuilt(x: Any) -> Any:
    """Return what singular vectors and values give again."""
    u, s, v = calor.linalg.svd(x, full_matrices=False)
    return calor.matmul(u * calor.expand_dims(s, axis=-2), v)


def _again(x: Any) -> Any:
    """Return what eigenvectors and eigenvalues give again."""
    w, v = calor.linalg.eigh(x)
    return calor.matmul(v * calor.expand_dims(w, axis=-2), calor.matrix_transpose(v))


def _solved(x: Any) -> Any:
    right = calor.ones((*x.shape[:-1], 2), dtype=x.dtype)
    return calor.linalg.solve(x, right)


def _least(x: Any) -> Any:
    right = calor.ones((*x.shape[:-1], 1), dtype=x.dtype)
    return calor.linalg.lstsq(x, right)[0]


_COND: Final = 100 * _ROOM
MATRICES: Final = {
    "expm": _Of(calor.linalg.expm, _exponents, "expm", 4 * _ROOM),
    "matrix_power": _Of(lambda x: calor.linalg.matrix_power(x, 5), _matrices, "dot_general"),
    "negative matrix_power": _Of(
        lambda x: calor.linalg.matrix_power(x, -2), _matrices, "inv", 100 * _COND),
    "inv": _Of(calor.linalg.inv, _matrices, "inv", _COND),
    "solve": _Of(_solved, _matrices, "solve", _COND),
    "eigh": _Of(_spectrum, _symmetric, "eigh"),
    "eigh again": _Of(_again, _symmetric, "eigh"),
    "svd": _Of(calor.linalg.svdvals, _matrices, "svd"),
    "svd again": _Of(_rebuilt, _matrices, "svd"),
    "pinv": _Of(calor.linalg.pinv, _deficient, "pinv", _COND),
    "lstsq": _Of(_least, _matrices, "svd", _COND),
    "cholesky": _Of(calor.linalg.cholesky, _symmetric, "cholesky", _COND),
    "logdet": _Of(calor.linalg.logdet, _symmetric, "slogdet", _COND),
    "det": _Of(calor.linalg.det, _matrices, "det", _COND),
    "matrix_rank": _Of(calor.linalg.matrix_rank, _deficient, "svd", 0),
}  # fmt: skip


def _counted(x: Any) -> Any:
    """Return the numbers of halvings until a number is below 1, and what is left."""

    def more(state: Any) -> Any:
        return state[0] >= 1

    def step(state: Any) -> Any:
        return state[0] * 0.5, state[1] + 1

    return calor.stack(calor.while_loop(more, step, (x, x * 0)))


def _near(got: Array, want: Array, units: float, told: str) -> None:
    """Compare a member with itself alone, relative to its largest element."""
    assert got.shape == want.shape, f"{told} has shape {got.shape}, alone {want.shape}"
    if not units:
        assert (got == want).all(), f"{told} is {got.tolist()}, alone {want.tolist()}"
        return
    wide = want.astype(np.float64)
    within = units * float(limits_of(want.dtype).eps) / 2 * np.abs(wide).max()
    off = np.abs(got.astype(np.float64) - wide).max()
    assert off <= within, (
        f"{told} is off by {off:.2g}, and {within:.2g} is allowed: {got.tolist()}, alone "
        f"{want.tolist()}"
    )


def _of_matrices(name: str, dtype: DType, place: Place) -> None:
    function = MATRICES[name]
    rng = np.random.default_rng([place.seed, 304, *name.encode(), dtype.itemsize])
    given = function.draw(rng).astype(dtype.numpy)
    alone = [place.call(function.call, calor.asarray(x)).numpy() for x in given]
    # Who decides for all may be the first or the last one.
    rising = np.argsort(np.abs(given).max((1, 2)))
    ways = [
        ("in a batch", function.call, rising, (_MEMBERS,)),
        ("in two axes", function.call, rising[::-1], (2, _MEMBERS // 2)),
        ("under vmap", calor.vmap(function.call), rng.permutation(_MEMBERS), (_MEMBERS,)),
    ]
    if not place.interpreted:
        ways = [ways[int(rng.integers(len(ways)))]]
    for how, call, order, shape in ways:
        x = given[order].reshape(*shape, _SIDE, _SIDE)
        made = place.call(call, calor.asarray(x)).numpy().reshape(_MEMBERS, *alone[0].shape)
        for k, member in enumerate(order):
            told = f"{name} of {dtype} of member {k} {how}"
            _near(made[k], alone[member], function.units, told)


def _of_loops(dtype: DType, place: Place) -> None:
    rng = np.random.default_rng([place.seed, 305, dtype.itemsize])
    given = rng.permutation(2.0 ** rng.integers(-3, 40, 9) * rng.uniform(1, 1.9, 9))
    given = given.astype(dtype.numpy)
    want = np.stack([place.call(_counted, calor.asarray(x)).numpy() for x in given[:3]])
    steps = np.maximum(np.frexp(given)[1], 0)
    due = np.stack([np.ldexp(given, -steps), steps.astype(dtype.numpy)], -1)
    assert (want == due[:3]).all(), f"a loop from {given[:3]} gives {want}, not {due[:3]}"
    made = place.call(calor.vmap(_counted), calor.asarray(given)).numpy()
    assert (made == due).all(), f"vmap of a loop from {given} gives {made}, not {due}"
    twice = place.call(calor.vmap(calor.vmap(_counted)), calor.asarray(given.reshape(3, 3)))
    assert (twice.numpy().reshape(due.shape) == due).all(), f"vmap of vmap of a loop from {given}"


_POSITIVE, _SHORTER, _SIGNED = (-2.0, 2.0, False), (-2.0, 1.4, False), (-2.0, 0.9, True)
# Functions that iterate or choose among expansions: decades of their operands and signs.
NUMBERS: Final[dict[str, tuple[str, tuple[tuple[float, float, bool], ...]]]] = {
    "gammainc": ("special.gammainc", (_POSITIVE, _SHORTER)),
    "gammaincc": ("special.gammaincc", (_POSITIVE, _SHORTER)),
    "digamma": ("digamma", (_POSITIVE,)), "gammaln": ("lgamma", (_POSITIVE,)),
    "betaln": ("special.betaln", (_POSITIVE, _POSITIVE)),
    "zeta": ("special.zeta", ((0.05, 1.3, False), _POSITIVE)),
    "i0e": ("special.i0e", (_SIGNED,)), "k0e": ("special.k0e", (_POSITIVE,)),
    "k1e": ("special.k1e", (_POSITIVE,)), "j0": ("special.j0", (_SIGNED,)),
    "y0": ("special.y0", (_POSITIVE,)), "ndtri": ("special.ndtri", ((-9.0, -0.01, False),)),
    "erfinv": ("erfinv", ((-9.0, -0.01, True),)), "erfcx": ("erfcx", (_SIGNED,)),
    "log_ndtr": ("log_ndtr", (_SIGNED,)),
}  # fmt: skip
_ELEMENTS = 6


def _of_numbers(name: str, dtype: DType, place: Place) -> None:
    call = getattr(calor.special, name)
    rng = np.random.default_rng([place.seed, 306, *name.encode(), dtype.itemsize])
    given = []
    for low, high, signs in NUMBERS[name][1]:
        size = 10 ** rng.uniform(low, high, _ELEMENTS)
        given.append((size * rng.choice((-1, 1), _ELEMENTS) if signs else size).astype(dtype.numpy))
    # Who decides for all may be the first or the last one; one program serves both orders.
    rising = np.argsort(given[-1])
    together = []
    for order in (rising, rising[::-1]):
        made = place.call(call, *(calor.asarray(x[order]) for x in given)).numpy()
        together.append(made[np.argsort(order)])
    # And one program serves each element alone.
    for k in range(_ELEMENTS):
        alone = place.call(call, *(calor.asarray(x[k : k + 1]) for x in given)).numpy()
        arguments = ", ".join(repr(x[k]) for x in given)
        for made, how in zip(together, ("rising", "falling"), strict=True):
            told = f"{name} of {dtype} at {arguments}, among {how} others"
            _near(made[k : k + 1], alone, 2 * _ROOM, told)


def members_alone() -> Iterator[Check]:
    """Yield a check of each function of matrices and of numbers, and of loops."""
    made: list[tuple[str, str, Callable[..., None]]]
    made = [(name, f.op, _of_matrices) for name, f in MATRICES.items()]
    if find_spec("calor_special") is not None:
        made += [(name, op, _of_numbers) for name, (op, _) in NUMBERS.items()]
    runs: list[tuple[str, str, DType, Run, Callable[..., None]]]
    runs = [(name, op, dtype, partial(run, name, dtype), run)
            for name, op, run in made for dtype in (float32, float64)]  # fmt: skip
    for dtype in (float32, float64):
        runs.append(("loops", "while_loop", dtype, partial(_of_loops, dtype), _of_loops))
    for name, op, dtype, check, source in runs:
        yield Check(
            kind="functions",
            subject=f"members-alone-{name.replace(' ', '-')}",
            tier="full",
            contract=CONTRACT,
            run=check,
            text=partial(inspect.getsource, source),
            op=op,
            dtype=dtype,
            dtypes=(dtype,),
            looks=True,
        )
