"""Threads: calls from any thread, and from several at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import calor
from calor.dtypes import float32, int64

from .base import Place, compiled, plain_array
from .contract import Contracts
from .errors import raised

contract = Contracts("threads")
THREADS = 4
ROUNDS = 25


def together(place: Place, work: Callable[[int], None]) -> None:
    """Run ``work(thread number)`` in threads that start together, and raise their errors."""
    barrier = threading.Barrier(THREADS)
    failures: list[BaseException] = []

    def body(number: int) -> None:
        try:
            with calor.device(place.device):
                barrier.wait()
                work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=body, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@contract("threads that compute at once each get their own numbers", tier="full", dtypes=(float32,))
def results_of_threads(place: Place) -> None:
    def work(number: int) -> None:
        base = plain_array(np.arange(64)).reshape(8, 8) + number
        for n in range(ROUNDS):
            x = calor.asarray(base + n)
            got = calor.sum(x @ x + x, axis=0).numpy()
            want = ((base + n) @ (base + n) + (base + n)).sum(0)
            np.testing.assert_allclose(got, want, rtol=1e-5)

    together(place, work)


@contract(
    "one compiled graph can be called from several threads at once", tier="compiled", looks=False
)
def one_executable_in_threads(place: Place) -> None:
    # What every device has, of any profile: it gives x again in several steps.
    graph = calor.trace(
        lambda x: calor.maximum(x * 0, x * 0 + 1) * x + x * 0,
        calor.asarray(plain_array(np.ones(256))),
    )
    backend, index = place.plain.backend, place.plain.index
    executable = compiled(place, graph)
    known, made_of = graph.input_specs[0], graph.output_specs[0]

    def work(number: int) -> None:
        for n in range(ROUNDS):
            numbers = plain_array(np.full(known.shape, number * 30 + n))
            (made,) = executable([backend.upload(index, numbers)])
            got = np.array(backend.download(index, made, made_of))
            assert (got == numbers).all(), f"thread {number} got {got[:3]} for {numbers[:3]}"

    together(place, work)


@contract(
    "threads that compile the same graph for the first time all get it",
    tier="compiled",
    dtypes=(float32,),
    looks=False,
)
def compiling_in_threads(place: Place) -> None:
    step = calor.jit(lambda x: calor.tanh(x) * 3 + 1)

    def work(number: int) -> None:
        x = calor.asarray(plain_array(np.full(5 + number, number)))
        np.testing.assert_allclose(step(x).numpy(), np.tanh(float(number)) * 3 + 1, rtol=1e-6)

    together(place, work)


@contract("an error of one thread is raised in no other", tier="full", dtypes=(int64,))
def errors_of_threads(place: Place) -> None:
    def work(number: int) -> None:
        x, there = calor.asarray(plain_array(np.arange(4))), calor.asarray(np.array([0, 9]))
        for n in range(ROUNDS):
            if number % 2:
                raised(lambda: calor.take(x, there, axis=0).numpy())
            else:
                _same(x + n, [n + 0.0, n + 1.0, n + 2.0, n + 3.0])

    together(place, work)


@contract("a tensor pending in one thread can be looked at in another", tier="full")
def pending_in_another_thread(place: Place) -> None:
    x = calor.asarray(plain_array(np.arange(5))) * 2
    together(place, lambda number: _same(x, [0.0, 2.0, 4.0, 6.0, 8.0]))


def _same(x: Any, want: list[float]) -> None:
    got = x.tolist()
    assert got == want, f"{got}, not {want}"


@contract("memory figures stay right when threads allocate and free at once", tier="full")
def figures_of_threads(place: Place) -> None:
    from .memory import in_use

    before = in_use(place)

    def work(number: int) -> None:
        for _ in range(ROUNDS):
            (calor.asarray(plain_array(np.ones(1000))) + number).numpy()

    together(place, work)
    after = in_use(place)
    assert after <= before, f"{after - before} bytes are still in use"


CHECKS = contract.checks
