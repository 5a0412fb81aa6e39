"""State that a call replaces, as somebody else holds its value: a failed call leaves it as it was.

The device tells failures late, so the call itself does not raise for what is written under a guard.
"""

import numpy as np
import pytest

import calor
from calor.errors import ElementIndexError
from calor.transforms.state import Stateful

from .test_guards import device_with

ROWS = np.arange(8, dtype=np.float32).reshape(4, 2)
GOOD, BAD = np.array([1, 0, 2], np.int32), np.array([9, 0, 2], np.int32)


class Held(Stateful):
    def __init__(self):
        self.rows = calor.asarray(ROWS)
        self.count = calor.asarray(np.int32(0))


def step(held, indices):
    held.count += 1
    rows = calor.broadcast_to(held.rows[3:], (3, 2))
    held.rows[...] = calor.index_update(held.rows, indices, rows, axis=0, update="max")
    return calor.sum(held.rows)


@pytest.fixture(autouse=True)
def device():
    with calor.device(device_with()) as made:
        yield made


def fails(call, *args):
    """Call, and look at the result and at all that waits; return the error."""
    with pytest.raises(ElementIndexError) as caught:
        call(*args).numpy()
    return caught.value


@pytest.mark.parametrize("first", [GOOD, BAD])
def test_a_second_failure_while_the_first_error_is_kept_loses_no_state(first):
    held, call = Held(), calor.jit(step)
    if first is GOOD:
        call(held, calor.asarray(GOOD)).numpy()
    wanted, count = held.rows.numpy().copy(), held.count.item()
    kept = []
    for _ in range(3):
        kept.append(fails(call, held, calor.asarray(BAD)))
        assert np.array_equal(held.rows.numpy(), wanted)
        assert held.count.item() == count
    call(held, calor.asarray(GOOD)).numpy()
    np.maximum.at(wanted, GOOD, ROWS[3])
    assert np.array_equal(held.rows.numpy(), wanted)
    assert held.count.item() == count + 1


@pytest.mark.parametrize("names", [("rows",), ("count",), ("rows", "count")])
def test_values_that_others_hold_too_are_not_lost(names):
    held, call = Held(), calor.jit(step)
    call(held, calor.asarray(GOOD)).numpy()
    wanted = held.rows.numpy().copy()
    others = {name: getattr(held, name).detach() for name in names}
    fails(call, held, calor.asarray(BAD))
    assert np.array_equal(held.rows.numpy(), wanted)
    assert held.count.item() == 1
    for name, other in others.items():
        assert np.array_equal(other.numpy(), getattr(held, name).numpy())


def test_a_state_that_does_not_depend_on_what_failed_is_left_too():
    def run(held, indices):
        held.count += 1
        return calor.sum(calor.take(held.rows, indices, axis=0))

    held, call = Held(), calor.jit(run)
    for other in (None, held.count.detach()):
        fails(call, held, calor.asarray(BAD))
        assert held.count.item() == 0, other


def test_gradients_that_a_failed_call_would_replace_are_those_of_before():
    weight = calor.asarray(ROWS).requires_grad_()

    def learn(indices):
        loss = calor.sum(calor.take(weight, indices, axis=0) ** 2)
        loss.backward()
        return loss

    call = calor.jit(learn)
    for given, error in ((BAD, True), (GOOD, False), (BAD, True), (BAD, True)):
        before = None if weight.grad is None else weight.grad.numpy().copy()
        if error:
            fails(call, calor.asarray(given))
            assert (weight.grad is None) is (before is None)
            assert before is None or np.array_equal(weight.grad.numpy(), before)
        else:
            call(calor.asarray(given)).numpy()
            wanted = np.where(np.isin(np.arange(4), given)[:, None], 2 * ROWS, 0)
            assert np.array_equal(weight.grad.numpy(), wanted)
