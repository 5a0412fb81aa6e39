"""Jacobians, Hessians, derivatives of one's own, calls of the host, and dtypes by default.

Jacobians are compared element by element with differences in double precision, in each structure of
arguments; what a program asks the host is compared with what the host was asked.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor import dtypes
from calor.dtypes import bfloat16, complex64, complex128, float16, float32, float64, int32, int64
from calor.errors import ArgumentError, CalorError

from .base import Array, Check, Place, members

CONTRACT: Final = "a whole derivative, a call of the host and a default are what they say"
Rng = np.random.Generator
_STEP: Final = 1e-5


def _near(got: Any, want: Any, what: str, bound: float = 1e-3) -> None:
    made, want = np.asarray(got.numpy(), np.float64), np.asarray(want, np.float64)
    assert made.shape == want.shape, f"{what}: shape {made.shape}, not {want.shape}"
    off = np.abs(made - want)
    assert np.all(off <= bound * (1 + np.abs(want))), (
        f"{what}: {made.tolist()}, not {want.tolist()}"
    )


def _tensors(*arrays: Array) -> list[Any]:
    return [calor.asarray(np.asarray(a, np.float32)) for a in arrays]


def _function(lib: Any, x: Any, w: Any) -> Any:
    """Return two rows of a matrix (3, 2) and a vector (3), of which each element counts."""
    return lib.stack([lib.tanh(w @ x) * x[0], w[:, 0] * lib.exp(x[1] * 0.3)])


def _jacobian(of: Callable[..., Array], given: list[Array], place: int) -> Array:
    """Return the differences by each element of an argument."""
    base = [a.astype(np.float64) for a in given]
    columns = []
    for at in np.ndindex(*base[place].shape):
        ends = []
        for by in (_STEP, -_STEP):
            moved = [a.copy() for a in base]
            moved[place][at] += by
            ends.append(np.asarray(of(*moved)))
        columns.append((ends[0] - ends[1]) / (2 * _STEP))
    made = np.stack(columns, -1)
    return made.reshape(*made.shape[:-1], *base[place].shape)


def _jacobians(rng: Rng) -> None:
    x, w = rng.normal(size=2), rng.normal(size=(3, 2))
    given = [np.asarray(a, np.float32) for a in (x, w)]
    ours, theirs = partial(_function, calor), partial(_function, np)
    wants = [_jacobian(theirs, given, n) for n in (0, 1)]
    for name in ("jacrev", "jacfwd"):
        whole: Any = getattr(calor, name)
        for wrap, what in ((lambda f: f, name), (calor.jit, f"jitted {name}")):
            _near(wrap(whole(ours))(*_tensors(*given)), wants[0], what)
            _near(wrap(whole(ours, 1))(*_tensors(*given)), wants[1], f"{what} by the second")
            both = wrap(whole(ours, argnums=(1, 0)))(*_tensors(*given))
            assert isinstance(both, tuple), f"{what} by both: {type(both)}"
            _near(both[0], wants[1], f"{what} by both, the first")
            _near(both[1], wants[0], f"{what} by both, the second")
        made, aux = whole(lambda a, b: (ours(a, b), {"n": a * 2}), has_aux=True)(*_tensors(*given))
        _near(made, wants[0], f"{name} with more")
        _near(aux["n"], given[0] * 2, f"what {name} has besides")
        tree = whole(lambda held: {"y": ours(held["x"], held["w"]), "z": held["x"] ** 2})(
            dict(zip(("x", "w"), _tensors(*given), strict=True))
        )
        _near(tree["y"]["x"], wants[0], f"{name} of a tree")
        _near(tree["y"]["w"], wants[1], f"{name} of a tree, the other leaf")
        _near(tree["z"]["x"], np.diag(2 * given[0]), f"{name} of a tree, the other result")
        _near(tree["z"]["w"], np.zeros((2, 3, 2)), f"{name} of what does not depend on a leaf")
        mapped = calor.vmap(whole(ours), in_axes=(0, None))
        many = np.stack([given[0], given[0] * 0.5])
        _near(mapped(*_tensors(many, given[1])), np.stack([
            _jacobian(theirs, [row, given[1]], 0) for row in many]), f"mapped {name}")  # fmt: skip


def _hessians(rng: Rng) -> None:
    x, y = (np.asarray(rng.normal(size=3), np.float32) for _ in range(2))

    def loss(lib: Any, a: Any, b: Any) -> Any:
        return lib.sum(lib.exp(a * 0.5) * b) + a[0] * a[1] * b[2] + lib.sum(a * a * a) * 0.2

    a, b = x.astype(np.float64), y.astype(np.float64)
    want = np.diag(np.exp(a * 0.5) * b * 0.25 + 1.2 * a)
    want[0, 1] = want[1, 0] = b[2]
    across = np.diag(np.exp(a * 0.5) * 0.5)
    across[0, 2], across[1, 2] = across[0, 2] + a[1], across[1, 2] + a[0]
    for wrap in (lambda f: f, calor.jit):
        _near(wrap(calor.hessian(partial(loss, calor)))(*_tensors(x, y)), want, "hessian")
        made = wrap(calor.hessian(partial(loss, calor), argnums=(0, 1)))(*_tensors(x, y))
        _near(made[0][0], want, "hessian by both, twice by the first")
        _near(made[0][1], across, "hessian by both, across")
        _near(made[1][0], across.T, "hessian by both, across the other way")
        _near(made[1][1], np.zeros((3, 3)), "hessian by both, twice by the second")
    made, aux = calor.hessian(lambda t: (calor.sum(t**3), t), has_aux=True)(*_tensors(x))
    _near(made, np.diag(6 * x), "hessian with more")
    _near(aux, x, "what hessian has besides")


def _own_derivatives(rng: Rng) -> None:
    """A derivative of one's own, three times the true one, forward and backward."""
    x, w = (np.asarray(rng.normal(size=3), np.float32) for _ in range(2))

    @calor.custom_jvp
    def product(a: Any, b: Any) -> Any:
        return calor.sin(a) * b

    def rule(primals: Any, tangents: Any) -> Any:
        (a, b), (da, db) = primals, tangents
        return product(a, b), 3 * (calor.cos(a) * b * da + calor.sin(a) * db)

    product.defjvp(rule)
    along = [np.asarray(rng.normal(size=3), np.float32) for _ in range(2)]
    slope = 3 * (np.cos(x) * w * along[0] + np.sin(x) * along[1])
    for wrap in (lambda f: f, calor.jit):
        value, moved = wrap(lambda a, b, da, db: calor.jvp(product, (a, b), (da, db)))(
            *_tensors(x, w, *along)
        )
        _near(value, np.sin(x) * w, "the value")
        _near(moved, slope, "its derivative forward")
        found = wrap(calor.grad(lambda a, b: calor.sum(product(a, b) * 2), argnums=(0, 1)))(
            *_tensors(x, w)
        )
        _near(found[0], 6 * np.cos(x) * w, "its derivative backward")
        _near(found[1], 6 * np.sin(x), "its derivative backward, by the second")
    mapped = calor.vmap(calor.grad(lambda a, b: product(a, b)))(*_tensors(x, w))
    _near(mapped, 3 * np.cos(x) * w, "mapped")
    only = calor.jvp(lambda a: product(a, calor.asarray(w)), (calor.asarray(x),), (
        calor.asarray(along[0]),))[1]  # fmt: skip
    _near(only, 3 * np.cos(x) * w * along[0], "forward by one operand")


def _callbacks(rng: Rng) -> None:
    """Calls of the host, alone, jitted, in loops and mapped."""
    x = np.asarray(rng.normal(size=(2, 3)), np.float32)
    seen: list[Any] = []

    def host(a: Array, factor: float) -> Any:
        seen.append(a)
        return a * factor, a.sum(0, dtype=np.float32)

    t = calor.asarray(x)
    shapes = t, calor.specs.spec((3,), float32)
    for wrap in (lambda f: f, calor.jit):
        run = wrap(lambda a: calor.callback(host, shapes, a * 2, 3.0))
        for turn in range(2):
            first, second = run(calor.asarray(x + turn))
            _near(first, (x + turn) * 6, "what the host returns")
            _near(second, (x + turn).sum(0) * 2, "the other result")
    assert isinstance(seen[0], np.ndarray), f"the host gets {type(seen[0])}"
    assert not seen[0].flags.writeable, "the host may write to what it gets"
    order: list[float] = []

    def note(a: Array) -> None:
        order.append(float(a))

    def loop(a: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            calor.callback(note, None, c, ordered=True)
            return c + 1

        return calor.fori_loop(0, 3, step, a)

    for wrap in (lambda f: f, calor.jit):
        order.clear()
        _near(wrap(loop)(calor.asarray(np.float32(5))), 8.0, "a loop with calls")
        assert order == [5.0, 6.0, 7.0] * members(), f"calls in order: {order}"
    number = calor.specs.spec((), float32)
    totals = calor.vmap(lambda a: calor.callback(lambda v: v.sum(), number, a))(t)
    _near(totals, x.sum(1), "mapped calls")

    def fails(a: Array) -> Any:
        raise LookupError("the host says no")

    def small(a: Array) -> Any:
        return a[:1]

    for host_call in (fails, small):

        def call(a: Any, host_call: Any = host_call) -> Any:
            return calor.callback(host_call, a, a)

        _refused(partial(_looked_at, call, t), LookupError, CalorError)
        _refused(partial(_looked_at, calor.jit(call), t), LookupError, CalorError)


def _looked_at(function: Any, *given: Any) -> Any:
    return function(*given).numpy()


def _refused(work: Callable[[], Any], *kinds: type[Exception]) -> None:
    try:
        made = work()
    except kinds:
        return
    raise AssertionError(f"{made} where it should raise {kinds}")


def _defaults(rng: Rng) -> None:
    """The dtype of what has none, in contexts that nest and end."""

    def kinds() -> tuple[Any, ...]:
        made = (calor.asarray(0.5), calor.zeros(2), calor.ones(2), calor.full((1,), 0.5),
                calor.linspace(0, 1, 3), calor.arange(0.5, 2.0), calor.eye(2),
                calor.sqrt(calor.asarray([1, 2])), calor.asarray([1, 2]) / 2,
                calor.mean(calor.asarray([1, 2])))  # fmt: skip
        return tuple(t.dtype for t in made)

    want = {float32: complex64, float64: complex128, bfloat16: complex64, float16: complex64}
    assert set(kinds()) == {float32}, f"{kinds()}"
    for dtype, wide in want.items():
        with calor.default_dtype(dtype):
            assert set(kinds()) == {dtype}, f"within {dtype.name}: {kinds()}"
            assert calor.asarray(1j).dtype is wide, (
                f"within {dtype.name}: {calor.asarray(1j).dtype}"
            )
            assert calor.asarray(1).dtype is int64, "integers have a default of their own"
            assert calor.zeros(2, dtype=int32).dtype is int32, "what is asked for"
            array = np.zeros(2, np.float32)
            assert calor.asarray(array).dtype is float32, "an array keeps its dtype"
            with calor.default_dtype(float32):
                assert set(kinds()) == {float32}, "a context within"
            assert set(kinds()) == {dtype}, "after a context within"
        assert set(kinds()) == {float32}, f"after {dtype.name}"
    _refused(_fails_within, LookupError)
    assert set(kinds()) == {float32}, "after an error"
    try:
        calor.set_default_dtype("float64")
        assert set(kinds()) == {float64}, "set_default_dtype"
    finally:
        calor.set_default_dtype(float32)
    assert set(kinds()) == {float32}, "set_default_dtype back"
    _refused(lambda: calor.set_default_dtype("int32"), CalorError)
    a, b = (calor.asarray(np.asarray(rng.normal(size=(3, 3)), np.float32)) for _ in range(2))
    want_product = a.numpy().astype(np.float64) @ b.numpy()
    for level in ("highest", "direct", "high", "tf32"):
        with calor.matmul_precision(level):
            _near(a @ b, want_product, level, 3e-3)
    _refused(lambda: _within(calor.matmul_precision("low")), ArgumentError)


def _within(context: Any) -> None:
    with context:
        pass


def _fails_within() -> None:
    with calor.default_dtype(float64):
        raise LookupError


_KINDS: Final = {
    "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu",
    "complex floating": "c", "numeric": "iufc", "real floating": "f",
}  # fmt: skip


def _questions(rng: Rng) -> None:
    """What is asked of dtypes, beside NumPy's."""
    plain = [d for d in dtypes.ALL if d.numpy.kind in "biufc" and d.kind != "storage"]
    for d in plain:
        for kind, letters in _KINDS.items():
            want = d.numpy.kind in letters
            assert calor.isdtype(d, kind) == want, f"isdtype({d.name}, {kind!r})"
        assert calor.isdtype(d, d), d.name
        assert calor.isdtype(d, (int32, "real floating")) == (d is int32 or d.numpy.kind == "f")
        for other in plain:
            assert calor.isdtype(d, other) == (d is other), f"isdtype({d.name}, {other.name})"
            pair = d.numpy.kind, other.numpy.kind
            if pair[0] in "iu" and pair[1] in "fc":
                assert not calor.can_cast(d, other), f"can_cast({d.name}, {other.name})"
            elif (set(pair) <= set("fc") and d.numpy.itemsize != other.numpy.itemsize) or (
                set(pair) <= set("iu")):  # fmt: skip
                try:
                    want = np.can_cast(d.numpy, other.numpy)
                except TypeError:
                    continue
                assert calor.can_cast(d, other) == want, f"can_cast({d.name}, {other.name})"
        if d.numpy.kind in "iu":
            made, limits = calor.iinfo(d), np.iinfo(d.numpy)
            told = made.bits, made.max, made.min, made.dtype
            assert told == (limits.bits, limits.max, limits.min, d), f"iinfo({d.name}): {told}"
            assert calor.iinfo(calor.zeros(1, dtype=d)).max == limits.max, "iinfo of a tensor"
        if d.numpy.kind in "fc":
            of, ends = calor.finfo(d), np.finfo(d.numpy)
            shown = of.bits, of.max, of.min, of.eps, of.smallest_normal
            known = (ends.bits, float(ends.max), float(ends.min), float(ends.eps),
                     float(ends.smallest_normal))  # fmt: skip
            assert shown == known, f"finfo({d.name}): {shown}, not {known}"
    for n in (1, 4, 5):
        for step in (1.0, 0.25):
            _near(calor.fft.fftfreq(n, d=step), np.fft.fftfreq(n, step), f"fftfreq({n}, {step})")
            _near(calor.fft.rfftfreq(n, d=step), np.fft.rfftfreq(n, step), f"rfftfreq({n}, {step})")


class _Pair:
    def __init__(self, first: Any, second: Any, tag: str) -> None:
        self.first, self.second, self.tag = first, second, tag


calor.tree.register(
    _Pair,
    lambda p: ((p.first, p.second), p.tag),
    lambda tag, children: _Pair(children[0], children[1], str(tag)),
)


def _trees(rng: Rng) -> None:
    """Structures of drawn containers, there and back, also through transforms."""
    count = 0

    def build(depth: int) -> Any:
        nonlocal count
        kind = int(rng.integers(5)) if depth < 3 else 4
        inner = [build(depth + 1) for _ in range(int(rng.integers(1, 3)))] if kind < 4 else []
        if kind == 0:
            return inner
        if kind == 1:
            return tuple(inner)
        if kind == 2:
            return {f"k{9 - n}": one for n, one in enumerate(inner)}
        if kind == 3:
            return _Pair(inner[0], inner[-1] if len(inner) > 1 else None, "tag")
        count += 1
        return calor.asarray(np.float32(count))

    tree = [build(0), {"b": build(1), "a": build(1)}]
    leaves, structure = calor.tree.flatten(tree)
    assert len(leaves) == len(calor.tree.leaves(tree)), "leaves"
    numbers = sorted(t.item() for t in leaves)
    assert numbers == [float(n + 1) for n in range(count)], f"leaves: {numbers}"
    back = calor.tree.unflatten(structure, leaves)
    _alike(back, tree)
    doubled = calor.tree.map(lambda t: t * 2, tree)
    assert [t.item() for t in calor.tree.leaves(doubled)] == [2 * t.item() for t in leaves]
    both = calor.tree.map(lambda a, b: a + b, tree, doubled)
    assert [t.item() for t in calor.tree.leaves(both)] == [3 * t.item() for t in leaves]
    jitted = calor.jit(lambda held: calor.tree.map(lambda t: t + 1, held))(tree)
    assert [t.item() for t in calor.tree.leaves(jitted)] == [t.item() + 1 for t in leaves]
    found = calor.grad(lambda held: sum(t * t.detach() for t in calor.tree.leaves(held)))(tree)
    assert [t.item() for t in calor.tree.leaves(found)] == [t.item() for t in leaves]
    _alike(found, tree)


def _alike(one: Any, other: Any) -> None:
    assert type(one) is type(other), f"{type(one)} and {type(other)}"
    if isinstance(other, _Pair):
        assert one.tag == other.tag, "what a container says besides"
        _alike([one.first, one.second], [other.first, other.second])
    elif isinstance(other, dict):
        assert list(one) == list(other), f"keys {list(one)}, not {list(other)}"
        _alike(list(one.values()), list(other.values()))
    elif isinstance(other, list | tuple):
        assert len(one) == len(other), "the length of a container"
        for a, b in zip(one, other, strict=True):
            _alike(a, b)


_ASPECTS: Final[dict[str, Callable[[Rng], None]]] = {
    "jacobians": _jacobians, "hessians": _hessians, "own-derivatives-forward": _own_derivatives,
    "calls-of-the-host": _callbacks, "default-dtypes": _defaults, "questions-of-dtypes": _questions,
    "trees": _trees,
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    _ASPECTS[name](np.random.default_rng([place.seed, list(_ASPECTS).index(name)]))


def whole_derivatives() -> Iterator[Check]:
    """Yield a check of each of these."""
    for name, aspect in _ASPECTS.items():
        yield Check(
            kind="transforms",
            subject=name,
            tier="training",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, aspect),
            dtypes=(float32, float64, int32, int64),
            features=("control_flow",) if name == "calls-of-the-host" else (),
            looks=True,
        )
