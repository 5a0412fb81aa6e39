"""Chains of what moves elements, in one jitted function, with parts that are read more than once.

Two movements after each other become one, and a movement beside a conversion or an elementwise op
becomes part of its reads. Which one is told by orders of three or more axes, by fills that differ,
by ends and steps, and by who else reads what lies between. So chains of up to four movements are
drawn, with fills of their own, conversions, bits, sums and elementwise ops between them; earlier
values are read again, spread over others, and are results too. NumPy computes step by step what is
due. Gradients are those that complex steps in NumPy give.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

import calor
from calor.dtypes import DType, float16, float32, int8, int16, int32

from .base import Array, Check, Place
from .casts_there_and_back import same_bits

CONTRACT: Final = "movements in one program, and what reads their parts, are each step after step"
_PROGRAMS, _MOST_ELEMENTS = 80, 400
_STEP, _NEAR = 1e-30, 1e-4
Rng = np.random.Generator
Pair = tuple[Callable[[Any], Any], Callable[[Array], Any], str]


class Step(NamedTuple):
    """One operation on earlier values: by calor, by NumPy, and in words."""

    sources: tuple[int, ...]
    call: Callable[..., Any]
    meaning: Callable[..., Any]
    told: str


def _axis(rng: Rng, rank: int) -> int:
    return int(rng.integers(-rank, rank))


def _order(rng: Rng, rank: int) -> tuple[int, ...]:
    """Return an order of axes, most often a cycle where it is not its own inverse."""
    order = rng.permutation(rank)
    if rank > 2 and rng.random() < 0.6:
        cycle = rng.permutation(rank)
        order[cycle] = np.roll(cycle, 1)
    return tuple(int(a) - rank * int(rng.integers(2)) for a in order)


def _permuted(rng: Rng, a: Array) -> Pair:
    order = _order(rng, a.ndim)
    return (lambda t: calor.permute_dims(t, order), lambda x: np.transpose(x, order),
            f"permute {order}")  # fmt: skip


def _flipped(rng: Rng, a: Array) -> Pair:
    axes = tuple(int(k) for k in rng.permutation(a.ndim)[: int(rng.integers(1, a.ndim + 1))])
    return lambda t: calor.flip(t, axis=axes), lambda x: np.flip(x, axes), f"flip {axes}"


def _fill(rng: Rng, a: Array) -> Any:
    numbers = (0, -0.0, 1, -2, 0.5, 3) if a.dtype.kind == "f" else (0, 1, -2, 5)
    return numbers[int(rng.integers(len(numbers)))]


def _padded(rng: Rng, a: Array) -> Pair:
    widths = tuple((int(b), int(e)) for b, e in rng.choice((0, 0, 1, 2), (a.ndim, 2)))
    value = _fill(rng, a)
    told = f"pad {widths} {value}"
    return (lambda t: calor.pad(t, widths, value=value),
            lambda x: np.pad(x, widths, constant_values=value), told)  # fmt: skip


def _cut(rng: Rng, a: Array) -> Pair:
    cuts = []
    for n in a.shape:
        first = int(rng.integers(0, min(n, 2)))
        last = n - int(rng.integers(0, 2)) * (n - first > 1)
        step = int(rng.choice((1, 1, 1, 2, -1)))
        cuts.append(slice(first, last, step) if step > 0 else slice(last - 1, first - 1 if first
                    else None, step))  # fmt: skip
    key = tuple(cuts) if rng.random() < 0.7 else (Ellipsis, cuts[-1])
    return lambda t: t[key], lambda x: x[key], f"slice {key}"


def _reshaped(rng: Rng, a: Array) -> Pair:
    """Merge axes beside each other, or split the whole into factors."""
    if a.ndim > 1 and rng.random() < 0.5:
        at = int(rng.integers(a.ndim - 1))
        shape = (*a.shape[:at], a.shape[at] * a.shape[at + 1], *a.shape[at + 2 :])
    else:
        n = a.size
        first = int(rng.choice([k for k in range(1, n + 1) if n % k == 0]))
        rest = n // first
        second = int(rng.choice([k for k in range(1, rest + 1) if rest % k == 0]))
        shape = (first, second, rest // second)
    return lambda t: calor.reshape(t, shape), lambda x: np.reshape(x, shape), f"reshape {shape}"


def _spread(rng: Rng, a: Array) -> Pair:
    n, at = int(rng.integers(2, 4)), int(rng.integers(a.ndim + 1))
    shape = (*a.shape[:at], n, *a.shape[at:])
    return (lambda t: calor.broadcast_to(calor.expand_dims(t, axis=at), shape),
            lambda x: np.broadcast_to(np.expand_dims(x, at), shape), f"spread {shape}")  # fmt: skip


def _rolled(rng: Rng, a: Array) -> Pair:
    axes = (_axis(rng, a.ndim), _axis(rng, a.ndim))
    by = tuple(int(n) for n in rng.integers(-3, 4, 2))
    return lambda t: calor.roll(t, by, axis=axes), lambda x: np.roll(x, by, axes), (
        f"roll {by} {axes}")  # fmt: skip


def _joined(rng: Rng, a: Array) -> Pair:
    """Read a value twice: beside itself in another order."""
    axis, turn = _axis(rng, a.ndim), _axis(rng, a.ndim)
    told = f"join {axis} {turn}"
    if rng.random() < 0.5:
        return (lambda t: calor.concat([t, calor.flip(t, axis=turn)], axis=axis),
                lambda x: np.concatenate([x, np.flip(x, turn)], axis), told)  # fmt: skip
    return (lambda t: calor.stack([calor.flip(t, axis=turn), t], axis=axis),
            lambda x: np.stack([np.flip(x, turn), x], axis), f"stack {axis} {turn}")  # fmt: skip


def _taken(rng: Rng, a: Array) -> Pair:
    axis = _axis(rng, a.ndim)
    places = rng.integers(0, a.shape[axis], int(rng.integers(1, 5)))
    return (lambda t: calor.take(t, calor.asarray(places), axis=axis),
            lambda x: np.take(x, places, axis), f"take {places} {axis}")  # fmt: skip


def _tiled(rng: Rng, a: Array) -> Pair:
    by = tuple(int(n) for n in rng.integers(1, 3, a.ndim))
    return lambda t: calor.tile(t, by), lambda x: np.tile(x, by), f"tile {by}"


def _repeated(rng: Rng, a: Array) -> Pair:
    axis = _axis(rng, a.ndim)
    return (lambda t: calor.repeat(t, 2, axis=axis), lambda x: np.repeat(x, 2, axis),
            f"repeat {axis}")  # fmt: skip


MOVES: Final = (_permuted, _permuted, _permuted, _padded, _padded, _padded, _flipped, _cut, _cut,
                _reshaped, _spread, _rolled, _joined, _taken, _tiled, _repeated)  # fmt: skip


def _masked(rng: Rng, a: Array) -> Pair:
    kept, value = rng.random(a.shape) < 0.7, _fill(rng, a)
    number = np.asarray(value, a.dtype)
    return (lambda t: calor.where(calor.asarray(kept), t, value),
            lambda x: np.where(kept, x, number), f"where {value}")  # fmt: skip


def _scaled(rng: Rng, a: Array) -> Pair:
    choices: tuple[Pair, ...] = (
        (lambda t: t * 2, lambda x: x * x.dtype.type(2), "times 2"),
        (lambda t: -t, np.negative, "minus"),
        (lambda t: t + 1, lambda x: x + x.dtype.type(1), "plus 1"),
    )
    return choices[int(rng.integers(len(choices)))]


def _summed(rng: Rng, a: Array) -> Pair:
    axis, keep = _axis(rng, a.ndim), bool(rng.integers(2))
    if a.dtype.kind == "c" or (a.dtype.itemsize >= 4 and rng.random() < 0.6):
        return (lambda t: calor.sum(t, axis=axis, keepdims=keep, dtype=t.dtype),
                lambda x: np.sum(x, axis, keepdims=keep, dtype=x.dtype), f"sum {axis}")  # fmt: skip
    return (lambda t: calor.max(t, axis=axis, keepdims=keep),
            lambda x: np.max(x, axis, keepdims=keep), f"max {axis}")  # fmt: skip


def _total(rng: Rng, a: Array) -> Pair:
    axis, keep = _axis(rng, a.ndim), bool(rng.integers(2))
    return (lambda t: calor.sum(t, axis=axis, keepdims=keep),
            lambda x: np.sum(x, axis, keepdims=keep), f"sum {axis}")  # fmt: skip


def _curved(rng: Rng, a: Array) -> Pair:
    choices: tuple[Pair, ...] = (
        (calor.sin, np.sin, "sin"), (calor.cos, np.cos, "cos"),
        (lambda t: t * t, lambda x: x * x, "square"),
        (lambda t: t * 0.5, lambda x: x * 0.5, "half"),
    )  # fmt: skip
    return choices[int(rng.integers(len(choices)))]


_FLOATS, _WHOLE = (float32, float16), (int32, int16, int8)


def _cast(rng: Rng, a: Array) -> Pair:
    """Convert between types that have the small numbers of the chains, or cut their fractions."""
    kinds = _FLOATS if a.dtype.kind == "f" and rng.random() < 0.7 else (*_FLOATS, *_WHOLE)
    dtype = kinds[int(rng.integers(len(kinds)))]
    return lambda t: t.astype(dtype), lambda x: x.astype(dtype.numpy), f"to {dtype}"


def _back(kind: Any, rng: Rng, a: Array) -> Pair:
    """Convert to the dtype of an earlier value."""
    dtype = calor.dtypes.as_dtype(kind)
    return lambda t: t.astype(dtype), lambda x: x.astype(kind), f"back to {dtype}"


def _bits(rng: Rng, a: Array) -> Pair:
    """View numbers as integers of their size, change their signs or digits, and view them again."""
    size, kind = a.dtype.itemsize, a.dtype
    whole = {2: int16, 4: int32}[size]
    sign = -(2 ** (8 * size - 1))
    mask = -(2 ** (4 * size))
    move = MOVES[int(rng.integers(len(MOVES)))](rng, a.view(whole.numpy))
    clears, last = bool(rng.integers(2)), bool(rng.integers(3))

    def call(t: Any) -> Any:
        t = calor.Tensor.view(t, whole)
        t = move[0](t & mask if clears else t ^ sign)
        return t.view(calor.dtypes.as_dtype(kind)) if last else t

    def meaning(x: Array) -> Array:
        y = np.ascontiguousarray(x).view(whole.numpy)
        number = y.dtype.type
        y = move[1](y & number(mask) if clears else y ^ number(sign))
        return np.ascontiguousarray(y).view(kind) if last else y

    return call, meaning, f"bits {'of digits' if clears else 'of signs'}, {move[2]}, back {last}"


class Chain:
    """A drawn program: steps on values, of which several are read twice or are results."""

    def __init__(self, rng: Rng, given: list[Array]) -> None:
        self.rng, self.given = rng, given
        self.steps: list[Step] = []
        self.values = list(given)

    def add(self, make: Callable[[Rng, Array], Pair], at: int) -> None:
        """Append a step on one value, if it fits."""
        if not self.values[at].ndim:
            return
        call, meaning, told = make(self.rng, self.values[at])
        made = np.asarray(meaning(self.values[at]))
        if 0 < made.size <= _MOST_ELEMENTS and made.ndim < 6:
            self._append(Step((at,), call, meaning, f"{told} of {at}"), made)

    def beside(self) -> None:
        """Combine two values that broadcast; one value may be both."""
        ops: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
            ("plus", lambda a, b: a + b), ("times", lambda a, b: a * b),
            ("minus", lambda a, b: a - b),
        )  # fmt: skip
        last = len(self.values) - 1
        for other in self.rng.permutation(last + 1):
            a, b = self.values[last], self.values[int(other)]
            if a.dtype != b.dtype or not _fit(a.shape, b.shape):
                continue
            told, op = ops[int(self.rng.integers(len(ops)))]
            pair = (last, int(other)) if self.rng.random() < 0.5 else (int(other), last)
            made = np.asarray(op(*(self.values[k] for k in pair)))
            if made.size <= _MOST_ELEMENTS and np.abs(made).max(initial=0) < 99:
                self._append(Step(pair, op, op, f"{pair[0]} {told} {pair[1]}"), made)
                return

    def _append(self, step: Step, made: Array) -> None:
        self.steps.append(step)
        self.values.append(made)

    def move(self, at: int) -> None:
        """Append a movement: now and then one of the kind of the last, right after it."""
        make, again = MOVES[int(self.rng.integers(len(MOVES)))], self.rng.random()
        self.add(make, at)
        for _ in range(1 if 0.1 < again < 0.4 else 2 if again <= 0.1 else 0):
            self.add(make, len(self.values) - 1)

    def source(self) -> int:
        """Return the last value, or now and then an earlier one, which is read again."""
        last = len(self.values) - 1
        return last if self.rng.random() < 0.75 else int(self.rng.integers(last + 1))

    def finish(self) -> None:
        """Choose the results: the last value, and some that are read as well."""
        last, first = len(self.values) - 1, len(self.given)
        more = [k for k in range(first, last) if self.rng.random() < 0.3]
        self.results = [int(k) for k in self.rng.permutation([last, *more])]

    def run(self, given: Any, way: str) -> list[Any]:
        """Return the results by calor (``call``) or by NumPy (``meaning``)."""
        values = list(given)
        for step in self.steps:
            values.append(getattr(step, way)(*(values[k] for k in step.sources)))
        return [values[k] for k in self.results]

    @property
    def told(self) -> str:
        first = len(self.given)
        steps = "; ".join(f"{first + n}: {s.told}" for n, s in enumerate(self.steps))
        shapes = ", ".join(f"{x.dtype}{list(x.shape)}" for x in self.given)
        return f"of {shapes}: {steps}; results {self.results}"


def _fit(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        return bool(np.broadcast_shapes(a, b) is not None)
    except ValueError:
        return False


def _shape(rng: Rng) -> tuple[int, ...]:
    # A wrong order of axes has another shape, or on equal lengths another content.
    rank = int(rng.choice((2, 3, 3, 3, 4)))
    if rng.random() < 0.4:
        return (2 if rank > 3 else 3,) * rank
    return tuple(int(n) for n in rng.permutation((2, 3, 4, 2, 3))[:rank])


def _whole(rng: Rng, shape: tuple[int, ...], dtype: DType) -> Array:
    return np.asarray(rng.integers(1, 7, shape) * rng.choice((-1, 1), shape)).astype(dtype.numpy)


def _between(kind: str, rng: Rng) -> Callable[[Rng, Array], Pair]:
    """Return what stands between movements."""
    some = {"moves": (_scaled, _masked, _summed), "casts": (_cast, _cast, _scaled, _masked),
            "bits": (_bits, _bits, _scaled)}[kind]  # fmt: skip
    return some[int(rng.integers(len(some)))]


def _exact(kind: str, rng: Rng) -> Chain:
    """Draw a chain whose numbers are small and exact."""
    shape = _shape(rng)
    dtype = (float32, float32, float16 if kind != "moves" else int32)[int(rng.integers(3))]
    axis = int(rng.integers(len(shape)))
    vector = _whole(rng, shape[axis : axis + 1], (float32, float16)[int(rng.integers(2))])
    array = _whole(rng, shape, dtype)
    if kind == "casts" and dtype is float32:
        # Digits that a half type and an integer lack.
        array += np.asarray(rng.integers(0, 64, shape), np.float32) / 1024
    chain = Chain(rng, [array, vector])
    for number in range(int(rng.integers(2, 5))):
        start = 0 if not number else chain.source()
        chain.move(start)
        if rng.random() < (0.4 if kind == "moves" else 0.7):
            at = chain.source()
            fits = kind != "bits" or chain.values[at].dtype.kind == "f"
            if np.abs(chain.values[at]).max(initial=0) < 50 and fits:
                chain.add(_between(kind, rng), at)
                if kind == "casts" and rng.random() < 0.4:
                    chain.add(partial(_back, chain.values[at].dtype), len(chain.values) - 1)
        if rng.random() < 0.3:
            chain.beside()
    if kind == "casts" and rng.random() < 0.5:
        _spread_half(chain, rng)
    chain.finish()
    return chain


def _spread_half(chain: Chain, rng: Rng) -> None:
    """A converted vector that is read as it is, spread over another value, and a result."""
    wide = float32 if chain.values[1].dtype == np.float16 else float16
    chain.add(lambda r, a: (lambda t: t.astype(wide), lambda x: x.astype(wide.numpy),
                            f"to {wide}"), 1)  # fmt: skip
    for _ in range(2):
        chain.add(_spread, len(chain.values) - 1)
    chain.beside()


def _run_exact(kind: str, place: Place) -> None:
    number = ("moves", "casts", "bits").index(kind)
    for count in range(_PROGRAMS):
        if not place.tries(count, 40):
            continue
        rng = np.random.default_rng([place.seed, 501, number, count])
        with np.errstate(all="ignore"):
            chain = _exact(kind, rng)
            wants = chain.run(chain.given, "meaning")
        tensors = [calor.asarray(x) for x in chain.given]
        # A program that is jitted, and the same steps as they are recorded.
        jitted = calor.jit(lambda *given, chain=chain: chain.run(given, "call"))(*tensors)
        ways = [("jitted", jitted)]
        if place.interpreted and count % 3 == 0:
            ways.append(("at once", chain.run(tensors, "call")))
        for how, made in ways:
            for k, got, want in zip(chain.results, made, wants, strict=True):
                _compare(got, np.asarray(want), f"value {k} {how}, {chain.told}")


def _compare(made: Any, want: Array, told: str) -> None:
    got = made.numpy()
    assert got.dtype == want.dtype, f"{told}: {got.dtype}, not {want.dtype}"
    assert got.shape == want.shape, f"{told}: shape {got.shape}, not {want.shape}"
    same = same_bits(got, want)
    assert same.all(), f"{told}: {got.tolist()}, not {want.tolist()}"


def _smooth(rng: Rng) -> Chain:
    """Draw a chain that complex numbers go through."""
    shape = _shape(rng)[:3]
    axis = int(rng.integers(len(shape)))
    given = [rng.uniform(0.2, 1.5, s) for s in (shape, shape[axis : axis + 1])]
    chain = Chain(rng, [x.astype(np.float32) for x in given])
    for number in range(int(rng.integers(2, 5))):
        chain.move(0 if not number else chain.source())
        if rng.random() < 0.4:
            chain.add((_curved, _masked, _total)[int(rng.integers(3))], chain.source())
        if rng.random() < 0.5:
            chain.beside()
    # A part that is read again, beside others.
    chain.beside()
    chain.finish()
    return chain


def _slopes(chain: Chain, weights: list[Array]) -> list[Array]:
    """Return the gradient of the weighed sum of the results, by complex steps."""
    found = []
    for n, x in enumerate(chain.given):
        made = np.zeros(x.shape)
        for at in np.ndindex(x.shape):
            given = [a.astype(np.complex128) for a in chain.given]
            given[n][at] += 1j * _STEP
            results = chain.run(given, "meaning")
            total = sum(np.sum(w * r) for w, r in zip(weights, results, strict=True))
            made[at] = total.imag / _STEP
        found.append(made)
    return found


def _run_slopes(place: Place) -> None:
    for count in range(_PROGRAMS // 3):
        if not place.tries(count, 20):
            continue
        rng = np.random.default_rng([place.seed, 502, count])
        chain = _smooth(rng)
        shapes = [np.shape(chain.values[k]) for k in chain.results]
        weights = [rng.integers(-3, 4, s).astype(np.float32) for s in shapes]
        wants = _slopes(chain, weights)

        def total(*given: Any, chain: Chain = chain, weights: Any = weights) -> Any:
            made = zip(weights, chain.run(given, "call"), strict=True)
            return sum(calor.sum(calor.asarray(w) * y) for w, y in made)

        slope = calor.grad(total, argnums=(0, 1))
        if not place.interactive or count % 2:
            slope = calor.jit(slope)
        found = slope(*map(calor.asarray, chain.given))
        for n, (got, want) in enumerate(zip(found, wants, strict=True)):
            off = np.abs(got.numpy() - want).max()
            within = _NEAR * (1 + np.abs(want).max())
            assert off <= within, (
                f"the gradient by {n} of {chain.told} is {got.tolist()}, not {want.tolist()}"
            )


def chains_of_moves() -> Iterator[Check]:
    """Yield a check of chains with elementwise ops, conversions or bits, and of gradients."""
    for kind in ("moves", "casts", "bits"):
        yield Check(
            kind="jit",
            subject=f"chains-of-{kind}",
            tier="compiled",
            contract=CONTRACT,
            run=partial(_run_exact, kind),
            text=partial(inspect.getsource, _exact),
            op="bitcast" if kind == "bits" else "permute",
            dtypes=(float32, float16, int32, *((int16, int8) if kind != "moves" else ())),
            looks=True,
        )
    yield Check(
        kind="jit-gradient",
        subject="chains-of-moves",
        tier="training",
        contract=CONTRACT,
        run=_run_slopes,
        text=partial(inspect.getsource, _smooth),
        op="permute",
        dtypes=(float32,),
        looks=True,
    )
