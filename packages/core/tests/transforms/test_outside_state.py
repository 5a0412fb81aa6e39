"""State that a trace must not lose: frozen parameters, and what is not captured."""

import calor


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


def test_a_body_may_change_its_own_carry_in_place():
    def body(i, carry):
        carry += 1.0
        return carry

    start = calor.zeros(())
    assert calor.fori_loop(0, 3, body, start).item() == 3.0
    assert start.item() == 0.0
