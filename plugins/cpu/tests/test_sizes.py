"""Plans of templates on a processor: bit for bit what plans made anew compute, at many sizes."""

import numpy as np
import pytest

import calor
from calor import nn
from calor_kernel.planning.replanning import Replanning, plan_anew

F = nn.functional


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


WEIGHT, BIAS = floats(70, 300, seed=1), floats(70, seed=2)

# What is computed, its arguments for a size, and the sizes: choices change between them.
CASES = {
    "linear": (lambda x, w, b: F.relu(x @ w.T + b), lambda n: [floats(n, 300), WEIGHT, BIAS]),
    "few rows": (lambda q, k: q @ k.T, lambda n: [floats(1, 64), floats(29 * n, 64)]),
    "sums": (lambda x: (x * 2.0).sum(axis=(0, 2)), lambda n: [floats(n, 5, n + 3)]),
    "attention": (
        lambda q, k: F.scaled_dot_product_attention(q, k, k),
        lambda n: [floats(1, 2, n, 16), floats(1, 2, n, 16, seed=3)],
    ),
}
SIZES = (23, 25, 27, 31, 38, 43, 49, 64, 77, 5, 17)


@pytest.mark.parametrize("name", CASES)
def test_each_size_gives_the_bits_of_a_plan_made_anew(name):
    function, arguments = CASES[name]
    with calor.device("cpu") as device:
        backend = device.backend
    engine = backend.engine(0)
    before = engine.replanning
    replanning = Replanning(engine)
    try:
        for n in SIZES:
            arrays = arguments(n)
            with calor.device("numpy"):
                graph = calor.trace(function, *map(calor.asarray, arrays))
            given = [backend.upload(0, array) for array in arrays]
            engine.replanning = replanning
            assert not backend.claim(0, graph).reasons
            (found,) = backend.compile(0, graph)(given)
            (wanted,) = plan_anew(engine, graph)(given)
            (known,) = graph.output_specs
            np.testing.assert_array_equal(
                np.array(backend.download(0, found, known)),
                np.array(backend.download(0, wanted, known)),
                err_msg=f"{name} at {n}",
            )
    finally:
        engine.replanning = before
    assert replanning.used >= 4
