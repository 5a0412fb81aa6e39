"""Drawn leaves: which ways keep a gradient, which lose it, and what is a leaf, in any order.

Every way here is linear in the leaves, so the model of a tensor is its numbers and, for each leaf
that it depends on, one factor for each element. Copies, moves, conversions, pickles, files, writes
in place, jitted functions and blocks without gradients are drawn one after another. After each,
what requires a gradient, what has one, and which numbers it holds are those of the model.
"""

from __future__ import annotations

import copy
import inspect
import io
import pickle
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32, float64, int32, int64
from calor.errors import CalorError, DTypeError, GradientError, ShapeError, ViewWarning
from calor.plugins.discovery import installed

from .base import Array, Check, Place

CONTRACT: Final = (
    "every way to copy, move, convert, keep or change a tensor has the gradient it has"
)
_HISTORIES, _ACTIONS, _MOST, _SIZE = 12, 40, 8, 5
Rng = np.random.Generator


@dataclass(eq=False)
class _Held:
    """A tensor, its numbers, and its factor of each leaf."""

    tensor: Any
    value: Array
    factors: dict[_Held, Array] = field(default_factory=dict)
    leaf: bool = False
    grad: Array | None = None

    def of(self) -> dict[_Held, Array]:
        """Return the factors of what is computed from it."""
        return {self: np.ones(_SIZE)} if self.leaf else dict(self.factors)


def _saved(x: Any) -> Any:
    stream = io.BytesIO()
    calor.save({"x": x}, stream)
    stream.seek(0)
    return calor.load(stream)["x"]


def _pickled(x: Any) -> Any:
    return pickle.loads(pickle.dumps(x))


def _there(x: Any) -> Any:
    """Move to another device, if there is one, and back."""
    other = "numpy"
    if x.device.backend.name == "numpy" and "cpu" in installed():
        other = "cpu"
    moved = x.to(other)
    assert moved.device.backend.name == other, f"moved to {other}, it is on {moved.device}"
    assert moved.requires_grad == x.requires_grad, "a move changes whether a gradient is wanted"
    return moved.to(device=x.device)


# Ways that compute: the gradient flows through them.
_THROUGH: Final[dict[str, Callable[[Any], Any]]] = {
    "copy": lambda x: x.copy(), "clone": lambda x: x.clone(), "copy.copy": copy.copy,
    "astype": lambda x: x.astype(x.dtype), "asarray": lambda x: calor.asarray(x, copy=True),
    "from_dlpack": lambda x: calor.from_dlpack(x, copy=True),
    "double": lambda x: x.double() if x.dtype is float32 else x.float(),
    "to": lambda x: x.to(float64 if x.dtype is float32 else float32),
    "asarray of a dtype": lambda x: calor.asarray(x, dtype="float64") * 1,
    "astype by name": lambda x: calor.astype(x, "float32") * 1,
    "there and back": lambda x: _there(x) * 1, "like another": lambda x: (x * 1).to(x),
    "reshape": lambda x: x.reshape(1, -1).reshape(_SIZE), "parts": lambda x: calor.concat(
        [x[:2], x[2:]]), "jit": calor.jit(lambda x: x * 1), "real": lambda x: calor.real(x) * 1,
}  # fmt: skip
# Ways that give the tensor itself.
_SAME: Final[dict[str, Callable[[Any], Any]]] = {
    "to": lambda x: x.to(x.dtype), "to the device": lambda x: x.to(x.device),
    "to itself": lambda x: x.to(x), "to nothing": lambda x: x.to(),
    "astype": lambda x: x.astype(x.dtype, copy=False), "asarray": calor.asarray,
    "from_dlpack": calor.from_dlpack, "to_device": lambda x: x.to_device(x.device),
    "asarray by dtype": lambda x: calor.asarray(x, dtype=x.dtype),
    "requires_grad_": lambda x: x.requires_grad_(x.requires_grad),
}  # fmt: skip
# Ways behind which no gradient flows; the second says whether a leaf stays one.
_APART: Final[dict[str, tuple[Callable[[Any], Any], bool]]] = {
    "detach": (lambda x: x.detach(), False), "numpy": (lambda x: calor.asarray(x.numpy()), False),
    "save": (_saved, True), "pickle": (_pickled, True), "deepcopy": (copy.deepcopy, True),
}  # fmt: skip


class _Leaves:
    """The tensors of a history."""

    def __init__(self, place: Place, rng: Rng) -> None:
        self.place, self.rng = place, rng
        self.held: list[_Held] = []
        self.names: list[str] = []
        self.both = calor.jit(lambda a, b: (a * 2 + b, a.detach() - b))

    def told(self) -> str:
        return f"after {', '.join(self.names)}"

    def pick(self) -> _Held:
        return self.held[int(self.rng.integers(len(self.held)))]

    def name(self, name: str) -> None:
        self.names[-1] = f"{self.names[-1]} ({name})"

    def numbers(self) -> Array:
        return np.asarray(self.rng.integers(-4, 5, _SIZE), np.float64)

    # What a user does.

    def make(self) -> None:
        value, leaf = self.numbers(), bool(self.rng.random() < 0.6)
        kind = str(self.rng.choice(["float32", "float64"]))
        tensor = calor.asarray(value, dtype=kind, requires_grad=leaf)
        self.held.append(_Held(tensor, value, leaf=leaf))

    def through(self) -> None:
        x, name = self.pick(), str(self.rng.choice(list(_THROUGH)))
        self.name(name)
        made = _THROUGH[name](x.tensor)
        assert made is not x.tensor, f"{name} gives the tensor itself"
        self.held.append(_Held(made, x.value.copy(), x.of()))

    def same(self) -> None:
        x, name = self.pick(), str(self.rng.choice(list(_SAME)))
        self.name(name)
        assert _SAME[name](x.tensor) is x.tensor, f"{name} gives another tensor, {self.told()}"

    def apart(self) -> None:
        x, name = self.pick(), str(self.rng.choice(list(_APART)))
        self.name(name)
        way, stays = _APART[name]
        if name == "pickle" and self.place.device is not self.place.plain:
            # The proxy that checks the protocol is no device of that name.
            return
        if name in ("pickle", "deepcopy") and x.factors:
            self.refused(partial(way, x.tensor), GradientError, "x.detach()")
            return
        made = way(x.tensor)
        grad = x.grad if name == "deepcopy" else None
        self.held.append(_Held(made, x.value.copy(), leaf=stays and x.leaf, grad=grad))
        if made.grad is not None:
            assert made.grad is not x.tensor.grad, f"{name} shares the gradient"

    def whole(self) -> None:
        """Whole numbers have no gradient."""
        x = self.pick()
        for made in (x.tensor.int(), x.tensor.long()):
            assert not made.requires_grad, f"{made.dtype.name} requires a gradient"
            self.refused(made.requires_grad_, DTypeError, made.dtype.name)

    def add(self) -> None:
        x, y, k = self.pick(), self.pick(), int(self.rng.integers(-2, 3))
        made = x.tensor * k + y.tensor
        self.held.append(_Held(made, x.value * k + y.value, _sum(x.of(), k, y.of(), 1)))

    def jit(self) -> None:
        x, y = self.pick(), self.pick()
        first, second = self.both(x.tensor, y.tensor)
        self.held.append(_Held(first, x.value * 2 + y.value, _sum(x.of(), 2, y.of(), 1)))
        self.held.append(_Held(second, x.value - y.value, _sum({}, 0, y.of(), -1)))

    def without(self) -> None:
        x, y = self.pick(), self.pick()
        with calor.no_grad():
            made = x.tensor + y.tensor.copy()
        self.held.append(_Held(made, x.value + y.value))

    def write(self) -> None:
        """Change in place: all, a part, or by an operator."""
        x, y = self.pick(), self.pick()
        kind = int(self.rng.integers(3))
        first, last = sorted(int(n) for n in self.rng.integers(0, _SIZE + 1, 2))
        y_tensor = y.tensor.to(x.tensor.dtype)
        mask = np.zeros(_SIZE)
        mask[first:last] = 1

        def change() -> None:
            t = x.tensor
            if kind == 0:
                t += y_tensor
            elif kind == 1:
                t[...] = y_tensor
            else:
                t[first:last] = y_tensor[first:last]

        if x.leaf:
            self.refused(change, GradientError, "no_grad")
            if self.rng.random() < 0.5:
                return
            with calor.no_grad():
                change()
        else:
            change()
        ours, theirs = x.of(), y.of()
        if kind == 0:
            x.value = x.value + y.value
            made = _sum(ours, 1, theirs, 1)
        elif kind == 1:
            x.value, made = y.value.copy(), theirs
        else:
            x.value = np.where(mask > 0, y.value, x.value)
            made = _sum(ours, 1 - mask, theirs, mask)
            if first == last and not ours:
                # Nothing was written.
                made = {leaf: f for leaf, f in made.items() if x.tensor.requires_grad}
        if not x.leaf:
            x.factors = made

    def misfit(self) -> None:
        """What does not fit is refused and changes nothing."""
        x = self.pick()
        wide = calor.asarray(np.ones(_SIZE), dtype="float64")

        def widen() -> None:
            t = x.tensor
            t += wide

        def grow() -> None:
            t = x.tensor
            t += calor.zeros((2, _SIZE), dtype=x.tensor.dtype)

        if x.tensor.dtype is float32:
            self.refused(widen, DTypeError, "cast the operand")
        self.refused(grow, ShapeError, "write x = x + y")
        bad = calor.zeros(_SIZE + 1, dtype=x.tensor.dtype)
        self.refused(partial(setattr, x.tensor, "grad", bad), ShapeError, "does not fit")
        if x.factors:
            self.refused(partial(x.tensor.requires_grad_, False), GradientError, "x.detach()")
            assert x.tensor.requires_grad_() is x.tensor

    def backward(self) -> None:
        x, g = self.pick(), self.numbers()
        given = calor.asarray(g, dtype=x.tensor.dtype)
        if not x.of():
            self.refused(partial(x.tensor.backward, given), GradientError, "requires_grad")
            return
        again = bool(self.rng.random() < 0.3)
        for _ in range(1 + again):
            x.tensor.backward(given)
            for leaf, factor in x.of().items():
                leaf.grad = (0.0 if leaf.grad is None else leaf.grad) + g * factor

    def clear(self) -> None:
        x = self.pick()
        if x.leaf:
            x.tensor.grad, x.grad = None, None

    def freeze(self) -> None:
        """A leaf that stops and starts again is another leaf to what comes."""
        x = self.pick()
        if x.leaf and not any(x in other.factors for other in self.held):
            x.tensor.requires_grad = False
            assert not x.tensor.requires_grad, "a frozen leaf requires a gradient"
            assert not (x.tensor * 2).requires_grad, "a product of a frozen leaf"
            x.tensor.requires_grad = True

    def drop(self) -> None:
        if len(self.held) > 1:
            # A leaf that others depend on stays, to be asked for its gradient.
            free = [h for h in self.held if not any(h in other.factors for other in self.held)]
            if free:
                self.held.remove(free[int(self.rng.integers(len(free)))])

    def refused(self, work: Callable[[], Any], kind: type[CalorError], says: str) -> None:
        try:
            work()
        except kind as error:
            said = str(error)
        else:
            raise AssertionError(f"no {kind.__name__}, {self.told()}")
        assert says in said, f"{kind.__name__} does not say {says!r}: {said}"

    def verify(self) -> None:
        for x in self.held:
            wants, has = bool(x.of()), x.tensor.requires_grad
            assert has == wants, f"requires_grad is {has}, not {wants}, {self.told()}"
            got = x.tensor.numpy()
            assert (got == x.value).all(), f"a tensor is {got}, not {x.value}, {self.told()}"
            grad = x.tensor.grad
            assert (grad is None) == (x.grad is None), (
                f"a gradient is {grad}, not {x.grad}, {self.told()}"
            )
            if grad is not None:
                told = (grad.dtype, grad.device, grad.requires_grad)
                assert told == (x.tensor.dtype, x.tensor.device, False), f"a gradient is {told}"
                assert (grad.numpy() == x.grad).all(), (
                    f"a gradient is {grad}, not {x.grad}, {self.told()}"
                )

    def shrink(self) -> None:
        """Numbers that grow would be rounded; a history of its own begins."""
        if any(np.abs(h.value).max() > 1e5 for h in self.held) or any(
            np.abs(f).max() > 1e5 for h in self.held for f in (*h.factors.values(), h.grad)
            if f is not None
        ):  # fmt: skip
            self.held.clear()
            self.make()

    def go(self) -> None:
        every = [
            self.make, self.through, self.through, self.through, self.same, self.apart, self.apart,
            self.whole, self.add, self.jit, self.without, self.write, self.write, self.misfit,
            self.backward, self.backward, self.backward, self.clear, self.freeze, self.drop,
        ]  # fmt: skip
        self.make()
        for _ in range(_ACTIONS):
            action = every[int(self.rng.integers(len(every)))]
            self.names.append(action.__name__)
            action()
            for _ in range(len(self.held) - _MOST):
                self.drop()
            self.verify()
            self.shrink()


def _sum(a: dict[_Held, Array], k: Any, b: dict[_Held, Array], m: Any) -> dict[_Held, Array]:
    """Return the factors of ``k a + m b``."""
    made = {leaf: k * f for leaf, f in a.items()}
    for leaf, f in b.items():
        made[leaf] = made.get(leaf, 0.0) + m * f
    return made


def _run(place: Place) -> None:
    with warnings.catch_warnings():
        # Some are views; a write to these says that it does not reach what they are of.
        warnings.simplefilter("ignore", ViewWarning)
        for number in range(_HISTORIES):
            _Leaves(place, np.random.default_rng([place.seed, 41, number])).go()


def drawn_leaves() -> Iterator[Check]:
    """Yield the check of histories of leaves."""
    yield Check(
        kind="state",
        subject="drawn-leaves",
        tier="training",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _Leaves),
        dtypes=(float32, float64, int32, int64),
        looks=True,
    )
