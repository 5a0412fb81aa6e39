"""State that a trace must not lose: frozen parameters, and writes from bodies of control flow."""

import pytest

import calor
from calor.errors import TraceError


def test_freezing_and_thawing_a_captured_tensor_is_noticed():
    w = calor.asarray(2.0, requires_grad=True)
    u = calor.asarray(3.0, requires_grad=True)

    @calor.jit
    def step():
        (w * u).backward()

    step()
    u.requires_grad = False
    w.grad = u.grad = None
    step()
    assert w.grad.item() == 3.0
    assert u.grad is None
    u.requires_grad = True
    w.grad = None
    step()
    assert u.grad.item() == 2.0
    assert step.trace_count >= 2


def _loop(t):
    def body(i, carry):
        seen = t * 2.0
        t.__iadd__(1.0)
        return carry + seen

    return lambda: calor.fori_loop(0, 3, body, calor.zeros(()))


def _draw(t):
    return lambda: calor.scan(lambda c, _: (c, calor.random.normal(())), t, length=3)[1]


@pytest.mark.parametrize("make", [_loop, _draw])
@pytest.mark.parametrize("wrap", [lambda f: f, calor.jit])
def test_a_body_that_changes_a_tensor_from_outside_is_refused_and_leaves_it_usable(make, wrap):
    t = calor.zeros(())
    calor.random.seed(0)
    first = calor.random.normal(()).item()
    with pytest.raises(TraceError, match="changes a tensor from outside in place"):
        wrap(make(t))()
    assert (t + 1.0).item() == 1.0
    second = calor.random.normal(()).item()
    calor.random.seed(0)
    assert [calor.random.normal(()).item() for _ in range(2)] == [first, second]


def test_a_body_may_change_its_own_carry_in_place():
    def body(i, carry):
        carry += 1.0
        return carry

    start = calor.zeros(())
    assert calor.fori_loop(0, 3, body, start).item() == 3.0
    assert start.item() == 0.0
