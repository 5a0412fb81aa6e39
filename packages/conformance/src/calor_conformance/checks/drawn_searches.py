"""Optimizers of whole directions: L-BFGS beside a dense inverse Hessian, Muon beside its factors.

A step of L-BFGS is along a direction that the last steps determine, by a rate or a line search.
The direction is computed here from the observed points and gradients by updates of the whole
matrix, and a line search is asked for what it promises: the strong Wolfe conditions, and the
minimum of a loss that is a square along the line. Losses, options, calls and returns to a state
that was stored are drawn.
"""

from __future__ import annotations

import inspect
import io
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import bfloat16, bool_, complex128, float32, float64, int32
from calor.errors import CalorError

from ..rows.functions.drawing import Rng, coin, source
from .base import Array, Check, Place
from .training import PACKAGE

CONTRACT: Final = "steps follow their direction, rate and search, also after a state was restored"
_RUNS, _STEPS = 6, 6
_NEAR: Final = 2e-6
_DECREASE, _CURVATURE = 1e-4, 0.9


class _Loss:
    """A convex loss of several parameters, with a bend beside its square where it is asked for."""

    def __init__(self, rng: Rng, bent: bool, joined: bool = False) -> None:
        shapes: tuple[tuple[int, ...], ...] = ((3,), (2, 2), ()) if coin(rng) else ((4,),)
        # Of complex parameters, the last axis holds the two parts.
        self.joined = joined
        self.shapes = tuple((*s, 2) for s in shapes) if joined else shapes
        shapes = self.shapes
        self.count = sum(int(np.prod(s)) for s in shapes)
        root = rng.normal(size=(self.count, self.count))
        self.matrix = root @ root.T / self.count + np.diag(rng.uniform(0.5, 3, self.count))
        self.middle = rng.normal(size=self.count)
        self.bend = float(rng.uniform(0.2, 1)) if bent else 0.0
        self.start = rng.normal(size=self.count) * 2

    def at(self, x: Array) -> tuple[float, Array]:
        """Return the loss and its gradient in NumPy."""
        d = x - self.middle
        loss = d @ self.matrix @ d / 2 + self.bend * np.sum(d**4) / 4
        return float(loss), np.asarray(self.matrix @ d + self.bend * d**3)

    def apart(self, p: Any) -> Any:
        """Return a parameter with the parts of complex numbers along an axis."""
        return calor.stack([calor.real(p), calor.imag(p)], axis=-1) if self.joined else p

    def parts(self, x: Array) -> list[Array]:
        """Return the parameters that a vector consists of."""
        found, first = [], 0
        for shape in self.shapes:
            size = int(np.prod(shape))
            part = np.ascontiguousarray(x[first : first + size].reshape(shape))
            found.append(part.view(np.complex128)[..., 0] if self.joined else part)
            first += size
        return found

    def closure(self, params: list[Any], optimizer: Any, compiled: bool) -> Callable[[], Any]:
        """Return the function that an optimizer evaluates."""
        matrix, middle = calor.asarray(self.matrix), calor.asarray(self.middle)

        def loss() -> Any:
            d = calor.concat([calor.reshape(self.apart(p), (-1,)) for p in params]) - middle
            return d @ matrix @ d / 2 + self.bend * calor.sum(d**4) / 4

        made = calor.jit(loss) if compiled else loss

        def closure() -> Any:
            optimizer.zero_grad()
            found = made()
            found.backward()
            return found

        return closure


def _vector(params: list[Any]) -> Array:
    """Return all numbers of parameters, complex ones as their parts."""
    flat = [np.ascontiguousarray(p.detach().numpy()).reshape(-1) for p in params]
    return np.concatenate([a.view(np.float64) for a in flat])


class _Dense:
    """The inverse Hessian of the last steps as a matrix."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.pairs: list[tuple[Array, Array]] = []

    def take(self, s: Array, y: Array) -> None:
        if s @ y > 1e-10:
            self.pairs = [*self.pairs, (s, y)][-self.most :]

    def direction(self, grad: Array) -> Array:
        one = np.eye(len(grad))
        made = one
        if self.pairs:
            s, y = self.pairs[-1]
            made = one * ((s @ y) / (y @ y))
        for s, y in self.pairs:
            rho = 1 / (s @ y)
            left = one - rho * np.outer(s, y)
            made = left @ made @ left.T + rho * np.outer(s, s)
        return np.asarray(-made @ grad)


class _Run:
    """A run of L-BFGS beside what its steps should be."""

    def __init__(self, package: Any, rng: Rng, search: bool, joined: bool) -> None:
        self.package, self.rng, self.search = package, rng, search
        self.loss = _Loss(rng, bent=not search or rng.random() < 0.3, joined=joined)
        self.options: dict[str, Any] = {
            "lr": float(rng.choice((0.1, 0.3, 0.5))) if not search else float(
                rng.choice((0.02, 0.1, 1.0, 2.0, 4.0, 7.0))),
            "history_size": int(rng.choice((1, 2, 5, 100))),
            "tolerance_grad": 1e-12, "tolerance_change": 1e-14,
            "max_iter": 1 if search else int(rng.integers(1, 4)), "max_eval": 25,
            "line_search_fn": "strong_wolfe" if search else None,
        }  # fmt: skip
        self.dense = _Dense(self.options["history_size"])
        self.x, self.steps, self.evaluations = self.loss.start, 0, 0
        self.params = [calor.asarray(a, requires_grad=True) for a in self.loss.parts(self.x)]
        self.made = self.fresh()
        self.told = f"LBFGS {self.options} of {self.loss.shapes}"

    def fresh(self) -> Any:
        return self.package.LBFGS(self.params, **self.options)

    def kept(self) -> None:
        """Go on with another optimizer, which has the state of this one."""
        state = self.made.state_dict()
        way = int(self.rng.integers(3))
        if way == 0:
            state = pickle.loads(pickle.dumps(state))
        elif way == 1:
            stream = io.BytesIO()
            calor.save(state, stream)
            stream.seek(0)
            state = calor.load(stream)
        told = {k: v for k, v in state["param_groups"][0].items() if k in self.options}
        assert told == self.options, f"{self.told}: stored as {told}"
        held = self.made
        self.made = self.fresh()
        self.made.load_state_dict(state)
        if way == 2:
            # What goes on with the first one leaves the second alone.
            held.step(self.loss.closure(self.params, held, False))
            for p, a in zip(self.params, self.loss.parts(self.x), strict=True):
                with calor.no_grad():
                    p[...] = calor.asarray(a)

    def near(self, got: Any, want: Any, what: str) -> None:
        size = max(1.0, float(np.max(np.abs(want))))
        off = float(np.max(np.abs(np.asarray(got) - want)))
        assert off <= _NEAR * size, f"{self.told}, step {self.steps}: {what} is {got}, not {want}"

    def counted(self) -> None:
        state = self.made.state_dict()["state"]["0"]
        found = state["n_iter"], state["func_evals"]
        assert found == (self.steps, self.evaluations), (
            f"{self.told}: {found[0]} steps and {found[1]} evaluations, not {self.steps} and "
            f"{self.evaluations}"
        )

    def call(self) -> None:
        """Make a call of the optimizer, and compare where it arrives."""
        loss, grad = self.loss.at(self.x)
        closure = self.loss.closure(self.params, self.made, coin(self.rng))
        self.near(self.made.step(closure).item(), loss, "the loss before the step")
        if self.search:
            self._searched(loss, grad)
            return
        self.evaluations += 1
        for turn in range(self.options["max_iter"]):
            self.steps += 1
            rate = self.options["lr"]
            if self.steps == 1:
                rate *= min(1.0, 1.0 / float(np.sum(np.abs(grad))))
            after = self.x + rate * self.dense.direction(grad)
            _, slope = self.loss.at(after)
            self.evaluations += turn + 1 < self.options["max_iter"]
            self.dense.take(after - self.x, slope - grad)
            self.x, grad = after, slope
        self.near(_vector(self.params), self.x, "the point")
        self.counted()

    def _searched(self, loss: float, grad: Array) -> None:
        self.steps += 1
        after, d = _vector(self.params), self.dense.direction(grad)
        moved = after - self.x
        length = float(moved @ d / (d @ d))
        self.near(moved, length * d, "the step, which is no multiple of the direction,")
        value, slope = self.loss.at(after)
        state = self.made.state_dict()["state"]["0"]
        count = state["func_evals"] - self.evaluations
        where = f"{self.told}, step {self.steps}, length {length}, {count} evaluations"
        room = 1e-12 * (1 + abs(loss))
        assert value <= loss + _DECREASE * length * (grad @ d) + room, f"{where}: {value} of {loss}"
        assert abs(slope @ d) <= _CURVATURE * abs(grad @ d) + room, f"{where}: too steep"
        assert 2 <= count <= 1 + self.options["max_eval"], where
        first = self.options["lr"]
        if self.steps == 1:
            first *= min(1.0, 1.0 / float(np.sum(np.abs(grad))))
        self._length(first, length, count, loss, grad, d, where)
        self.evaluations += count
        self.dense.take(moved, slope - grad)
        self.x = after

    def _length(self, first: float, length: float, count: int, loss: float, grad: Array,
                d: Array, where: str) -> None:  # fmt: skip
        """Compare the length with the first trial, if that fits, or with the line's minimum."""
        value, slope = self.loss.at(self.x + first * d)
        falls = value <= loss + _DECREASE * first * (grad @ d)
        if falls and abs(slope @ d) <= _CURVATURE * abs(grad @ d):
            assert count == 2, f"{where}: the first trial {first} fits"
            self.near(length, first, "the length")
        elif not self.loss.bend:
            # A cubic through two points with slopes of a square is that square, whose minimum is
            # taken unless it is near an end of the interval, or more than ten times as far.
            least = float(-(grad @ d) / (d @ self.loss.matrix @ d))
            if 0.12 * first < least < 9.9 * first:
                assert count == 3, f"{where}: the minimum is at {least}"
                self.near(length, least, "the length")

    def go(self) -> None:
        for _ in range(_STEPS):
            if self.rng.random() < 0.3 and self.steps:
                self.kept()
            if np.max(np.abs(self.loss.at(self.x)[1])) < 1e-5:
                return
            self.call()


def _ends(package: Any, rng: Rng) -> None:
    """Each limit ends a call: evaluations, a small gradient, and a small change."""
    for name, value in (("max_eval", 3), ("tolerance_grad", 0.5), ("tolerance_change", 0.3)):
        loss = _Loss(rng, bent=True)
        params = [calor.asarray(a, requires_grad=True) for a in loss.parts(loss.start)]
        options: dict[str, Any] = {"lr": 0.2, "max_iter": 60, "max_eval": 80,
                                   "tolerance_grad": 1e-14, "tolerance_change": 1e-16,
                                   name: value}  # fmt: skip
        made = package.LBFGS(params, **options)
        made.step(loss.closure(params, made, False))
        state = made.state_dict()["state"]["0"]
        x, dense = loss.start, _Dense(100)
        before, grad = loss.at(x)
        evaluations = 1
        for step in range(1, 61):
            rate = 0.2 * (min(1.0, 1 / float(np.sum(np.abs(grad)))) if step == 1 else 1.0)
            d = dense.direction(grad)
            if grad @ d > -options["tolerance_change"]:
                break
            after = x + rate * d
            value, slope = loss.at(after)
            evaluations += step < 60
            dense.take(after - x, slope - grad)
            small = float(np.max(np.abs(slope))) <= options["tolerance_grad"]
            still = min(float(np.max(np.abs(d))) * rate, abs(value - before))
            x, grad = after, slope
            if small or still <= options["tolerance_change"] or evaluations >= options["max_eval"]:
                break
            before = value
        found, want = (state["n_iter"], state["func_evals"]), (step, evaluations)
        assert found == want, f"LBFGS {options}: {found} steps and evaluations, not {want}"
        off = float(np.max(np.abs(_vector(params) - x)))
        assert off < 1e-6, f"LBFGS {options} ends {off} away"


def _refused(package: Any, rng: Rng) -> None:
    """Options and parameters without a meaning are refused, and nothing is changed by them."""
    p, q = (calor.asarray(rng.normal(size=s), requires_grad=True) for s in ((2,), (2, 3)))
    wide = calor.asarray(rng.normal(size=(2, 2)) + 1j, requires_grad=True)
    made = package.LBFGS([p], lr=0.5)
    other = package.LBFGS([q])
    loss = _Loss(rng, bent=False)
    several = [calor.asarray(a, requires_grad=True) for a in loss.parts(loss.start)]
    held = package.LBFGS(several)
    held.step(loss.closure(several, held, False))
    state = held.state_dict()
    calls: dict[str, Callable[[], Any]] = {
        "another search": lambda: package.LBFGS([p], line_search_fn="wolfe"),
        **{f"{name} {value}": partial(package.LBFGS, [p], **{name: value})
           for name in ("max_iter", "max_eval", "history_size") for value in (0, -1, 1.5)},
        **{name: partial(package.LBFGS, [p], **{name: -1.0})
           for name in ("tolerance_grad", "tolerance_change")},
        "two groups": lambda: package.LBFGS([{"params": [p]}, {"params": [q]}]),
        "a group more": lambda: made.add_param_group({"params": [q]}),
        "two dtypes": lambda: package.LBFGS([p, calor.ones(2, dtype=float32, requires_grad=True)]),
        "no closure": lambda: made.step(), "an update": lambda: made.update([p], [p]),
        "a longer state": lambda: other.load_state_dict(
            {**state, "param_groups": other.state_dict()["param_groups"]}),
        "a vector": lambda: package.Muon([p]), "complex numbers": lambda: package.Muon([wide]),
        "two coefficients": lambda: package.Muon([q], ns_coefficients=(1.0, 2.0)),
        "no steps": lambda: package.Muon([q], ns_steps=0),
        "many steps": lambda: package.Muon([q], ns_steps=100),
        "another rate": lambda: package.Muon([q], adjust_lr_fn="adamw"),
    }  # fmt: skip
    for what, call in calls.items():
        try:
            call()
        except CalorError:
            continue
        raise AssertionError(f"{what} is not refused")
    assert other.state_dict()["state"]["0"]["func_evals"] == 0, "a refused state was taken"
    most = package.LBFGS([p], max_iter=8).state_dict()["param_groups"][0]["max_eval"]
    assert most == 10, f"8 steps have {most} evaluations by default, not 5 for each 4 steps"


def _lbfgs(search: bool, place: Place) -> None:
    package, joined = import_module(PACKAGE), place.plain.info.dtypes.get(complex128)
    for turn in range(_RUNS):
        rng = source([place.seed, crc32(b"LBFGS"), turn, int(search)])
        _Run(package, rng, search, bool(joined) and turn == 1).go()
    if not search:
        rng = source([place.seed, crc32(b"LBFGS ends")])
        _ends(package, rng)
        if joined:
            _refused(package, rng)


def _orthogonal(x: Array, how: dict[str, Any]) -> Array:
    """Return the iterated polynomial of the singular values of a matrix."""
    a, b, c = how["ns_coefficients"]
    left, sizes, right = np.linalg.svd(x / max(float(np.sqrt(np.sum(x * x))), how["eps"]), False)
    for _ in range(how["ns_steps"]):
        sizes = a * sizes + b * sizes**3 + c * sizes**5
    return np.asarray(left * sizes @ right)


def _muon(place: Place) -> None:
    package = import_module(PACKAGE)
    for turn in range(_RUNS):
        rng = source([place.seed, crc32(b"Muon"), turn])
        how: dict[str, Any] = {
            "lr": float(rng.uniform(0.05, 0.5)), "weight_decay": float(rng.choice((0.0, 0.1, 0.4))),
            "momentum": float(rng.choice((0.0, 0.5, 0.95))), "nesterov": coin(rng),
            "ns_coefficients": ((3.4445, -4.775, 2.0315), (1.5, -0.5, 0.0), (2.0, -1.5, 0.5))[
                int(rng.integers(3))],
            "eps": float(rng.choice((1e-7, 1e-3))), "ns_steps": int(rng.integers(1, 6)),
            "adjust_lr_fn": (None, "original", "match_rms_adamw")[int(rng.integers(3))],
            "maximize": coin(rng),
        }  # fmt: skip
        shapes = [(3, 5), (6, 2), (4, 4), (1, 7)]
        values = [rng.normal(size=s).astype(np.float32).astype(np.float64) for s in shapes]
        means = [np.zeros(s) for s in shapes]
        params = [calor.asarray(v.astype(np.float32), requires_grad=True) for v in values]
        made = package.Muon(params, **how)
        for step in range(3):
            grads = [_well_posed(rng, s) for s in shapes]
            for p, g in zip(params, grads, strict=True):
                p.grad = calor.asarray(g.astype(np.float32))
            made.step()
            if step == 1:
                state = pickle.loads(pickle.dumps(made.state_dict()))
                made = package.Muon(params, **how)
                made.load_state_dict(state)
            for k, g in enumerate(grads):
                g = -g if how["maximize"] else g
                means[k] = how["momentum"] * means[k] + (1 - how["momentum"]) * g
                moved = g + how["momentum"] * (means[k] - g) if how["nesterov"] else means[k]
                rows, columns = shapes[k]
                ratio = (
                    0.2 * np.sqrt(max(shapes[k])) if how["adjust_lr_fn"] == "match_rms_adamw"
                    else np.sqrt(max(1.0, rows / columns))
                )  # fmt: skip
                turned = _orthogonal(moved, how) * ratio
                want = values[k] - how["lr"] * (turned + how["weight_decay"] * values[k])
                got = params[k].detach().numpy().astype(np.float64)
                # Factors are bfloat16 numbers, whose errors some steps make larger.
                room = how["lr"] * ratio * (0.3 if how["ns_coefficients"][0] > 3 else 0.1)
                off = float(np.max(np.abs(got - want)))
                assert off <= room, f"Muon {how}, {shapes[k]}, step {step}: {off} off, of {room}"
                values[k] = got


def _well_posed(rng: Rng, shape: tuple[int, int]) -> Array:
    """Return a matrix with singular values of one size, which a few steps make one."""
    left, sizes, right = np.linalg.svd(rng.normal(size=shape), full_matrices=False)
    made = left * (1 + 0.3 * rng.random(sizes.shape)) @ right
    return np.asarray(made.astype(np.float32).astype(np.float64))


def drawn_searches() -> Iterator[Check]:
    """Yield the checks of the optimizers of whole directions, if the package is installed."""
    if find_spec(PACKAGE) is None:
        return
    wide, half = (float64, int32, bool_), (float32, bfloat16, int32, bool_)
    for name, run, dtypes in (
        ("LBFGS", partial(_lbfgs, False), wide),
        ("LBFGS-with-a-line-search", partial(_lbfgs, True), wide),
        ("Muon", _muon, half),
    ):
        yield Check(
            kind="functions",
            subject=f"{PACKAGE}.drawn-{name}",
            tier="training",
            contract=CONTRACT,
            run=run,
            text=partial(inspect.getsource, _Run),
            dtypes=dtypes,
            looks=True,
        )
