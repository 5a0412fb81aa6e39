"""Optimizers: their formulas written once more in NumPy, groups, state, and jit."""

from functools import partial

import numpy as np
import pytest

import calor
from calor.errors import ArgumentError, DTypeError, GradientError, ShapeError
from calor.transforms.state import Stateful
from calor_train import SGD, Adam, AdamW, Scheduler, StepDecay

STEPS = 6


def sgd(p, g, state, t, *, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
    g = g + weight_decay * p
    if momentum:
        b = g if t == 1 else momentum * state["b"] + (1 - dampening) * g
        state["b"] = b
        g = g + momentum * b if nesterov else b
    return p - lr * g


def adam(p, g, state, t, *, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False):
    return _adam(p, g + weight_decay * p, state, t, lr, betas, eps, amsgrad)


def adamw(p, g, state, t, *, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, amsgrad=False):
    return _adam(p * (1 - lr * weight_decay), g, state, t, lr, betas, eps, amsgrad)


def _adam(p, g, state, t, lr, betas, eps, amsgrad):
    state["m"] = betas[0] * state.get("m", 0) + (1 - betas[0]) * g
    state["v"] = betas[1] * state.get("v", 0) + (1 - betas[1]) * g**2
    v = state["v"]
    if amsgrad:
        v = state["largest"] = np.maximum(state.get("largest", 0), v)
    corrected = np.sqrt(v / (1 - betas[1] ** t)) + eps
    return p - lr * state["m"] / (1 - betas[0] ** t) / corrected


ROWS = [
    (SGD, sgd, {"lr": 0.1}),
    (SGD, sgd, {"lr": 0.1, "weight_decay": 0.1}),
    (SGD, sgd, {"lr": 0.1, "momentum": 0.9}),
    (SGD, sgd, {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    (SGD, sgd, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    (Adam, adam, {"lr": 0.1}),
    (Adam, adam, {"lr": 0.1, "betas": (0.5, 0.7), "eps": 0.1, "weight_decay": 0.1}),
    (Adam, adam, {"lr": 0.1, "amsgrad": True}),
    (Adam, adam, {"lr": 0.1, "betas": (0.0, 0.9)}),
    (AdamW, adamw, {"lr": 0.1}),
    (AdamW, adamw, {"lr": 0.1, "weight_decay": 0.3, "amsgrad": True}),
]
row_names = [f"{kind.__name__}-{'-'.join(map(str, options))}" for kind, _, options in ROWS]


def gradients(p, t):
    """Gradients that depend on the parameter and change sign and size with the step."""
    return np.sin(3 * p + t) * (4.0 if t == 2 else 1.0)


def start():
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape) for shape in ((3, 2), (4,), ())]


@pytest.mark.parametrize("dtype", [calor.float64, calor.float32], ids=str)
@pytest.mark.parametrize("maximize", [False, True], ids=["down", "up"])
@pytest.mark.parametrize(("kind", "formula", "options"), ROWS, ids=row_names)
def test_steps_follow_the_formula(kind, formula, options, maximize, dtype):
    expected = start()
    states = [{} for _ in expected]
    params = [calor.asarray(x, dtype=dtype, requires_grad=True) for x in expected]
    optimizer = kind(params, maximize=maximize, **options)
    for t in range(1, STEPS + 1):
        sign = -1 if maximize else 1
        for i, p in enumerate(params):
            g = gradients(expected[i], t)
            p.grad = calor.asarray(g, dtype=dtype)
            expected[i] = np.asarray(formula(expected[i], sign * g, states[i], t, **options))
        optimizer.step()
        for p, x in zip(params, expected, strict=True):
            tolerance = 1e-12 if dtype is calor.float64 else 2e-5
            np.testing.assert_allclose(p.numpy(), x, rtol=tolerance, atol=tolerance)
        assert all(p.requires_grad for p in params)


class Pair(Stateful):
    """Two parameters, one of which a loss may leave out, and a buffer."""

    def __init__(self):
        self.a = calor.asarray([1.0, -2.0], requires_grad=True)
        self.b = calor.asarray([[0.5]], requires_grad=True)
        self.buffer = calor.asarray([7.0])

    def loss(self, x):
        return (self.a * self.a * x).sum() + (self.b * 3.0).sum()


def train(kind, options, mode, steps=5):
    model = Pair()
    optimizer = kind(model, **options)
    scheduler = Scheduler(optimizer, lr=StepDecay(1, gamma=0.9))

    def step(model, optimizer, x):
        if mode.endswith("functional"):
            loss, grads = calor.value_and_grad(lambda m: m.loss(x))(model)
            optimizer.update(model, grads)
        else:
            loss = model.loss(x)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return loss

    call = calor.jit(step) if mode.startswith("jit") else step
    for i in range(steps):
        call(model, optimizer, calor.asarray([1.0, 0.5 + i]))
        scheduler.step()
    if mode.startswith("jit"):
        assert call.trace_count == 1
    return model, optimizer


@pytest.mark.parametrize("mode", ["eager functional", "jit", "jit functional"])
@pytest.mark.parametrize(("kind", "formula", "options"), ROWS, ids=row_names)
def test_every_way_to_step_gives_the_same_numbers(kind, formula, options, mode):
    expected, reference = train(kind, options, "eager")
    model, optimizer = train(kind, options, mode)
    for name in ("a", "b", "buffer"):
        found = getattr(model, name).numpy()
        np.testing.assert_allclose(found, getattr(expected, name).numpy(), rtol=1e-6)
    wanted = calor.tree.leaves(reference.state_dict())
    for x, y in zip(calor.tree.leaves(optimizer.state_dict()), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-5)


def test_a_parameter_without_a_gradient_is_left_alone_and_counts_no_step():
    p, q = (calor.ones((2,), requires_grad=True) for _ in range(2))
    optimizer = Adam([p, q], lr=0.1, weight_decay=0.5)
    for step in range(4):
        p.grad = calor.ones(2)
        q.grad = calor.ones(2) if step == 3 else None
        optimizer.step()
    assert optimizer.param_groups[0].counts() == [4, 1]
    # The first step of Adam has the length lr, whatever the gradient.
    np.testing.assert_allclose(q.numpy(), 0.9, rtol=1e-5)


def test_bias_correction_keeps_float32_precision():
    p = calor.asarray([0.0], requires_grad=True)
    optimizer = Adam([p], lr=1.0, betas=(0.9, 0.99999))
    p.grad = calor.asarray([1e-3])
    optimizer.step()
    np.testing.assert_allclose(p.numpy(), -1.0, rtol=2e-5)


@pytest.mark.parametrize("dtype", [calor.float16, calor.bfloat16], ids=str)
def test_master_weights_add_up_steps_below_the_precision_of_a_half(dtype):
    found = {}
    for master in (False, True):
        p = calor.ones((1,), dtype=dtype, requires_grad=True)
        optimizer = SGD([p], lr=1e-4, master_weights=master)
        for _ in range(100):
            p.grad = calor.ones((1,), dtype=dtype)
            optimizer.step()
        found[master] = float(p.astype(calor.float32)[0])
        assert p.dtype is dtype
    assert found[False] == 1.0
    assert found[True] == pytest.approx(0.99, abs=4e-3)
    assert optimizer.param_groups[0].masters[0].dtype is calor.float32


def test_moments_of_halves_are_float32():
    p = calor.ones((1,), dtype=calor.float16, requires_grad=True)
    optimizer = Adam([p], lr=0.125)
    p.grad = calor.full((1,), 1e-5, dtype=calor.float16)
    optimizer.step()
    # 1e-5 squared is zero in float16; the step would be infinite.
    np.testing.assert_allclose(p.numpy().astype(np.float32), 0.875, rtol=1e-3)


@pytest.mark.parametrize(
    "make", [Adam, AdamW, partial(Adam, amsgrad=True), partial(SGD, momentum=0.9)]
)
def test_a_state_dtype_rounds_the_state_and_nothing_else(make):
    generator = np.random.default_rng(0)
    given = generator.uniform(0.5, 1.0, (3, 5)).astype(np.float32)
    p, q = (calor.asarray(given, dtype=calor.bfloat16, requires_grad=True) for _ in range(2))
    short, exact = make([p], lr=0.125, state_dtype="bfloat16"), make([q], lr=0.125)
    p.grad = q.grad = calor.asarray(generator.standard_normal((3, 5)), dtype=calor.bfloat16)
    short.step()
    exact.step()
    # The first step reads the state as it was before it was rounded.
    np.testing.assert_array_equal(p.numpy(), q.numpy())
    slots, wanted = (one.param_groups[0].state for one in (short, exact))
    for slot, (held,) in slots.items():
        assert held.dtype is calor.bfloat16
        rounded = wanted[slot][0].astype(calor.bfloat16)
        np.testing.assert_array_equal(held.numpy(), rounded.numpy())
    again = make([calor.zeros_like(p, requires_grad=True)], lr=0.125, state_dtype="bfloat16")
    again.load_state_dict(short.state_dict())
    for slot, (held,) in again.param_groups[0].state.items():
        assert held.dtype is calor.bfloat16
        np.testing.assert_array_equal(held.numpy(), slots[slot][0].numpy())


def test_a_state_dtype_holds_pairs_of_complex_parameters_but_no_complex_state():
    z = calor.asarray([1.0 + 2.0j], requires_grad=True)
    z.grad = calor.asarray([1.0 - 1.0j])
    optimizer = Adam([z], lr=0.5, state_dtype=calor.bfloat16)
    optimizer.step()
    np.testing.assert_allclose(z.numpy(), 0.5 + 2.5j, rtol=1e-5)
    with pytest.raises(DTypeError, match="complex64, which bfloat16 cannot hold; leave"):
        SGD([z], momentum=0.5, state_dtype=calor.bfloat16)
    with pytest.raises(DTypeError, match="floating dtype, not int8"):
        Adam([z], state_dtype="int8")


def test_complex_parameters_are_stepped_as_pairs_of_real_ones():
    z = calor.asarray([1.0 + 2.0j], requires_grad=True)
    pair = calor.asarray([1.0, 2.0], requires_grad=True)
    ours, reference = Adam([z], lr=0.1), Adam([pair], lr=0.1)
    for t in range(1, 4):
        z.grad = calor.asarray([t + 1j / t])
        pair.grad = calor.asarray([float(t), 1 / t])
        ours.step()
        reference.step()
    np.testing.assert_allclose(z.numpy().view(np.float32), pair.numpy(), rtol=1e-6)


def test_groups_have_hyperparameters_of_their_own():
    p, q = (calor.ones((1,), requires_grad=True) for _ in range(2))
    optimizer = SGD([{"params": [p]}, {"params": [q], "lr": 0.5, "maximize": True}], lr=0.25)
    p.grad = q.grad = calor.ones(1)
    optimizer.step()
    assert (p.item(), q.item()) == (0.75, 1.5)
    optimizer.param_groups[1]["lr"] = 0.0
    assert optimizer.param_groups[1].lr == 0.0
    optimizer.lr = 1.0
    assert [group["lr"] for group in optimizer.param_groups] == [1.0, 1.0]
    optimizer.add_param_group({"params": [calor.ones((2,), requires_grad=True)], "lr": 3})
    assert optimizer.param_groups[2].lr == 3.0
    assert "1 parameters: lr=1.0" in repr(optimizer)


def test_a_tensor_used_twice_is_one_parameter():
    class Tied(Stateful):
        def __init__(self):
            self.first = calor.ones((2,), requires_grad=True)
            self.second = self.first

    assert len(SGD(Tied()).params) == 1


def test_zero_grad():
    p = calor.ones((2,), requires_grad=True)
    optimizer = SGD([p])
    p.grad = calor.ones(2)
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert p.grad is None


@pytest.mark.parametrize(("kind", "formula", "options"), ROWS, ids=row_names)
def test_state_dict_continues_bit_for_bit(kind, formula, options):
    def fresh():
        params = [calor.asarray(x, dtype=calor.float32, requires_grad=True) for x in start()]
        return params, kind(params, **options)

    def steps(params, optimizer, first, last):
        for t in range(first, last):
            for p in params:
                p.grad = calor.sin(p.detach() * 3 + t)
            optimizer.step()

    params, optimizer = fresh()
    steps(params, optimizer, 0, 3)
    saved = optimizer.state_dict()
    weights = [p.detach() for p in params]
    steps(params, optimizer, 3, 6)

    others, resumed = fresh()
    resumed.lr = 99.0
    resumed.load_state_dict(saved)
    with calor.no_grad():
        for p, w in zip(others, weights, strict=True):
            p[...] = w
    steps(others, resumed, 3, 6)
    for p, q in zip(params, others, strict=True):
        assert p.numpy().tobytes() == q.numpy().tobytes()


def one():
    return [calor.ones((2,), requires_grad=True)]


def graded(optimizer, shape):
    optimizer.param_groups[0].step([calor.ones(shape)])


ERRORS = [
    (lambda: SGD([]), ArgumentError, "given no parameters"),
    (lambda: SGD(calor.ones(2)), ArgumentError, r"write \[tensor\]"),
    (lambda: SGD({"params": one()}), ArgumentError, "list of dictionaries"),
    (lambda: SGD(3), ArgumentError, "a module or an iterable of tensors"),
    (lambda: SGD([1.0]), ArgumentError, "is a float, not a tensor"),
    (lambda: SGD([calor.asarray([1])]), DTypeError, "int64; only floating"),
    (lambda: SGD([one()[0] * 2]), GradientError, "computed from other tensors"),
    (lambda: SGD(one(), lr=-1.0), ArgumentError, "lr must be at least 0, not -1.0"),
    (lambda: SGD(one(), lr="fast"), ArgumentError, "lr must be a number, not 'fast'"),
    (lambda: SGD(one(), lr=float("nan")), ArgumentError, "lr must be a number, not nan"),
    (lambda: SGD(one(), nesterov=True), ArgumentError, "needs momentum > 0"),
    (lambda: Adam(one(), betas=(0.9, 1.0)), ArgumentError, "beta2 must be a number, at least"),
    (lambda: Adam([{"params": one(), "rate": 1}]), ArgumentError, "no option 'rate'; it has lr"),
    (lambda: Adam([{"weights": one()}]), ArgumentError, 'the key "params"'),
    (lambda: SGD([{"params": (p := one())}, {"params": p}]), ArgumentError, "in group 0 already"),
    (lambda: graded(SGD(one()), (3,)), ShapeError, r"shape \(2,\), its gradient \(3,\)"),
    (lambda: SGD(one()).update({"w": calor.ones(2)}, {}), ArgumentError, "does not hold parameter"),
    (
        lambda: SGD(p := one()).update(p, {"x": calor.ones(2)}),
        ArgumentError,
        "grads holds 'x', which the model does not",
    ),
    (
        lambda: Adam(one()).load_state_dict(SGD(one()).state_dict()),
        ArgumentError,
        "the saved hyper-parameters are",
    ),
    (
        lambda: SGD(one(), momentum=0.9).load_state_dict(SGD(one()).state_dict()),
        ArgumentError,
        r"expected \['momentum_buffer'\], found \[\]",
    ),
    (
        lambda: SGD(one()).load_state_dict(SGD([*one(), *one()]).state_dict()),
        ArgumentError,
        r"groups of \[2\] parameters, this one of \[1\]",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=[m for _, _, m in ERRORS])
def test_errors_say_what_to_do(call, error, message):
    with pytest.raises(error, match=message):
        call()
