"""Specs, signatures and memos do not grow for ever, and what is in use survives their emptying."""

from __future__ import annotations

import gc
import pickle
import threading
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

import calor
from calor.backends.device import Device
from calor.backends.null import NullBackend
from calor.dtypes import float32
from calor.interning import Interner
from calor.local import local
from calor.ops import elementwise as e
from calor.ops.base import SIGNATURES, TABLE, signature
from calor.specs import _INTERNED, spec

LIMIT = 32


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    """A device that computes nothing, with room for few recipes and plans."""
    monkeypatch.setattr("calor.interning.MEMO_LIMIT", LIMIT)
    monkeypatch.setattr("calor.compiling.plans.PLAN_LIMIT", LIMIT)
    for row in TABLE.values():
        row.memo.clear()
    made = Device(NullBackend(), 0)
    with calor.device(made):
        yield made
    local.traces.pop(made, None)


def use(n: int) -> calor.Tensor:
    """Record ops of every kind of memo on shapes that depend on n."""
    x = calor.zeros((n, 3))
    y = (x * 2.0 + x).sum(axis=1)
    z = calor.reshape(y, (1, n)) @ x
    return calor.einsum("ij,kj->ik", z, x)[0, 0] + calor.softmax(y, axis=0)[0]


def test_equal_specs_are_one_while_they_live() -> None:
    first = spec((123, 457), float32)
    assert spec((123, 457), float32) is first
    assert spec((np.int64(123), 457), float32) is first  # type: ignore[arg-type]
    assert [type(n) for n in first.shape] == [int, int]
    held = weakref.ref(first)
    assert first.with_shape((9,)) is spec((9,), float32)
    del first
    gc.collect()
    assert held() is None
    assert spec((123, 457), float32).size == 123 * 457


def test_equal_signatures_are_one_while_they_live() -> None:
    x = spec((123, 459), float32)
    first = signature(e.neg, (x,), {})
    assert signature(e.neg, (x,), {}) is first
    held = weakref.ref(first)
    del first
    gc.collect()
    assert held() is None


def test_many_shapes_are_forgotten(small: Device) -> None:
    counts = []
    for n in range(1, 1200):
        calor.eval(use(n))
        if n % 300 == 0:
            gc.collect()
            # The keys of dead signatures hold their specs, and how many of them wait to be swept
            # out depends on how many live, in the whole process.
            SIGNATURES._sweep()
            counts.append((len(SIGNATURES), len(_INTERNED)))
    assert counts[-1][0] <= 1.2 * counts[1][0]
    assert counts[-1][1] <= 1.2 * counts[1][1]
    assert max(len(row.memo) for row in TABLE.values()) <= LIMIT


def test_what_is_pending_outlives_the_memos(small: Device) -> None:
    with calor.device("numpy"):
        x = calor.asarray(np.arange(6.0).reshape(2, 3))
        pending = (x * 2.0 + x).sum(axis=1)
    for n in range(100, 300):
        calor.eval(use(n))
    gc.collect()
    assert pending.tolist() == [9.0, 36.0]


def test_a_plan_is_found_when_its_recipes_were_forgotten(small: Device) -> None:
    calor.eval(use(7))
    before = small.plans_made
    for row in TABLE.values():
        row.memo.clear()
    gc.collect()
    calor.eval(use(7))
    assert small.plans_made == before


def test_threads_get_the_same_objects() -> None:
    start = threading.Barrier(8)
    found: list[list[object]] = [[] for _ in range(8)]

    def work(mine: list[object]) -> None:
        start.wait()
        for n in range(500):
            mine.append(spec((n, 77), float32))
            mine.append(signature(e.exp, (spec((n, 77), float32),), {}))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for others in found[1:]:
        assert all(a is b for a, b in zip(found[0], others, strict=True))


class Thing:
    pass


def test_an_interner_sweeps_out_the_dead() -> None:
    table: Interner[int, Thing] = Interner()
    kept = [table.add(n, Thing) for n in range(100)]
    for n in range(100, 20_000):
        table.add(n, Thing)
    assert len(table) == 100
    assert len(table.entries) <= 1025
    assert [table.get(n) for n in range(100)] == kept
    assert table.get(100) is None


def test_a_pickled_graph_is_equal_and_leaves_out_what_was_computed_from_it() -> None:
    graph = calor.trace(lambda x: calor.tanh(x) + 1.0, calor.ones((2, 3)))
    fresh = pickle.dumps(graph)
    assert pickle.loads(fresh) == graph  # which computes the key of each
    assert pickle.dumps(graph) == fresh
