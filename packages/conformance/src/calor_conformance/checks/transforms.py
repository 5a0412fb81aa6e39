"""Transforms: each program in each way to call it, compared with its meaning in double precision.

Programs are those in which a transform decides something: what is held constant, what a loop
carries, which branch is taken, what is computed again. Ways are those in which users call a
function: op by op and jitted, of sizes that vary, within a limit, mapped, and differentiated
forward, backward and through tensors that collect gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32

from ..rows.definitions import source_of, written
from .base import Array, Check, Place, Tier

CONTRACT: Final = "a program means the same in every way to call it, and so do its derivatives"
_SHAPES: Final = ((3, 4), (4, 4))
_STEP: Final = 1e-5
# Of results, and of derivatives beside differences.
_NEAR, _SLOPES = 1e-4, 2e-3
Function = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Program:
    """A function of two tensors.

    ``run`` computes it. ``meaning`` takes the arrays, and those that the parts without gradient
    read, which stay while the others move. ``loops``: whether it has loops or branches, and whether
    they have a gradient backward. ``forward``: whether it has a derivative forward.
    """

    run: Function
    meaning: Callable[[Array, Array, Array, Array], Any]
    loops: bool = False
    backward: bool = True
    forward: bool = True


def _products(lib: Any, x: Any, w: Any) -> Any:
    return lib.matmul(lib.tanh(lib.matmul(x, w)), lib.permute_dims(w, (1, 0))) * x


def _norms(lib: Any, x: Any, w: Any) -> Any:
    for _ in range(3):
        x = x - lib.sum(x, axis=1, keepdims=True) / 4
        x = lib.matmul(x / lib.sqrt(lib.sum(x * x, axis=1, keepdims=True) / 4 + 1), w)
    return lib.exp(x * 0.1)


def _shares(lib: Any, x: Any, w: Any) -> Any:
    powers = lib.exp(lib.matmul(x, w) * 0.3)
    return powers / lib.sum(powers, axis=1, keepdims=True) * x[::-1]


def _quiet_first(x: Any, w: Any) -> Any:
    with calor.no_grad():
        held = x * x
    return held * x + calor.sum(w)


def _quiet_middle(x: Any, w: Any) -> Any:
    made = calor.matmul(x, w)
    with calor.no_grad():
        held = made * made
    return held * made + x


def _quiet_last(x: Any, w: Any) -> Any:
    made = calor.matmul(x, w)
    with calor.no_grad():
        held = made * x
        last = held + 1
    return made + last


def _quiet_within(x: Any, w: Any) -> Any:
    with calor.no_grad():
        held = x * 3
        with calor.enable_grad():
            moving = calor.matmul(x, w)
        held = held * held
    return held * moving


def _quiet_twice(x: Any, w: Any) -> Any:
    with calor.no_grad():
        first = x + 1
    made = first * x
    with calor.no_grad():
        second = made * 2
    return second * made + calor.stop_gradient(made) * x


def _branch(x: Any, w: Any) -> Any:
    one = calor.cond(calor.sum(x) > 0, lambda a, b: a @ b, lambda a, b: a - b[0], x, w)
    other = calor.cond(calor.sum(x) < 0, lambda a, b: a * 2, lambda a, b: calor.exp(a * 0.1), x, w)
    return one * other


def _branch_meaning(x: Array, w: Array, x0: Array, w0: Array) -> Array:
    up = x0.sum() > 0
    one = x @ w if up else x - w[0]
    other = x * 2 if x0.sum() < 0 else np.exp(x * 0.1)
    return np.asarray(one * other)


def _scanned(x: Any, w: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        a, b = carry
        made = calor.tanh(a @ calor.permute_dims(w, (1, 0)) + row[::-1] * b)
        return (made, b * 0.5 + row), made * w[1]

    (last, other), every = calor.scan(step, (x[0], x[1] * 2), x, reverse=True)
    return every + last - other


def _scanned_meaning(x: Array, w: Array, x0: Array, w0: Array) -> Array:
    a, b = x[0], x[1] * 2
    every = [a] * len(x)
    for n in reversed(range(len(x))):
        a, b = np.tanh(a @ w.T + x[n][::-1] * b), b * 0.5 + x[n]
        every[n] = a * w[1]
    return np.asarray(np.stack(every) + a - b)


def _counted(x: Any, w: Any) -> Any:
    return calor.fori_loop(0, 3, lambda i, c: calor.tanh(c @ w) + x * 0.1, x) + x


def _counted_meaning(x: Array, w: Array, x0: Array, w0: Array) -> Array:
    made = x
    for _ in range(3):
        made = np.tanh(made @ w) + x * 0.1
    return np.asarray(made + x)


def _while(carries: int) -> Function:
    def run(x: Any, w: Any) -> Any:
        def step(carry: Any) -> Any:
            first, *more = carry
            return [calor.tanh(first @ w) * 0.5 + 1, *(m * 0.7 + first for m in more)]

        begin = [x, *(x * (k + 1) for k in range(carries - 1))]
        made = calor.while_loop(lambda c: calor.sum(c[0] * c[0]) > 1e9, step, step(step(begin)))
        total = made[0]
        for k, m in enumerate(made[1:]):
            total = total * 0.5 + m * (k + 2)
        return total

    return run


def _while_meaning(carries: int) -> Callable[[Array, Array, Array, Array], Array]:
    def meaning(x: Array, w: Array, x0: Array, w0: Array) -> Array:
        first, more = x, [x * (k + 1) for k in range(carries - 1)]
        for _ in range(2):
            first, more = np.tanh(first @ w) * 0.5 + 1, [m * 0.7 + first for m in more]
        total = first
        for k, m in enumerate(more):
            total = total * 0.5 + m * (k + 2)
        return np.asarray(total)

    return meaning


def _again(x: Any, w: Any) -> Any:
    layer = calor.checkpoint(lambda a, b: calor.tanh(calor.tanh(a @ b) @ b))
    return layer(layer(x, w) + x, w) * x


def _again_meaning(x: Array, w: Array, x0: Array, w0: Array) -> Array:
    def layer(a: Array) -> Array:
        return np.asarray(np.tanh(np.tanh(a @ w) @ w))

    return layer(layer(x) + x) * x


@calor.custom_vjp
def _doubled(x: Any, w: Any) -> Any:
    """The product, with a gradient of its own: twice that of the product."""
    return x @ w


def _doubled_forward(x: Any, w: Any) -> Any:
    return x @ w, (x, w)


def _doubled_backward(kept: Any, g: Any) -> Any:
    x, w = kept
    return (g @ w.T) * 2, (x.T @ g) * 2


_doubled.defvjp(_doubled_forward, _doubled_backward)


def _custom(x: Any, w: Any) -> Any:
    return calor.tanh(_doubled(x * 2, w)) + _doubled(x, w + 1)


def _custom_meaning(x: Array, w: Array, x0: Array, w0: Array) -> Array:
    def doubled(a: Array, b: Array, a0: Array, b0: Array) -> Array:
        # It moves twice as far from where it is.
        return np.asarray(2 * (a @ b) - a0 @ b0)

    return np.asarray(np.tanh(doubled(x * 2, w, x0 * 2, w0)) + doubled(x, w + 1, x0, w0 + 1))


def _plain(function: Callable[[Any, Any, Any], Any]) -> Program:
    return Program(partial(function, calor), lambda x, w, x0, w0: function(np, x, w))


def _quiet_within_meaning(x: Array, w: Array, x0: Array, w0: Array) -> Array:
    return np.asarray((x0 * 3) ** 2 * (x @ w))


def _quiet_twice_meaning(x: Array, w: Array, x0: Array, w0: Array) -> Array:
    made, held = (x0 + 1) * x, (x0 + 1) * x0
    return np.asarray(held * 2 * made + held * x)


PROGRAMS: Final[dict[str, Program]] = {
    "products": _plain(_products),
    "norms": _plain(_norms),
    "shares": _plain(_shares),
    "quiet-first": Program(_quiet_first, lambda x, w, x0, w0: x0 * x0 * x + w.sum()),
    "quiet-middle": Program(_quiet_middle, lambda x, w, x0, w0: (x0 @ w0) ** 2 * (x @ w) + x),
    "quiet-last": Program(_quiet_last, lambda x, w, x0, w0: x @ w + (x0 @ w0) * x0 + 1),
    "quiet-within": Program(_quiet_within, _quiet_within_meaning),
    "quiet-twice": Program(_quiet_twice, _quiet_twice_meaning),
    "branches": Program(_branch, _branch_meaning, True),
    "scan": Program(_scanned, _scanned_meaning, True),
    "counted-loop": Program(_counted, _counted_meaning, True),
    **{
        f"while-of-{n}": Program(_while(n), _while_meaning(n), True, False) for n in (1, 2, 3)
    },
    "checkpoints": Program(_again, _again_meaning),
    "own-gradient": Program(_custom, _custom_meaning, forward=False),
}  # fmt: skip


def _given(place: Place, turn: int) -> tuple[Array, Array]:
    rng = np.random.default_rng([place.seed, turn])
    x, w = (rng.normal(0.0, 0.7, shape) for shape in _SHAPES)
    # The sum of the first decides branches, and is far from zero.
    x += (0.5 if turn % 2 else -0.5) - x.mean()
    return x.astype(np.float32), w.astype(np.float32)


def _near(got: Any, want: Any, what: str, bound: float = _NEAR) -> None:
    made, want = got.numpy().astype(np.float64), np.asarray(want, np.float64)
    assert made.shape == want.shape, f"{what}: {made.shape}, not {want.shape}"
    size = 1 + np.abs(want).max(initial=0.0)
    off = np.abs(made - want)
    assert np.all(off <= bound * size), (
        f"{what}: {made.reshape(-1)[np.argmax(off)]}, not {want.reshape(-1)[np.argmax(off)]}"
    )


def _value(program: Program, arrays: tuple[Array, Array]) -> Array:
    x, w = (a.astype(np.float64) for a in arrays)
    return np.asarray(program.meaning(x, w, x, w))


def _slope(program: Program, arrays: tuple[Array, Array], tangents: list[Array]) -> Array:
    """Return the derivative along tangents; what the program holds constant stays."""
    base = [a.astype(np.float64) for a in arrays]
    ends = []
    for side in (_STEP, -_STEP):
        moved = [a + side * t for a, t in zip(base, tangents, strict=True)]
        ends.append(np.asarray(program.meaning(*moved, *base)))
    return np.asarray((ends[0] - ends[1]) / (2 * _STEP))


def _tangents(arrays: tuple[Array, Array], turn: int) -> list[Array]:
    rng = np.random.default_rng(turn + 70)
    return [np.asarray(rng.normal(size=a.shape)) for a in arrays]


def _tensors(arrays: Any) -> list[Any]:
    return [calor.asarray(np.asarray(a, np.float32)) for a in arrays]


# Each way takes a program and a place, and raises AssertionError.
Way = Callable[[Program, Place], None]


def _called(wrap: Callable[[Function], Function]) -> Way:
    def way(program: Program, place: Place) -> None:
        call = wrap(program.run)
        for turn in range(4):
            arrays = _given(place, turn)
            _near(call(*_tensors(arrays)), _value(program, arrays), f"call {turn + 1}")

    return way


def _at_sizes(program: Program, place: Place) -> None:
    call = calor.jit(program.run, dynamic=True)
    for turn, rows in enumerate((3, 3, 5, 4, 3)):
        x, w = _given(place, turn)
        x = np.resize(x, (rows, 4))
        _near(call(*_tensors((x, w))), _value(program, (x, w)), f"{rows} rows")


def _within(program: Program, place: Place) -> None:
    """Two programs of one signature within one limit."""
    other = PROGRAMS["products"] if program is not PROGRAMS["products"] else PROGRAMS["norms"]
    calls = [(p, calor.jit(p.run, memory_limit="1 MiB")) for p in (program, other)]
    for turn in range(2):
        for p, call in calls:
            arrays = _given(place, turn)
            _near(call(*_tensors(arrays)), _value(p, arrays), f"within a limit, turn {turn + 1}")


def _mapped(program: Program, place: Place) -> None:
    every = [_given(place, 2 * turn) for turn in range(3)]
    w = every[0][1]
    xs = np.stack([x for x, _ in every])
    made = calor.jit(calor.vmap(program.run, in_axes=(0, None)))(*_tensors((xs, w)))
    _near(made, np.stack([_value(program, (x, w)) for x in xs]), "mapped")


def _forward(wrap: Callable[[Function], Function]) -> Way:
    def way(program: Program, place: Place) -> None:
        def moved(x: Any, w: Any, dx: Any, dw: Any) -> Any:
            return calor.jvp(program.run, [x, w], [dx, dw])

        call: Any = wrap(moved)  # type: ignore[arg-type]
        for turn in range(3):
            arrays = _given(place, turn)
            tangents = _tangents(arrays, turn)
            made, slope = call(*_tensors([*arrays, *tangents]))
            _near(made, _value(program, arrays), f"call {turn + 1}")
            want = _slope(program, arrays, tangents)
            _near(slope, want, f"the derivative of call {turn + 1}", _SLOPES)

    return way


def _pulled(found: list[Any], program: Program, arrays: Any, g: Array, what: str) -> None:
    """Compare ⟨g, J v⟩ with ⟨Jᵀ g, v⟩ for directions of each operand alone."""
    tangents = _tangents(arrays, 1)
    for n, name in enumerate(("the first operand", "the second operand")):
        along: list[Array] = [np.where(k == n, t, 0.0) for k, t in enumerate(tangents)]
        terms = g * _slope(program, arrays, along)
        slope = np.zeros(arrays[n].shape) if found[n] is None else found[n].numpy()
        got, want = float(np.sum(slope * tangents[n])), float(np.sum(terms))
        size = 1 + float(np.abs(terms).sum())
        assert abs(got - want) <= _SLOPES * size, f"{what} by {name}: {got}, not {want}"


def _backward(wrap: Callable[[Any], Any], inside: Callable[[Function], Function]) -> Way:
    def way(program: Program, place: Place) -> None:
        def pulled(x: Any, w: Any, g: Any) -> Any:
            made, pull = calor.vjp(inside(program.run), x, w)
            return made, pull(g)

        call = wrap(pulled)
        for turn in range(3):
            arrays = _given(place, turn)
            g = _tangents((_value(program, arrays), arrays[1]), turn)[0]
            made, found = call(*_tensors([*arrays, g]))
            _near(made, _value(program, arrays), f"call {turn + 1}")
            _pulled(list(found), program, arrays, g, f"the gradient of call {turn + 1}")

    return way


def _structured(program: Program, place: Place) -> None:
    """Results and their cotangents in dicts, lists and tuples, of which parts may be None."""
    arrays = _given(place, 0)
    want = _value(program, arrays)
    g = _tangents((want, want), 5)
    forms: dict[str, Callable[[Any, Any], Any]] = {
        "tuple": lambda a, b: (a, b), "list": lambda a, b: [a, b],
        "dict": lambda a, b: {"one": a, "other": b}, "nested": lambda a, b: ([a], {"b": (b,)}),
    }  # fmt: skip
    for name, form in forms.items():

        def run(x: Any, w: Any, form: Any = form) -> Any:
            made = program.run(x, w)
            return form(made, made * 2)

        _, pull = calor.vjp(run, *_tensors(arrays))
        found = pull(form(*_tensors(g)))
        _pulled(list(found), program, arrays, g[0] + 2 * g[1], f"cotangents in a {name}")
        _, pull = calor.vjp(run, *_tensors(arrays))
        found = pull(form(None, *_tensors(g[1:])))
        _pulled(list(found), program, arrays, 2 * g[1], f"one cotangent and None in a {name}")


def _collected(wrap: Callable[[Any], Any]) -> Way:
    def way(program: Program, place: Place) -> None:
        def step(x: Any, w: Any) -> Any:
            loss = calor.sum(program.run(x, w))
            loss.backward()
            return loss

        call = wrap(step)
        for turn in range(3):
            arrays = _given(place, turn)
            tensors = _tensors(arrays)
            for t in tensors:
                t.requires_grad = True
            call(*tensors)
            found = [t.grad for t in tensors]
            one = np.ones(_value(program, arrays).shape)
            _pulled(found, program, arrays, one, f"what step {turn + 1} collected")

    return way


def _as_it_is(function: Any) -> Any:
    return function


# The tier of each way, whether it reads pending work, and whether it takes a gradient backward.
WAYS: Final[dict[str, tuple[Way, Tier, bool, bool]]] = {
    "op-by-op": (_called(_as_it_is), "compiled", True, False),
    "jitted": (_called(calor.jit), "compiled", False, False),
    "at-sizes": (_at_sizes, "compiled", False, False),
    "within-a-limit": (_within, "compiled", False, False),
    "mapped": (_mapped, "compiled", False, False),
    "forward": (_forward(_as_it_is), "training", True, False),
    "forward-jitted": (_forward(calor.jit), "training", False, False),
    "backward": (_backward(_as_it_is, _as_it_is), "training", True, True),
    "backward-jitted": (_backward(calor.jit, _as_it_is), "training", False, True),
    "backward-of-jitted": (_backward(_as_it_is, calor.jit), "training", True, True),
    "backward-within-a-limit": (
        _backward(partial(calor.jit, memory_limit="1 MiB"), _as_it_is), "training", False, True),
    "structures": (_structured, "training", True, True),
    "collected": (_collected(_as_it_is), "training", True, True),
    "collected-jitted": (_collected(calor.jit), "training", False, True),
}  # fmt: skip


def transforms() -> Iterator[Check]:
    """Yield a check of each program in each way."""
    for name, program in PROGRAMS.items():
        for way, (run, tier, looks, backward) in WAYS.items():
            if (backward and not program.backward) or ("forward" in way and not program.forward):
                continue
            yield Check(
                kind="transforms",
                subject=f"{name}-{way}",
                tier=tier,
                contract=CONTRACT,
                run=partial(run, program),
                text=partial(_text, program, run),
                dtype=float32,
                dtypes=(float32,),
                features=("control_flow",) if program.loops else (),
                looks=looks,
            )


def _text(program: Program, way: Way) -> str:
    return "\n".join([*map(source_of, (program.run, program.meaning)), written(way)])
