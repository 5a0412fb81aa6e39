"""What transforms give beside derivatives: values, tangents and aux, of any structure, for outside.

A function gives a scalar, or a vector, and aux: a tree with its argument, what it computed, what it
closes over, and what is no tensor. Whatever transform takes it, its aux has the numbers of a plain
call; it is to outer derivatives what the argument is: without gradients for plain arguments, with
the whole derivative for those that learn, and it holds nothing of the transform.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final
from weakref import ref

import numpy as np

import calor
from calor import tree
from calor.dtypes import float32

from .base import Check, Place

CONTRACT: Final = "aux is what the function gives, with gradients for the outside alone"
_TURNS: Final = 5
Rng = np.random.Generator


class _Program:
    """A function with aux whose numbers, and whose derivatives by its argument, are known."""

    def __init__(self, rng: Rng, scalar: bool) -> None:
        self.rng, self.scalar = rng, scalar
        self.x = np.asarray(rng.uniform(-2, 2, 3), np.float32)
        self.c = np.asarray(rng.uniform(1, 2, 3), np.float32)
        self.closed = calor.asarray(self.c)
        self.made: list[Any] = []
        parts: list[tuple[Callable[[Any, Any], Any], Any, Any]] = [
            (lambda x, y: y, np.sin(self.x) * self.c, np.cos(self.x) * self.c),
            (lambda x, y: x, self.x, np.ones(3)),
            (lambda x, y: x * x, self.x**2, 2 * self.x),
            (lambda x, y: self.closed, self.c, np.zeros(3)),
            (lambda x, y: x[1], self.x[1], np.array([0, 1, 0])),
            (lambda x, y: calor.sum(y), np.sum(np.sin(self.x) * self.c), np.cos(self.x) * self.c),
            (lambda x, y: x > 0, self.x > 0, np.zeros(3)),
            (lambda x, y: x.detach() * 3, self.x * 3, np.zeros(3)),
        ]  # fmt: skip
        chosen = rng.permutation(len(parts))[: int(rng.integers(1, 5))]
        self.parts = [parts[int(k)] for k in chosen]
        self.form = int(rng.integers(4))

    def __call__(self, x: Any) -> tuple[Any, Any]:
        y = calor.sin(x) * self.closed
        self.made += [ref(y)]
        held = [part(x, y) for part, _, _ in self.parts]
        value = calor.sum(y) if self.scalar else y * 1
        return value, self.aux(held)

    def aux(self, held: list[Any]) -> Any:
        """Return tensors in a structure, among things that are none."""
        forms: list[Any] = [
            {"y": held, "n": 3, "text": "a"}, (*held, None),
            [{"deep": (h,)} for h in held], held[0] if len(held) == 1 else tuple(held),
        ]  # fmt: skip
        return forms[self.form]

    def compare(self, aux: Any, what: str) -> list[Any]:
        """Compare aux with what it should be; return its tensors."""
        want = self.aux([w for _, w, _ in self.parts])
        assert tree.flatten(tree.map(str, aux))[1] == tree.flatten(tree.map(str, want))[1], (
            f"{what}: aux of another form: {aux}"
        )
        found = [t for t in tree.leaves(aux) if isinstance(t, calor.Tensor)]
        assert len(found) == len(self.parts), f"{what}: {aux}"
        for got, (_, right, _) in zip(found, self.parts, strict=True):
            near = np.allclose(got.numpy(), right, rtol=1e-5, atol=1e-5)
            assert near, f"{what}: aux {got}, not {right}"
        return found


# A transform of a program at a tensor: all that it gives beside aux, and aux.
_TRANSFORMS: Final[dict[str, tuple[bool, Callable[[Any, Any], tuple[Any, Any]]]]] = {
    "grad": (True, lambda f, x: calor.grad(f, has_aux=True)(x)),
    "value_and_grad": (True, lambda f, x: _value_and_grad(f, x)),
    "vjp": (False, lambda f, x: _pulled(f, x)),
    "jvp": (False, lambda f, x: _pushed(f, x)),
    "linearize": (False, lambda f, x: _linear(f, x)),
    "jacrev": (False, lambda f, x: calor.jacrev(f, has_aux=True)(x)),
    "jacfwd": (False, lambda f, x: calor.jacfwd(f, has_aux=True)(x)),
    "hessian": (True, lambda f, x: calor.hessian(f, has_aux=True)(x)),
    "checkpoint": (False, lambda f, x: calor.checkpoint(f)(x)),
    "jit": (False, lambda f, x: calor.jit(f)(x)),
}


def _value_and_grad(f: Any, x: Any) -> tuple[Any, Any]:
    (value, aux), gradient = calor.value_and_grad(f, has_aux=True)(x)
    return (value, gradient), aux


def _pulled(f: Any, x: Any) -> tuple[Any, Any]:
    value, pull, aux = calor.vjp(f, x, has_aux=True)
    return (value, pull(value.detach() * 0 + 1)), aux


def _pushed(f: Any, x: Any) -> tuple[Any, Any]:
    value, tangent, aux = calor.jvp(f, (x,), (x.detach() * 0 + 1,), has_aux=True)
    return (value, tangent), aux


def _linear(f: Any, x: Any) -> tuple[Any, Any]:
    value, push, aux = calor.linearize(f, x, has_aux=True)
    return (value, push(x.detach() * 0 + 1)), aux


def _plain(name: str, program: _Program, how: Any) -> None:
    """Of an argument without gradients nothing has gradients, and nothing else is held."""
    x = calor.asarray(program.x)
    rest, aux = how(program, x)
    found = program.compare(aux, name)
    for t in (*found, *(t for t in tree.leaves(rest) if isinstance(t, calor.Tensor))):
        assert not t.requires_grad, f"{name}: {t} of a plain argument requires gradients"
    assert not x.requires_grad, f"{name}: its argument requires gradients"
    assert x.grad is None, f"{name}: its argument has a gradient"
    for t in found:
        t.numpy()
    del rest, aux
    alive = [m() for m in program.made]
    left = [t for t in alive if t is not None and not any(t is g for g in found)]
    assert not left, f"{name}: {len(left)} intermediate tensors are held with aux"


def _outer(name: str, program: _Program, how: Any) -> None:
    """A derivative of aux from outside is that of the plain function."""
    x = calor.asarray(program.x)
    weights = [float(w) for w in program.rng.integers(1, 4, len(program.parts))]

    def total(x: Any) -> Any:
        _, aux = how(program, x)
        found = [t for t in tree.leaves(aux) if isinstance(t, calor.Tensor)]
        return sum(calor.sum(t.astype(float32)) * w for t, w in zip(found, weights, strict=True))

    want = sum(slope * w for (_, _, slope), w in zip(program.parts, weights, strict=True))
    if not np.any(want):
        return
    got = calor.grad(total)(x)
    near = np.allclose(got.numpy(), want, rtol=1e-4, atol=1e-4)
    assert near, f"the gradient of the aux of {name}: {got.tolist()}, not {np.asarray(want)}"
    assert not got.requires_grad, f"the gradient of the aux of {name} requires gradients"


def _learning(name: str, program: _Program, how: Any) -> None:
    """Of a leaf, aux has gradients where the value has."""
    x = calor.asarray(program.x, requires_grad=True)
    _, aux = how(program, x)
    found = program.compare(aux, name)
    learns = [t for t in found if t.requires_grad]
    if learns:
        total: Any = sum(calor.sum(t) for t in learns)
        total.backward()
        assert x.grad is not None, f"{name}: aux that requires gradients gives the leaf none"


def _run(place: Place) -> None:
    for number, (name, (scalar, how)) in enumerate(_TRANSFORMS.items()):
        for turn in filter(partial(place.tries, among=_TURNS), range(_TURNS)):
            for part in (_plain, _outer, _learning):
                rng = np.random.default_rng([place.seed, 186, number, turn])
                part(name, _Program(rng, scalar), how)


def results_of_transforms() -> Iterator[Check]:
    """Yield the check of what transforms give beside derivatives."""
    yield Check(
        kind="transforms",
        subject="aux",
        tier="training",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _Program),
        op="sin",
        dtypes=(float32,),
        looks=True,
    )
