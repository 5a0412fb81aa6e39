"""Scans whose steps a device repeats itself; run on the processor, which does."""

import threading

import numpy as np
import pytest

import calor
import calor_kernel
from calor.device_selection import as_device
from calor.transforms.families import Families
from calor_kernel.planning.plan import Plan

pytest.importorskip("calor_cpu")
WIDTH = 16


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32) * 0.3


def recurrent(weights, start, rows, reverse=False):
    """Two states, of which one is a result as well, and a result that is a state before a step."""

    def step(states, row):
        hidden, total = states
        new = calor.tanh(row + calor.matmul(hidden, weights))
        return (new, total + new), (new, total)

    (hidden, total), made = calor.scan(step, (start, start * 0 + 1), rows, reverse=reverse)
    return hidden, total, *made


def plain(weights, start, rows, reverse=False):
    """The same in NumPy."""
    hidden, total = start, start * 0 + 1
    first, second = np.empty_like(rows), np.empty_like(rows)
    order = range(len(rows))
    for i in reversed(order) if reverse else order:
        second[i] = total
        hidden = np.tanh(rows[i] + hidden @ weights)
        first[i] = hidden
        total = total + hidden
    return hidden, total, first, second


def same(found, wanted):
    for one, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.numpy(), want, rtol=1e-5, atol=1e-4)


def arguments(length, seed=0):
    return numbers(WIDTH, WIDTH), numbers(1, WIDTH, seed=seed), numbers(length, 1, WIDTH, seed=7)


@pytest.mark.parametrize("reverse", [False, True])
def test_any_number_of_steps_is_one_plan(reverse):
    program = calor.jit(lambda *given: recurrent(*given, reverse=reverse))
    program.families = Families()
    with calor.device("cpu"):
        for length in (1, 2, 3, 8, 5, 70, 4):
            given = arguments(length, length)
            for _ in range(3):
                same(program(*map(calor.asarray, given)), plain(*given, reverse))
            assert isinstance(program.programs[0].executable, Plan)


def test_weights_that_are_replaced_are_read_anew_at_all_sizes():
    weights = calor.asarray(numbers(WIDTH, WIDTH), device="cpu")
    program = calor.jit(lambda start, rows: recurrent(weights, start, rows))
    program.families = Families()
    with calor.device("cpu"):
        for turn, length in enumerate((4, 6, 8, 7, 5, 9, 10, 6, 3, 11)):
            if turn % 3 == 2:
                weights *= 0.5
            _, start, rows = arguments(length, turn)
            for _ in range(2):
                found = program(calor.asarray(start), calor.asarray(rows))
                same(found, plain(weights.numpy(), start, rows))


@pytest.mark.parametrize("length", [1, 2, 9])
def test_a_profile_counts_the_work_of_all_steps(length):
    program = calor.jit(recurrent)
    with calor.device("cpu"):
        given = [calor.asarray(one) for one in arguments(length)]
        program(*given)
        with calor_kernel.profile("cpu") as profile:
            program(*given)
    products = [event for event in profile.events if "matmul" in event.blueprint]
    assert sum(event.flops for event in products) == length * 2 * WIDTH * WIDTH
    # The weights are read at the first step, and by the launch that repeats the others.
    weights, row = WIDTH * WIDTH * 4, WIDTH * 4
    least = min(length, 2) * weights + length * row
    assert least <= sum(event.nbytes for event in products) <= least + 8 * length * row


def test_threads_run_one_plan_at_once():
    program = calor.jit(recurrent)
    failed = []

    def run(seed):
        given = arguments(40, seed)
        try:
            with calor.device("cpu"):
                for _ in range(20):
                    same(program(*map(calor.asarray, given)), plain(*given))
        except Exception as error:
            failed.append(error)

    run(0)
    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_rows_that_are_not_aligned_are_run_by_the_host():
    engine = as_device("cpu").backend.engine(0)
    before = len(engine.unrepeated)
    program = calor.jit(lambda start, rows: calor.scan(lambda c, r: (c + r, c), start, rows))
    with calor.device("cpu"):
        last, made = program(calor.zeros(5), calor.ones((4, 5)))
    assert last.tolist() == [4.0] * 5
    assert made.numpy()[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0]
    assert len(engine.unrepeated) == before + 1
