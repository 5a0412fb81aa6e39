"""``calor.vmap`` of what rows do not draw: places in small types, state, random numbers, host data.

Each is compared with a loop of NumPy over the elements. Axes, sizes beyond what a type of places
can count, which operands are mapped, and structures are drawn.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32, int8, int16, int32, int64, uint8, uint32
from calor.transforms.state import Stateful

from .base import Array, Check, Place

CONTRACT: Final = "a mapped function is the function of each element, in any form of its arguments"
_TURNS: Final = 4
Rng = np.random.Generator
Form = Callable[[Rng], None]
_KINDS: Final = ("int8", "uint8", "int16", "int32", "int64")


def _same(got: Any, want: Any, what: str) -> None:
    made, want = got.numpy(), np.asarray(want)
    assert made.shape == want.shape, f"{what}: shape {made.shape}, not {want.shape}"
    assert np.array_equal(made, want), f"{what}: {made.tolist()}, not {want.tolist()}"


def _whole(rng: Rng, *shape: int) -> Array:
    return np.asarray(rng.integers(-9, 10, shape), np.float32)


def _added(x: Array, places: Array, by: Array) -> Array:
    made = x.copy()
    np.add.at(made, places, by)
    return made


def _put(x: Any, places: Any, by: Any, add: bool) -> Any:
    made = x * 1
    if add:
        made[places] += by
    else:
        made[places] = by
    return made


def _put_array(x: Array, places: Any, by: Array) -> Array:
    made = x.copy()
    made[places] = by
    return made


# A function of an element (5, 2), of places, and of a row of numbers; the same of NumPy.
_READS: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any]]]] = {
    "one row": (lambda x, i, b: x[i[0]] * b[0], lambda x, i, b: x[i[0]] * b[0]),
    "rows": (lambda x, i, b: x[i], lambda x, i, b: x[i]),
    "columns": (lambda x, i, b: x[:, i % 2], lambda x, i, b: x[:, i % 2]),
    "pairs": (lambda x, i, b: x[i, i % 2] * b, lambda x, i, b: x[i, i % 2] * b),
    "taken": (lambda x, i, b: calor.take(x, i, axis=0), lambda x, i, b: np.take(x, i, axis=0)),
    "along": (
        lambda x, i, b: calor.take_along_axis(x, calor.stack([i, i], axis=1), axis=0),
        lambda x, i, b: np.take_along_axis(x, np.stack([i, i], axis=1).astype(np.int64), axis=0)),
    "written": (
        lambda x, i, b: _put(x, i[:1], b[:1, None], False),
        lambda x, i, b: _put_array(x, i[:1], b[:1, None])),
    "added": (lambda x, i, b: _put(x, i[:1], b[:1, None], True),
              lambda x, i, b: _added(x, i[:1], b[:1, None])),
    "written at pairs": (
        lambda x, i, b: _put(x, (i[:1], i[:1] % 2), b[:1], False),
        lambda x, i, b: _put_array(x, (i[:1], i[:1] % 2), b[:1])),
}  # fmt: skip


def _places(rng: Rng) -> None:
    kind, size = str(rng.choice(_KINDS)), int(rng.choice((1, 3, 130, 300)))
    arrays = (_whole(rng, size, 5, 2), rng.integers(0, 5, (size, 3)).astype(kind),
              _whole(rng, size, 3))  # fmt: skip
    mask = ((1, 1, 1), (0, 1, 1), (0, 1, 0), (1, 0, 0), (1, 1, 0), (1, 0, 1), (0, 0, 1))
    on = mask[int(rng.integers(len(mask)))]
    axes = [
        int(rng.integers(-a.ndim, a.ndim)) if m else None for a, m in zip(arrays, on, strict=True)
    ]
    given = [a[0] if axis is None else np.moveaxis(a, 0, axis)
             for a, axis in zip(arrays, axes, strict=True)]  # fmt: skip
    for name, (ours, theirs) in _READS.items():
        rows = [theirs(*(a[n if m else 0] for a, m in zip(arrays, on, strict=True)))
                for n in range(size)]  # fmt: skip
        call = calor.vmap(ours, in_axes=tuple(axes))
        _same(call(*map(calor.asarray, given)), np.stack(rows), f"{name} by {kind} of {size}, {on}")


class _Layer(Stateful):
    def __init__(self, weight: Array, seen: Array) -> None:
        self.parts: Any = [calor.asarray(weight), {"seen": calor.asarray(seen)}]
        self.scale, self.calls = 2, calor.asarray(np.int32(0))

    def __call__(self, x: Any) -> Any:
        self.parts[1]["seen"] += x
        return x * self.parts[0] * self.scale


def _state(rng: Rng) -> None:
    """Arguments and objects that are written to, and what is outside, which is written once."""
    size, axis = int(rng.integers(1, 5)), int(rng.integers(2))
    rows, weight = _whole(rng, size, 3), _whole(rng, size, 3)
    x, count = calor.asarray(np.moveaxis(rows, 0, axis)), calor.zeros(())

    def run(t: Any, by: Any) -> Any:
        nonlocal count
        count += 1
        t[1] = t[0] * by
        t += 1
        return t.sum()

    wanted = rows.copy()
    wanted[:, 1] = wanted[:, 0] * 2
    wanted += 1
    how = calor.jit if rng.random() < 0.5 else lambda f: f
    made = how(lambda t: calor.vmap(run, in_axes=(axis, None))(t, 2))(x)
    _same(made, wanted.sum(1), "sums of arguments that are written to")
    _same(x, np.moveaxis(wanted, 0, axis), "the arguments afterwards")
    _same(count, 1.0, "what is outside, written once")
    layer = _Layer(weight, rows)
    given = _whole(rng, size, 3)
    calls = calor.vmap(lambda held, t: held(t), in_axes=(0, 0))
    layer.calls = calor.asarray(np.zeros(size, np.int32))
    for turn in range(2):
        _same(calls(layer, calor.asarray(given)), given * weight * 2, f"objects, call {turn}")
        rows = rows + given
        _same(layer.parts[1]["seen"], rows, f"what objects hold after call {turn}")


def _random(rng: Rng) -> None:
    """Numbers of keys are those of each key; of a stream they differ, or are one for all."""
    size, number = int(rng.integers(2, 6)), int(rng.integers(1 << 30))
    keys = calor.random.split(calor.random.key(number), size)
    draws: dict[str, Callable[[Any], Any]] = {
        "uniform": lambda key: calor.random.uniform((3,), key=key),
        "normal": lambda key: calor.random.normal((2, 2), key=key),
        "integers": lambda key: calor.random.integers(0, 100, (3,), key=key),
        "bits": lambda key: calor.random.bits((2,), key=key),
        "permutation": lambda key: calor.random.permutation(6, key=key),
        "split": lambda key: calor.random.uniform((2,), key=calor.random.split(key, 2)[1]),
    }  # fmt: skip
    for name, draw in draws.items():
        want = np.stack([draw(keys[n]).numpy() for n in range(size)])
        _same(calor.vmap(draw)(keys), want, f"{name} at keys")
        same = calor.vmap(lambda t, draw=draw: draw(keys[0]) + t)(calor.zeros(size, dtype=int32))
        _same(same, np.stack([draw(keys[0]).numpy()] * size), f"{name} at one key")
    stream = calor.random.Generator(number)
    start = stream.state

    def drawn(t: Any) -> Any:
        return calor.random.uniform((4,), generator=stream) + t * 0

    one = drawn(calor.zeros(())).numpy()
    after = stream.state[1].tolist()
    x = calor.zeros(size)
    for how in (lambda f: f, calor.jit):
        stream.set_state(start)
        _same(how(calor.vmap(drawn, randomness="same"))(x), np.stack([one] * size), "the same")
        assert stream.state[1].tolist() == after, f"the stream after: {stream.state}"
        stream.set_state(start)
        found = how(calor.vmap(drawn, randomness="different"))(x).numpy()
        assert len(np.unique(found)) == found.size, f"numbers that repeat: {found.tolist()}"
        again = how(calor.vmap(drawn, randomness="different"))(x).numpy()
        assert len(np.unique(np.stack([found, again]))) == 2 * found.size, "the next ones repeat"
        stream.set_state(start)
        repeated = how(calor.vmap(drawn, randomness="different"))(x).numpy()
        assert np.array_equal(found, repeated), "another draw from one state"


def _forms(rng: Rng) -> None:
    """Host arrays, numbers, keywords, results that are no tensors, sizes of 0 and 1, and nests."""
    size = int(rng.choice((0, 1, 4)))
    a, b = _whole(rng, size, 2, 3), _whole(rng, 3)
    call = calor.vmap(lambda x, y, n, *, by: {"x": x @ y * n + by, "n": 2.5, "t": True, "k": 7},
                      in_axes=(0, None, None))  # fmt: skip
    made = call(a, calor.asarray(b), 3, by=calor.asarray(b[:2]))
    _same(made["x"], (a @ b * 3 + b[:2]).reshape(size, 2), "a host array and keywords")
    for key, value, dtype in (("n", 2.5, float32), ("t", True, calor.bool), ("k", 7, int64)):
        _same(made[key], np.full(size, value), f"the result {value}")
        assert made[key].dtype is dtype, f"the result {value}: {made[key].dtype}"
    x = calor.asarray(a)
    nested = calor.vmap(calor.vmap(lambda s, t: s * t, (0, None)), (1, 0), out_axes=1)
    both = nested(calor.asarray(np.moveaxis(a, 0, 1)), calor.asarray(a[:, 0, 0]))
    _same(both, np.moveaxis(a * a[:, :1, :1], 0, 1), "a map in a map")
    crossed = calor.vmap(lambda s: calor.vmap(lambda t: s - t)(calor.asarray(b)))(calor.asarray(b))
    _same(crossed, b[:, None] - b[None], "each with each")
    counted = calor.vmap(lambda: calor.asarray(b) * 2, axis_size=3)()
    _same(counted, np.stack([b * 2] * 3), "no argument")
    tree = calor.vmap(lambda d: [d["k"][0] + d["m"], {"z": d["m"]}], ({"k": [0], "m": None},),
                      [-1, {"z": None}])({"k": [x], "m": calor.asarray(b)})  # fmt: skip
    _same(tree[0], np.moveaxis(a + b, 0, -1), "a tree, its axis last")
    _same(tree[1]["z"], b, "a result that is not mapped")


_FORMS: Final[dict[str, Form]] = {
    "places": _places, "state": _state, "random": _random, "forms": _forms,
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    for turn in range(_TURNS):
        _FORMS[name](np.random.default_rng([place.number(turn), list(_FORMS).index(name)]))


def mapped_forms() -> Iterator[Check]:
    """Yield a check of each form."""
    for name, form in _FORMS.items():
        yield Check(
            kind="vmap",
            subject=f"mapped-{name}",
            tier="compiled",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, form),
            op="random_bits" if name == "random" else "",
            dtypes=(float32, int8, uint8, int16, int32, int64, uint32),
            features=("control_flow",) if name == "random" else (),
            looks=True,
        )
