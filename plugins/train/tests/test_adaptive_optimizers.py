"""Adaptive optimizers beside numbers of PyTorch 2.13, and what is special about each of them."""

import numpy as np
import pytest

import calor
from calor.errors import ArgumentError
from calor_train import Adadelta, Adagrad, Adamax, NAdam, RAdam, RMSprop, Rprop

START = np.asarray([[0.5, -1.25], [2.0, 0.125]])
# Optimizer, options, whether it ascends, and the parameter after eight steps of torch.optim.
GOLDEN = [
    (RMSprop, {}, False, [0.4297066899, -1.0622441044, 1.8035997195, -0.0695242242]),
    (
        RMSprop,
        {"alpha": 0.5, "momentum": 0.5, "centered": True, "weight_decay": 0.1},
        False,
        [0.4917800147, -1.163724043, 1.907965645, 0.0413508487],
    ),
    (Adagrad, {}, False, [0.499481392, -1.2308234662, 1.980797985, 0.1062633331]),
    (
        Adagrad,
        {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.3},
        False,
        [0.4708487076, -1.0921287258, 1.8129305382, -0.041767929],
    ),
    (Adadelta, {}, False, [0.4999450954, -1.2428533579, 1.992753971, 0.1176685962]),
    (
        Adadelta,
        {"lr": 0.5, "rho": 0.5, "eps": 0.001, "weight_decay": 0.1},
        False,
        [0.4677349789, -1.186994658, 1.9251360245, 0.0595702666],
    ),
    (Adamax, {}, False, [0.5013291641, -1.2446351674, 1.9946196065, 0.1196086408]),
    (
        Adamax,
        {"lr": 0.1, "betas": (0.5, 0.7), "eps": 0.1, "weight_decay": 0.1},
        False,
        [0.3863033328, -0.9852649632, 1.7409631806, -0.0864971706],
    ),
    (NAdam, {}, False, [0.4999598837, -1.2451645086, 1.9950816089, 0.1200214057]),
    (
        NAdam,
        {"lr": 0.1, "weight_decay": 0.1, "momentum_decay": 0.1},
        False,
        [0.3211084905, -0.9826676406, 1.717121508, -0.1258832614],
    ),
    (
        NAdam,
        {"lr": 0.1, "betas": (0.5, 0.9), "weight_decay": 0.1, "decoupled_weight_decay": True},
        False,
        [0.1971770446, -0.9066261204, 1.624934048, -0.1467780775],
    ),
    (RAdam, {}, False, [0.5016115103, -1.2439594178, 1.9937011817, 0.1201899957]),
    (
        RAdam,
        {"lr": 0.1, "betas": (0.9, 0.9999)},
        False,
        [0.5684962043, -0.7248971685, 1.2197151827, -0.5914567771],
    ),
    (
        RAdam,
        {"lr": 0.1, "betas": (0.5, 0.6), "weight_decay": 0.1},
        False,
        [0.4252551756, -0.6720557475, 1.1409438064, -0.4029351012],
    ),
    (
        RAdam,
        {"lr": 0.1, "betas": (0.5, 0.9), "weight_decay": 0.1, "decoupled_weight_decay": True},
        False,
        [0.5088309652, -0.7584032551, 1.1353835637, -0.4627477366],
    ),
    (Rprop, {}, False, [0.4944, -1.22512, 1.97512, 0.10828]),
    (
        Rprop,
        {"lr": 0.1, "etas": (0.3, 2.0), "step_sizes": (0.05, 0.3)},
        False,
        [0.2, -1.97, -0.1, -1.975],
    ),
    (
        RMSprop,
        {"alpha": 0.5, "momentum": 0.5, "centered": True, "weight_decay": 0.1},
        True,
        [0.4913155203, -1.3069035209, 2.0584990101, 0.2129707898],
    ),
    (
        Adagrad,
        {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.3},
        True,
        [0.4632020263, -1.3687475258, 2.1159186136, 0.2616138642],
    ),
    (
        Adadelta,
        {"lr": 0.5, "rho": 0.5, "eps": 0.001, "weight_decay": 0.1},
        True,
        [0.4880369603, -1.2898195944, 2.0322379994, 0.1812539924],
    ),
    (
        Adamax,
        {"lr": 0.1, "betas": (0.5, 0.7), "eps": 0.1, "weight_decay": 0.1},
        True,
        [0.4061133064, -1.3782933137, 2.0971222764, 0.3287262873],
    ),
    (
        NAdam,
        {"lr": 0.1, "weight_decay": 0.1, "momentum_decay": 0.1},
        True,
        [0.4572859504, -1.4628175078, 2.1773068719, 0.3287585572],
    ),
    (RAdam, {}, True, [0.498368246, -1.2560631674, 2.0062702914, 0.1297747303]),
    (
        RAdam,
        {"lr": 0.1, "betas": (0.5, 0.6), "weight_decay": 0.1},
        True,
        [0.1989588028, -1.7513085435, 2.3254624788, 0.4200117875],
    ),
    (Rprop, {}, True, [0.5056, -1.27488, 2.02488, 0.14172]),
]
COMPLEX = [
    (Rprop, {"lr": 0.1, "etas": (0.3, 2.0), "step_sizes": (0.05, 0.3)}, [0.2, -0.1, -1.97, -1.975]),
    (
        RAdam,
        {"lr": 0.1, "betas": (0.5, 0.9), "weight_decay": 0.1, "decoupled_weight_decay": True},
        [0.5088309652, 1.1353835637, -0.7584032551, -0.4627477366],
    ),
    (
        NAdam,
        {"lr": 0.1, "betas": (0.5, 0.9), "weight_decay": 0.1, "decoupled_weight_decay": True},
        [0.1971770446, 1.624934048, -0.9066261204, -0.1467780775],
    ),
    (
        Adamax,
        {"lr": 0.1, "betas": (0.5, 0.7), "eps": 0.1, "weight_decay": 0.1},
        [0.3863033328, 1.7409631806, -0.9852649632, -0.0864971706],
    ),
    (
        Adadelta,
        {"lr": 0.5, "rho": 0.5, "eps": 0.001, "weight_decay": 0.1},
        [0.4677349789, 1.9251360245, -1.186994658, 0.0595702666],
    ),
    (
        Adagrad,
        {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.3},
        [0.4708487076, 1.8129305382, -1.0921287258, -0.041767929],
    ),
    (
        RMSprop,
        {"alpha": 0.5, "momentum": 0.5, "centered": True, "weight_decay": 0.1},
        [0.4917800147, 1.907965645, -1.163724043, 0.0413508487],
    ),
]
# One row of each optimizer, with its options, descending.
DOWN = list({row[0]: row for row in GOLDEN if not row[2]}.values())


def names(rows):
    return [f"{row[0].__name__}-{'-'.join(map(str, row[1]))}-{row[-2]}" for row in rows]


def steps(parameter, optimizer, first=1, last=8):
    for t in range(first, last + 1):
        parameter.grad = gradient(parameter, t)
        optimizer.step()


def gradient(parameter, t):
    """Gradients that depend on the parameter and change sign and size with the step."""
    x = parameter.numpy()
    parts = x if x.dtype.kind == "f" else x.view(np.float64)
    g = np.sin(3 * parts + t) * (4.0 if t == 2 else 1.0)
    return calor.asarray(g.astype(parts.dtype).view(x.dtype).reshape(x.shape))


@pytest.mark.parametrize(("kind", "options", "up", "end"), GOLDEN, ids=names(GOLDEN))
def test_steps_are_those_of_torch(kind, options, up, end):
    for dtype, tolerance in ((calor.float64, 1e-8), (calor.float32, 1e-5)):
        p = calor.asarray(START, dtype=dtype, requires_grad=True)
        steps(p, kind([p], maximize=up, **options))
        np.testing.assert_allclose(p.numpy().reshape(-1), end, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("kind", "options", "end"), COMPLEX, ids=names(COMPLEX))
def test_complex_parameters_are_stepped_as_pairs(kind, options, end):
    p = calor.asarray(START[0] + 1j * START[1], requires_grad=True)
    steps(p, kind([p], **options))
    np.testing.assert_allclose(p.numpy().view(np.float64), end, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("kind", "options", "up", "end"), DOWN, ids=names(DOWN))
def test_a_jitted_step_is_traced_once_and_gives_the_same_numbers(kind, options, up, end):
    def step(optimizer, g):
        optimizer.param_groups[0].step([g])

    compiled = calor.jit(step)
    found = []
    for call in (step, compiled):
        p = calor.asarray(START, dtype=calor.float32, requires_grad=True)
        optimizer = kind([p], maximize=up, **options)
        optimizer.lr = 0.07
        for t in range(1, 8):
            call(optimizer, calor.asarray(np.sin(START + t), dtype=calor.float32))
            optimizer.lr = optimizer.lr * 0.9
        found.append(p.numpy())
    assert compiled.trace_count == 1
    np.testing.assert_allclose(*found, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize(("kind", "options", "up", "end"), DOWN, ids=names(DOWN))
def test_a_state_dict_continues_bit_for_bit(kind, options, up, end):
    p, q = (calor.asarray(START, dtype=calor.float32, requires_grad=True) for _ in range(2))
    first = kind([p], maximize=up, **options)
    steps(p, first, last=4)
    second = kind([q], maximize=up, **options)
    second.load_state_dict(first.state_dict())
    with calor.no_grad():
        q[...] = p.detach()
    steps(p, first, first=5)
    steps(q, second, first=5)
    assert p.numpy().tobytes() == q.numpy().tobytes()


@pytest.mark.parametrize("kind", [RMSprop, Adagrad, Adadelta, Adamax, NAdam, RAdam, Rprop])
def test_halves_have_a_state_of_float32_and_master_weights(kind):
    p = calor.asarray(START, dtype=calor.bfloat16, requires_grad=True)
    exact = calor.asarray(START, dtype=calor.float32, requires_grad=True)
    optimizer, reference = kind([p], master_weights=True), kind([exact])
    for t in range(1, 4):
        g = calor.asarray(np.sin(START + t), dtype=calor.bfloat16)
        p.grad, exact.grad = g, g.astype(calor.float32)
        optimizer.step()
        reference.step()
    group = optimizer.param_groups[0]
    assert {x.dtype for held in group.state.values() for x in held} == {calor.float32}
    np.testing.assert_array_equal(group.masters[0].numpy(), exact.numpy())


def test_the_product_of_momenta_is_of_the_steps_that_a_parameter_makes():
    p, q = (calor.asarray([1.0], requires_grad=True) for _ in range(2))
    optimizer = NAdam([p, q])
    for turn in range(3):
        p.grad, q.grad = calor.ones(1), calor.ones(1) if turn == 2 else None
        optimizer.step()
    momenta = [0.9 * (1 - 0.5 * 0.96 ** (t * 4e-3)) for t in (1, 2, 3)]
    products = [float(e["mu_product"]) for e in optimizer.state_dict()["state"].values()]
    np.testing.assert_allclose(products, [np.prod(momenta), momenta[0]], rtol=1e-6)
    saved = optimizer.state_dict()
    del saved["state"]["1"]["mu_product"]
    with pytest.raises(ArgumentError, match="no 'mu_product'; was it saved by NAdam"):
        optimizer.load_state_dict(saved)


def test_the_length_of_an_average_is_exact_in_float32():
    for beta in (0.6, 0.9, 0.999, 0.99999):
        p = calor.asarray([1.0], requires_grad=True)
        group = RAdam([p], betas=(0.9, beta)).param_groups[0]
        t = np.asarray([1, 2, 5, 6, 100, 5000], np.float64)
        want = 2 / (1 - beta) - 1 + 2 * t * beta**t / np.expm1(t * np.log(beta))
        found = group.lengths(calor.asarray(t, dtype=calor.float32)).numpy()
        np.testing.assert_allclose(found, want, rtol=3e-6)


def test_equal_gradients_have_no_negative_variance():
    p = calor.asarray([1.0], requires_grad=True)
    optimizer = RMSprop([p], centered=True, alpha=0.3, eps=1.0)
    for _ in range(60):
        p.grad = calor.asarray([0.1])
        optimizer.step()
    assert np.isfinite(p.numpy()).all()


ERRORS = [
    (lambda p: RMSprop(p, alpha=1.5), "alpha must be a number, at least 0 and at most 1, not 1.5"),
    (lambda p: Adadelta(p, rho=-0.1), "rho must be a number, at least 0 and at most 1"),
    (lambda p: Adamax(p, betas=(1.0, 0.9)), "beta1 must be a number, at least 0 and below 1"),
    (lambda p: Adagrad(p, initial_accumulator_value=-1), "initial_accumulator_value must be at"),
    (lambda p: NAdam(p, momentum_decay=-1), "momentum_decay must be at least 0"),
    (lambda p: Rprop(p, etas=(1.5, 1.2)), r"etas must be in \(0, 1\) and above 1"),
]


@pytest.mark.parametrize(("make", "message"), ERRORS, ids=[m for _, m in ERRORS])
def test_errors_say_what_to_do(make, message):
    with pytest.raises(ArgumentError, match=message):
        make([calor.ones(1, requires_grad=True)])
