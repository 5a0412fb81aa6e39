"""Layers that keep state, driven: running moments, keys and values seen, and tables of rows.

Norms train, evaluate, are refused batches that do not fit, change their momentum and load states,
in half types too. A cache is filled to its end, refuses rows, forgets and begins again. A table
learns, but for the row of padding, whose index may count from the end.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from contextlib import nullcontext
from importlib import import_module
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import bfloat16, float16, float32

from ..rows.functions.drawing import coin
from .base import Array, Check
from .driven import Driven, Look, checks_of, equal, refused

PACKAGE: Final = "calor_nn"
CONTRACT: Final = "a layer that keeps state keeps what its calls gave it, and nothing else"


def _nn() -> Any:
    return import_module(PACKAGE)


def _wide(x: Any) -> Array:
    return np.asarray(x.detach().astype(float32).numpy(), np.float64)


class _Norm(Driven):
    """A batch or instance norm that may keep running moments."""

    events = 14
    histories = 10

    def build(self) -> None:
        rank = self.one(1, 2, 3)
        self.batches = coin(self.rng)
        self.name = f"{'Batch' if self.batches else 'Instance'}Norm{rank}d"
        low = [d for d in (float16, bfloat16) if self.place.plain.info.dtypes.get(d)]
        self.dtype = self.one(float32, float32, *low)
        self.how: dict[str, Any] = {
            "momentum": self.one(0.1, 0.75, None, 0.0, 1.0), "affine": coin(self.rng),
            "track_running_stats": self.rng.random() < 0.85, "eps": self.one(1e-5, 0.1),
        }  # fmt: skip
        self.space = (3, 2, 2)[:rank]
        self.layer = self.made()
        if self.how["affine"]:
            with calor.no_grad():
                self.layer.weight[...] = calor.asarray(self.numbers(3)).astype(self.dtype)
                self.layer.bias[...] = calor.asarray(self.numbers(3)).astype(self.dtype)
        self.training, self.count = True, 0
        self.mean, self.variance = np.zeros(3), np.ones(3)
        self.states: list[Any] = []
        self.jitted = calor.jit(lambda layer, x: layer(x))

    def made(self) -> Any:
        return getattr(_nn(), self.name)(3, dtype=self.dtype, **self.how)

    def told(self) -> str:
        return f"{self.name} in {self.dtype}, {self.how}"

    @property
    def tracks(self) -> bool:
        return bool(self.how["track_running_stats"])

    @property
    def room(self) -> float:
        return 4 * float(calor.finfo(self.dtype).eps)

    def do_call(self) -> None:
        count = int(self.rng.integers(2, 5))
        x = calor.asarray(self.rng.normal(size=(count, 3, *self.space)).astype(np.float32) * 2 + 1)
        x = x.astype(self.dtype)
        call = self.layer if coin(self.rng) else lambda x: self.jitted(self.layer, x)
        with calor.no_grad() if coin(self.rng) else nullcontext():
            y = call(x)
        self.follow(_wide(x), y)

    do_call_more = do_call_again = do_call

    def follow(self, x: Array, y: Any) -> None:
        own = self.training or not self.tracks
        space = tuple(range(2, x.ndim))
        axes = (0, *space) if self.batches else space
        shape = (1, 3, *(1 for _ in space))
        if own:
            mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
        else:
            mean, variance = self.mean.reshape(shape), self.variance.reshape(shape)
        due = (x - mean) / np.sqrt(variance + self.how["eps"])
        if self.how["affine"]:
            due = due * _wide(self.layer.weight).reshape(shape) + (
                _wide(self.layer.bias).reshape(shape))  # fmt: skip
        # An instance of three numbers may have hardly any variance.
        equal(_wide(y), due, "the output", max(self.room, 3e-4))
        if self.training and self.tracks:
            rate = self.how["momentum"]
            rate = 1 / (self.count + 1) if rate is None else rate
            if self.batches:
                batch = x.mean(axes), x.var(axes, ddof=1)
            else:
                batch = x.mean(space).mean(0), x.var(space, ddof=1).mean(0)
            self.mean = self.mean + rate * (batch[0] - self.mean)
            self.variance = self.variance + rate * (batch[1] - self.variance)
            self.count += 1

    def do_train(self) -> None:
        self.layer.train()
        self.training = True

    def do_eval(self) -> None:
        self.layer.eval()
        self.training = False

    def do_momentum(self) -> None:
        self.how["momentum"] = self.layer.momentum = self.one(0.5, None, 0.25)

    def do_refused(self) -> None:
        """Batches that do not fit leave the moments alone."""
        bad = [(2, 4, *self.space), (2, 3)[: 1 if self.name.endswith("1d") else 2]]
        if self.batches and self.training:
            bad.append((1, 3, *(1 for _ in self.space)))
        x = calor.ones(self.one(*bad), dtype=self.dtype)
        refused(lambda: self.layer(x), f"an input of shape {x.shape}")

    def do_store(self) -> None:
        state = pickle.loads(pickle.dumps(self.layer.state_dict()))
        self.states.append((state, self.mean, self.variance, self.count))

    def do_load(self) -> None:
        if self.states:
            state, self.mean, self.variance, self.count = self.one(*self.states)
            if coin(self.rng):
                self.layer = self.made()
                self.layer.train(self.training)
            self.layer.load_state_dict(state)

    def do_copy(self) -> None:
        """A copy goes on; what the other learns is nothing to it."""
        before, self.layer = self.layer, copy.deepcopy(self.layer)
        before.train()(calor.ones((2, 3, *self.space), dtype=self.dtype))

    def look(self) -> dict[str, Look]:
        if not self.tracks:
            return {"the moments": (self.layer.running_mean, None)}
        found = _wide(self.layer.running_mean), _wide(self.layer.running_var)
        due = self.mean, self.variance
        # What is rounded at each batch shall not add up.
        self.mean, self.variance = found
        held = self.layer.running_mean.dtype, self.layer.running_var.dtype
        return {
            "the running mean": (found[0], due[0], self.room),
            "the running variance": (found[1], due[1], self.room),
            "num_batches_tracked": (int(self.layer.num_batches_tracked), self.count),
            "the dtypes": (held, (self.dtype, self.dtype)),
        }


class _Cache(Driven):
    """Keys and values of the places that were seen."""

    events = 16

    def build(self) -> None:
        self.sizes = tuple(int(n) for n in self.rng.integers(1, 4, 5))
        n, heads, most, width, value = self.sizes
        self.most = most + 3
        low = [d for d in (float16, bfloat16) if self.place.plain.info.dtypes.get(d)]
        self.dtype = self.one(float32, *low)
        self.cache = _nn().KVCache(n, heads, self.most, width, value, dtype=self.dtype)
        self.keys = np.zeros((n, heads, 0, width), np.float32)
        self.values = np.zeros((n, heads, 0, value), np.float32)
        self.jitted = calor.jit(lambda cache, k, v: cache.update(k, v))

    def told(self) -> str:
        return f"a cache of {self.sizes} with {self.most} places in {self.dtype}"

    @property
    def count(self) -> int:
        return int(self.keys.shape[2])

    def rows(self, count: int) -> tuple[Array, Array]:
        n, heads, _, width, value = self.sizes
        return self.numbers(n, heads, count, width), self.numbers(n, heads, count, value)

    def do_update(self) -> None:
        left = self.most - self.count
        if not left:
            self.do_reset()
            return
        rows = self.rows(int(self.one(1, 1, left, int(self.rng.integers(1, left + 1)))))
        call = self.cache.update if coin(self.rng) else (
            lambda k, v: self.jitted(self.cache, k, v))  # fmt: skip
        before, count = self.count, rows[0].shape[2]
        tensors = [calor.asarray(a, requires_grad=coin(self.rng)) for a in rows]
        with calor.no_grad() if coin(self.rng) else nullcontext():
            keys, values, mask = call(*tensors)
        self.keys = np.concatenate([self.keys, rows[0]], 2)
        self.values = np.concatenate([self.values, rows[1]], 2)
        equal(_wide(keys)[:, :, : self.count], self.keys, "the keys returned")
        equal(_wide(values)[:, :, : self.count], self.values, "the values returned")
        assert not keys.requires_grad, "a gradient passes through the cache"
        seen = np.arange(self.most) <= before + np.arange(count)[:, None]
        equal(mask.numpy(), seen[None, None], "the mask")

    do_update_more = do_update_again = do_update

    def do_refused(self) -> None:
        """Rows that do not fit leave everything as it was."""
        rows = [*self.rows(2)]
        side, axis = int(self.rng.integers(2)), int(self.rng.integers(4))
        given = rows[side]
        # Narrower by one, wider by one, and what would be repeated along the axis or left out.
        size = given.shape[axis]
        wrong = self.one(
            given.take(range(size - 1), axis), given.take([*range(size), 0], axis),
            np.concatenate([given, given], axis), given[0],
            given.take([0], axis) if size > 1 else given.take([], axis),
        )  # fmt: skip
        rows[side] = wrong
        bad = self.one(rows, rows, self.rows(self.most + 1))
        told = f"rows that do not fit: {[r.shape for r in bad]}"
        with calor.no_grad() if coin(self.rng) else nullcontext():
            refused(lambda: self.cache.update(*map(calor.asarray, bad)), told)

    def do_reset(self) -> None:
        self.cache.reset()
        self.keys, self.values = self.keys[:, :, :0], self.values[:, :, :0]

    def do_copy(self) -> None:
        before, self.cache = self.cache, copy.deepcopy(self.cache)
        before.reset()
        before.update(*map(calor.asarray, self.rows(1)))

    def look(self) -> dict[str, Look]:
        found: dict[str, Look] = {
            "the length": (int(self.cache.length), self.count),
            "the most places": (self.cache.max_len, self.most),
            "the keys": (_wide(self.cache.keys)[:, :, : self.count], self.keys),
            "the values": (_wide(self.cache.values)[:, :, : self.count], self.values),
            "the state": (list(self.cache.state_dict()), []),
        }
        left = self.most - self.count
        if left:
            due = np.arange(self.count, self.count + left)
            found["the next positions"] = (self.cache.positions(left).numpy(), due)
        return found


class _Table(Driven):
    """Rows by index, alone or in bags, of which one may be padding."""

    events = 10
    histories = 8

    def build(self) -> None:
        nn, self.bags = _nn(), self.one("", "sum", "mean", "max")
        self.padding = self.one(None, 0, 3, -1, -5)
        make = nn.EmbeddingBag if self.bags else nn.Embedding
        how = {"mode": self.bags} if self.bags else {}
        self.layer = make(5, 2, padding_idx=self.padding, **how)
        self.rows = _wide(self.layer.weight)
        if self.padding is not None:
            equal(self.rows[self.padding], np.zeros(2), "the row of padding at first")
        self.jitted = calor.jit(lambda layer, i: layer(i))
        self.grad = np.zeros_like(self.rows)

    def told(self) -> str:
        return f"{self.layer}, padding {self.padding}, bags {self.bags!r}"

    @property
    def index(self) -> int | None:
        return None if self.padding is None else self.padding % 5

    def do_assign(self) -> None:
        """Rows that somebody wrote, that of padding too."""
        # No two are equal: ties of a maximum share its gradient.
        self.rows = self.rng.normal(size=(5, 2)).astype(np.float32).astype(np.float64)
        with calor.no_grad():
            self.layer.weight[...] = calor.asarray(self.rows.astype(np.float32))

    def do_call(self) -> None:
        """Take rows and add up their gradients; a later call adds to those of an earlier one."""
        size = int(self.one(0, 1, 4, 4))
        indices = self.rng.integers(0, 5, (int(self.rng.integers(1, 4)), size)).astype(np.int32)
        call = self.layer if coin(self.rng) else lambda i: self.jitted(self.layer, i)
        made = call(calor.asarray(indices))
        seeds = self.numbers(*made.shape)
        if seeds.size:
            calor.sum(made * calor.asarray(seeds)).backward()
        due, grad = self.bagged(indices, seeds) if self.bags else self.taken(indices, seeds)
        equal(_wide(made), due, f"the rows of {indices.tolist()}", 1e-6)
        self.grad = self.grad + grad

    do_call_more = do_call

    def taken(self, indices: Array, seeds: Array) -> tuple[Array, Array]:
        grad = np.zeros_like(self.rows)
        np.add.at(grad, indices, seeds)
        if self.index is not None:
            grad[self.index] = 0
        return self.rows[indices], grad

    def bagged(self, indices: Array, seeds: Array) -> tuple[Array, Array]:
        grad, made = np.zeros_like(self.rows), np.zeros((len(indices), 2))
        for n, bag in enumerate(indices):
            kept = bag[bag != self.index] if self.index is not None else bag
            if not len(kept):
                continue
            rows = self.rows[kept]
            if self.bags == "max":
                made[n] = rows.max(0)
                for c in range(2):
                    first = kept[rows[:, c].argmax()]
                    grad[first, c] += seeds[n, c]
            else:
                share = 1 if self.bags == "sum" else 1 / len(kept)
                made[n] = rows.sum(0) * share
                np.add.at(grad, kept, seeds[n] * share)
        return made, grad

    def do_train(self) -> None:
        """A step by the gradients that were added up."""
        if self.layer.weight.grad is not None:
            with calor.no_grad():
                self.layer.weight -= self.layer.weight.grad * 0.5
        self.rows = self.rows - 0.5 * self.grad
        self.layer.zero_grad()
        self.grad = np.zeros_like(self.rows)

    def look(self) -> dict[str, Look]:
        held = self.layer.weight.grad
        grad = np.zeros_like(self.grad) if held is None else _wide(held)
        return {
            "the table": (_wide(self.layer.weight), self.rows, 1e-6),
            "the gradient": (grad, self.grad, 1e-6),
        }


_KINDS: Final = {"norms": _Norm, "caches": _Cache, "tables": _Table}


def driven_layers() -> Iterator[Check]:
    """Yield a check of each kind of layer, if the package is installed."""
    yield from checks_of(PACKAGE, _KINDS, CONTRACT, 4)
