"""Arguments of transforms in every form: numbers, one object twice, places among others, axes.

A transform takes a Python number where it takes a tensor, as argument and as tangent, with aux and
without; one tensor as two arguments, whose derivatives are those of two; integers before, between
and behind what it differentiates; and axes of a map counted from either end of operands and results
of any rank. Programs have a polynomial meaning, so NumPy gives the numbers of all of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import bool_, float32, float64, int32, int64

from .base import Array, Check, Place

CONTRACT: Final = "a transform means the same in every form and at every place of its arguments"
_TURNS, _NEAR = 12, 2e-5
Rng = np.random.Generator


def _near(got: Any, want: Any, told: str) -> None:
    made, want = calor.asarray(got).numpy(), np.asarray(want)
    assert made.shape == want.shape, f"{told}: shape {made.shape}, not {want.shape}"
    off = np.abs(made - want).max(initial=0.0)
    within = _NEAR * (1 + np.abs(want).max(initial=0.0))
    assert off <= within, f"{told}: {made.tolist()}, not {want.tolist()}"


class _Polynomial:
    """A sum of products of powers of each argument; an element of an array is a number of it."""

    def __init__(self, rng: Rng, count: int) -> None:
        terms = int(rng.integers(1, 4))
        self.factors = rng.integers(1, 4, terms).astype(float) * rng.choice((-1, 1), terms)
        self.powers = rng.integers(0, 3, (terms, count))
        # Each argument has a part, of a power that its derivative depends on.
        self.powers[int(rng.integers(terms))] += 1

    def __call__(self, *given: Any) -> Any:
        total: Any = 0.0
        for factor, powers in zip(self.factors, self.powers, strict=True):
            term: Any = float(factor)
            for x, power in zip(given, powers, strict=True):
                for _ in range(int(power)):
                    term = term * x
            total = total + term
        return total

    def slope(self, at: int, *given: Any) -> Any:
        """Return the derivative by one argument."""
        made = _Polynomial.__new__(_Polynomial)
        made.factors = self.factors * self.powers[:, at]
        made.powers = self.powers.copy()
        made.powers[:, at] = np.maximum(made.powers[:, at] - 1, 0)
        return made(*given)

    def slopes(self, first: int, second: int) -> Callable[..., Any]:
        """Return the function of the second derivative."""
        inner = _Polynomial.__new__(_Polynomial)
        inner.factors = self.factors * self.powers[:, first]
        inner.powers = self.powers.copy()
        inner.powers[:, first] = np.maximum(inner.powers[:, first] - 1, 0)
        return partial(inner.slope, second)


def _number(form: int, value: float) -> Any:
    """Return a real number in one of the forms in which users have it."""
    forms: tuple[Callable[[float], Any], ...] = (
        float, lambda v: calor.asarray(v, dtype=float32),
        lambda v: calor.asarray(v, dtype=float64),
    )  # fmt: skip
    return forms[form % len(forms)](value)


def _numbers(rng: Rng, place: Place) -> None:
    """Numbers as arguments and tangents, one of them a Python number at least."""
    count = int(rng.integers(1, 4))
    program, some = _Polynomial(rng, count), 3 if place.plain.info.supports("mul", float64) else 2
    values = [float(v) for v in rng.integers(1, 4, count)]
    tangents = [float(v) for v in rng.integers(-2, 3, count)]
    forms = [0 if rng.random() < 0.5 else int(rng.integers(some)) for _ in values]
    forms[int(rng.integers(count))] = 0
    given = [_number(f, v) for f, v in zip(forms, values, strict=True)]
    # A tangent is a number, or of the dtype of its argument.
    along = [_number(int(rng.choice((0, f))), t) for f, t in zip(forms, tangents, strict=True)]
    aux = bool(rng.integers(2))

    def with_aux(*xs: Any) -> Any:
        return program(*xs), {"first": xs[0] * 2, "n": 3}

    f = with_aux if aux else program
    told = f"of {given!r} along {along!r}, {aux=}, {program.factors}, {program.powers.tolist()}"
    value = program(*values)
    slopes = [program.slope(k, *values) for k in range(count)]
    pushed = sum(s * t for s, t in zip(slopes, tangents, strict=True))
    options = {"has_aux": True} if aux else {}

    def of_aux(made: Any, how: str) -> None:
        _near(made["first"], values[0] * 2, f"aux of {how} {told}")
        assert made["n"] == 3, f"aux of {how} {told}: {made}"

    made = calor.jvp(f, tuple(given), tuple(along), **options)
    _near(made[0], value, f"jvp {told}")
    _near(made[1], pushed, f"the tangent of jvp {told}")
    linear = calor.linearize(f, *given, **options)
    _near(linear[0], value, f"linearize {told}")
    for turn in (1.0, -2.0):
        _near(linear[1](*(t * turn for t in along)), pushed * turn, f"linearize {turn} {told}")
    pulled = calor.vjp(f, *given, **options)
    _near(pulled[0], value, f"vjp {told}")
    for cotangent in (1.0, calor.asarray(2.0, dtype=calor.asarray(pulled[0]).dtype)):
        backs = pulled[1](cotangent)
        for back, slope in zip(backs, slopes, strict=True):
            _near(back, slope * float(cotangent), f"vjp {cotangent} {told}")
    for how, found in (("jvp", made), ("linearize", linear), ("vjp", pulled)):
        if aux:
            of_aux(found[2], how)
    numbers = [int(k) for k in rng.permutation(count)[: int(rng.integers(1, count + 1))]]
    argnums: Any = numbers[0] if len(numbers) == 1 and rng.random() < 0.5 else tuple(numbers)
    found = calor.grad(f, argnums, **options)(*given)
    both = calor.value_and_grad(f, argnums, **options)(*given)
    _near(both[0][0] if aux else both[0], value, f"value_and_grad {told}")
    if aux:
        of_aux(found[1], "grad")
        of_aux(both[0][1], "value_and_grad")
        found = found[0]
    for what, gradients in (("grad", found), ("value_and_grad", both[1])):
        each = [gradients] if isinstance(argnums, int) else list(gradients)
        assert len(each) == len(numbers), f"{what} {argnums} {told}: {gradients}"
        for k, gradient in zip(numbers, each, strict=True):
            _near(gradient, slopes[k], f"{what} by {k} of {argnums} {told}")


def _twice(rng: Rng, place: Place) -> None:
    """One tensor as several arguments: each has the derivatives of its own place."""
    size, count = int(rng.integers(1, 4)), int(rng.integers(2, 4))
    program = _Polynomial(rng, count)
    array = rng.integers(1, 4, size).astype(np.float32)
    other = rng.integers(1, 4, size).astype(np.float32)
    kinds = [int(k) for k in rng.integers(0, 2, count)]
    kinds[:2] = [0, 0]
    rng.shuffle(kinds)
    tensors = [calor.asarray(array), calor.asarray(other)]
    given, plain = [tensors[k] for k in kinds], [(array, other)[k].astype(float) for k in kinds]
    numbers = [int(k) for k in rng.permutation(count)[: int(rng.integers(1, count + 1))]]
    told = f"of {kinds} by {numbers}, {program.factors}, {program.powers.tolist()}, {array}"
    argnums = tuple(numbers)

    def total(*xs: Any) -> Any:
        return calor.sum(program(*xs))

    slopes = {k: np.broadcast_to(program.slope(k, *plain), size) for k in range(count)}
    ways: list[tuple[str, Callable[..., Any]]] = [
        ("grad", calor.grad(total, argnums)),
        ("jacrev", calor.jacrev(program, argnums)), ("jacfwd", calor.jacfwd(program, argnums)),
    ]  # fmt: skip
    if rng.random() < 0.3:
        ways.append(("jitted grad", calor.jit(calor.grad(total, argnums))))
    for how, way in ways:
        made = way(*given)
        assert len(made) == len(numbers), f"{how} {told}: {len(made)} gradients"
        for k, got in zip(numbers, made, strict=True):
            want = slopes[k] if "grad" in how else np.diag(slopes[k])
            _near(got, want, f"{how} by {k} {told}")
    found = calor.hessian(total, argnums)(*given) if rng.random() < 0.5 else ()
    for k, row in zip(numbers, found, strict=bool(found)):
        for m, got in zip(numbers, row, strict=True):
            want = np.broadcast_to(program.slopes(k, m)(*plain), size)
            _near(got, np.diag(want), f"hessian by {k} and {m} {told}")
    along = [rng.integers(-2, 3, size).astype(np.float32) for _ in given]
    pushed = calor.jvp(program, tuple(given), tuple(map(calor.asarray, along)))[1]
    _near(pushed, sum(slopes[k] * along[k] for k in range(count)), f"jvp {told}")
    back = calor.vjp(total, *given)[1](calor.asarray(1.0, dtype=float32))
    for k, got in enumerate(back):
        _near(got, slopes[k], f"vjp by {k} {told}")


def _branches(rng: Rng, place: Place) -> None:
    """Branches whose operands are integers and truths before, between and behind floating ones."""
    count = int(rng.integers(2, 5))
    kinds = [str(rng.choice(["float", "int", "bool", "int64"])) for _ in range(count)]
    kinds[int(rng.integers(count))] = "float"
    dtypes = {"float": np.float32, "int": np.int32, "bool": np.bool_, "int64": np.int64}
    size = int(rng.integers(1, 4))
    arrays = [
        rng.integers(0, 2, size).astype(bool) if k == "bool"
        else rng.integers(1, 4, size).astype(dtypes[k]) for k in kinds
    ]  # fmt: skip
    first, second = _Polynomial(rng, count), _Polynomial(rng, count)
    taken = bool(rng.integers(2))
    numbers = [k for k, kind in enumerate(kinds) if kind == "float"]
    plain = [a.astype(float) for a in arrays]
    told = f"of {kinds}, {taken=}, {arrays}"
    # Results of several dtypes, the floating one in any place.
    order = [int(k) for k in rng.permutation(3)]

    def branch(program: _Polynomial, *xs: Any) -> Any:
        floats = [x if k in numbers else x.astype(float32) for k, x in enumerate(xs)]
        some = [program(*floats) + floats[0] * 0, xs[0], xs[-1]]
        return tuple(some[k] for k in order)

    def run(flag: Any, *xs: Any) -> Any:
        made = calor.cond(flag, partial(branch, first), partial(branch, second), *xs)
        return made[order.index(0)]

    def total(flag: Any, *xs: Any) -> Any:
        return calor.sum(run(flag, *xs))

    program = first if taken else second
    tensors = [calor.asarray(a) for a in arrays]
    argnums = tuple(k + 1 for k in numbers)
    for how, way in (("", lambda f: f), ("jitted ", calor.jit)):
        flag = calor.asarray(taken)
        _near(way(run)(flag, *tensors), np.broadcast_to(program(*plain), size), f"{how}cond {told}")
        made = way(calor.grad(total, argnums))(flag, *tensors)
        for k, got in zip(numbers, made, strict=True):
            want = np.broadcast_to(program.slope(k, *plain), size)
            _near(got, want, f"the {how}gradient by {k} of cond {told}")
        if not place.interpreted:
            break
    along = [rng.integers(-2, 3, size).astype(np.float32) for _ in numbers]

    def of_floats(*floats: Any) -> Any:
        given = list(tensors)
        for k, x in zip(numbers, floats, strict=True):
            given[k] = x
        return run(calor.asarray(taken), *given)

    primals = tuple(tensors[k] for k in numbers)
    pushed = calor.jvp(of_floats, primals, tuple(map(calor.asarray, along)))[1]
    want = sum(program.slope(k, *plain) * t for k, t in zip(numbers, along, strict=True))
    _near(pushed, np.broadcast_to(want, size), f"jvp of cond {told}")


def _axes(rng: Rng, place: Place) -> None:
    """Axes of a map from either end, of operands and results of several ranks in one call."""
    size = int(rng.integers(2, 4))
    shapes = [tuple(int(n) for n in rng.integers(1, 4, int(rng.integers(0, 4)))) for _ in range(3)]
    mapped = [bool(rng.random() < 0.75) for _ in shapes]
    mapped[int(rng.integers(3))] = True
    axes = [int(rng.integers(-len(s) - 1, len(s) + 1)) if m else None
            for s, m in zip(shapes, mapped, strict=True)]  # fmt: skip
    rows = [rng.integers(-9, 10, (size, *s) if m else s).astype(np.float32)
            for s, m in zip(shapes, mapped, strict=True)]  # fmt: skip
    given = [r if a is None else np.moveaxis(r, 0, a) for r, a in zip(rows, axes, strict=True)]
    some = mapped.index(True)

    def program(*xs: Any) -> tuple[Any, ...]:
        # A scalar of what is mapped is in every result, which makes each of them one of a member.
        scalar = xs[some].sum()
        return (xs[0] + scalar, xs[1][None] * scalar, (xs[2] - scalar).sum(), xs[2] * 2)

    wants = [[*program(*(r[n] if m else r for r, m in zip(rows, mapped, strict=True)))]
             for n in range(size)]  # fmt: skip
    outs: list[Any] = []
    for k in range(4):
        rank = np.ndim(wants[0][k])
        alone = k == 3 and not mapped[2] and rng.random() < 0.5
        outs.append(None if alone else int(rng.integers(-rank - 1, rank + 1)))
    due = [np.asarray(wants[0][k]) if a is None else
           np.moveaxis(np.stack([np.asarray(w[k]) for w in wants]), 0, a)
           for k, a in enumerate(outs)]  # fmt: skip
    ins: Any = tuple(axes)
    told = f"of {shapes} by {axes} to {outs}"
    call = calor.vmap(program, in_axes=ins, out_axes=tuple(outs))
    ways = [("", call), ("jitted ", calor.jit(call))] if place.interpreted else [("", call)]
    for how, way in ways:
        made = way(*map(calor.asarray, given))
        for k, (got, want) in enumerate(zip(made, due, strict=True)):
            _near(got, want, f"result {k} of a {how}map {told}")
    # One axis for all results, which are of different ranks.
    ranks = [np.ndim(w) for w in wants[0]]
    one = int(rng.integers(-min(ranks) - 1, min(ranks) + 1))
    made = calor.vmap(program, in_axes=ins, out_axes=one)(*map(calor.asarray, given))
    for k, got in enumerate(made):
        want = np.moveaxis(np.stack([np.asarray(w[k]) for w in wants]), 0, one)
        _near(got, want, f"result {k} of a map {told}, {one} for all")
    weights = [rng.integers(-2, 3, d.shape).astype(np.float32) for d in due]

    def total(x: Any) -> Any:
        mixed = [x if k == some else calor.asarray(a) for k, a in enumerate(given)]
        parts = zip(weights, call(*mixed), strict=True)
        return sum(calor.sum(calor.asarray(w) * y) for w, y in parts)

    def meant(x: Array) -> float:
        mixed = [np.moveaxis(x, axes[some] or 0, 0) if k == some else r for k, r in enumerate(rows)]
        made = [program(*(r[n] if m else r for r, m in zip(mixed, mapped, strict=True)))
                for n in range(size)]  # fmt: skip
        parts = [made[0][k] if a is None else np.moveaxis(np.stack([m[k] for m in made]), 0, a)
                 for k, a in enumerate(outs)]  # fmt: skip
        return float(sum(np.sum(w * p) for w, p in zip(weights, parts, strict=True)))

    # A quadratic function has the slopes of central differences.
    x = given[some].astype(np.float64)
    slopes = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[at] = 1
        slopes[at] = (meant(x + step) - meant(x - step)) / 2
    _near(calor.grad(total)(calor.asarray(given[some])), slopes, f"the gradient of a map {told}")


_FORMS: Final[dict[str, Callable[[Rng, Place], None]]] = {
    "numbers": _numbers, "one-object-twice": _twice, "branches": _branches, "axes": _axes,
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    for turn in range(_TURNS):
        if place.tries(turn, 12):
            number = list(_FORMS).index(name)
            _FORMS[name](np.random.default_rng([place.seed, 503, number, turn]), place)


def forms_of_arguments() -> Iterator[Check]:
    """Yield a check of each form."""
    for name, form in _FORMS.items():
        yield Check(
            kind="vmap" if name == "axes" else "transforms",
            subject=f"arguments-as-{name}",
            tier="training",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, form),
            op="mul",
            dtypes=(float32, int32, int64, bool_),
            features=("control_flow",) if name == "branches" else (),
            looks=True,
        )
