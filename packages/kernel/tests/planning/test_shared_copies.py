"""Copies of operands as tasks of their own: which are, and whether the same bits are computed."""

from collections import Counter
from functools import partial

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.dtypes import bfloat16
from calor_interpreter.device import LanesDevice
from calor_kernel.planning import scratch_rooms as planning
from calor_kernel.planning import shared_copies, side_by_side
from calor_kernel.planning.shared_copies import OPERAND_COPY
from calor_kernel.runtime.backend import KernelBackend

from ..library.test_many_cubes import FRAGMENTS, conv


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Take short plans too."""
    monkeypatch.setattr(side_by_side, "_SHORT", 2)


def halves(*shape, seed=0):
    array = np.random.default_rng(seed).standard_normal(shape)
    return (array / 8).astype(bfloat16.numpy)


X, G = halves(3, 16, 6, 5), halves(3, 16, 6, 5, seed=1)
# Convolutions one after another, of other sizes.
CHAIN = [halves(16, 16, 3, 3, seed=2), halves(24, 16, 3, 3, seed=3), halves(16, 24, 3, 3, seed=4)]


def step(x, *weights):
    """Return weights after a step of gradient descent."""

    def loss(*weights):
        y = x
        for w in weights:
            y = conv(y, w)
        return (y * y).sum()

    made = calor.grad(loss, argnums=tuple(range(len(weights))))(*weights)
    return [w - g * 0.125 for w, g in zip(weights, made, strict=True)]


def gradients(x, w, g):
    """Return both gradients of a convolution, whose weights stay."""
    return calor.vjp(conv, x, w)[1](g)


def apart(x, w, g, waits=False):
    """Return a convolution and its weight gradient, with much between them.

    ``waits``: whether the image is read in the end as well.
    """
    x = x * 2
    y, made = conv(x, w), g
    for _ in range(2 * shared_copies._NEAR):
        made = calor.sin(made)
    (gradient,) = calor.vjp(lambda w: conv(x, w), w)[1](made)
    return (y, gradient, calor.sin(x * made)) if waits else (y, gradient)


def run(function, *arrays, info=FRAGMENTS):
    """Return the bytes of each result, and the op and label of each launch."""
    device = device_of(KernelBackend("copies", lambda index: LanesDevice(info), fusers=()), 0)
    with calor.device(device):
        graph = calor.trace(function, *map(calor.asarray, arrays))
    backend = device.backend
    plan = backend.compile(0, graph)
    made = plan([backend.upload(0, array) for array in arrays])
    pairs = zip(made, graph.output_specs, strict=True)
    found = [np.array(backend.download(0, b, s)).tobytes() for b, s in pairs]
    launches = (la for one in plan.base.recording.launches for la in one)
    return found, Counter((la.op, la.launch.label) for la in launches)


LAST = "conv channels last"
# A function, its operands, and the launches that only copy operands.
CASES = {
    # The weights of all layers, for the results and for the gradients; and each image and gradient
    # once, of which each is read twice, but for the last result's.
    "a step": (step, (X, *CHAIN), {f"{LAST} x 3": 1, f"{LAST} x 2": 1, LAST: 6}),
    "gradients with weights that stay": (gradients, (X, CHAIN[0], G), {f"{LAST} x 2": 1}),
    "one image for two": (lambda x, a, b: (conv(x, a), conv(x, b)), (X, *CHAIN[:2]), {LAST: 1}),
    "one weight for two": (lambda x, y, w: (conv(x, w), conv(y, w)), (X, G, CHAIN[0]), {}),
    # The image is read as it is as well, long after.
    "an image that waits": (partial(apart, waits=True), (X, CHAIN[0], G), {f"{LAST} x 2": 1}),
    "a copy that waits instead": (apart, (X, CHAIN[0], G), {LAST: 2}),
    "one convolution": (conv, (X, CHAIN[0]), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_copies(monkeypatch, name):
    function, arrays, expected = CASES[name]
    after, launches = run(function, *arrays)
    monkeypatch.setattr(planning, "shared_copies", lambda draft, works, info: (draft, works))
    before, alone = run(function, *arrays)
    assert after == before
    made = {label: n for (op, label), n in launches.items() if op == OPERAND_COPY}
    assert made == expected
    assert sum(launches.values()) <= sum(alone.values()) - bool(expected)
