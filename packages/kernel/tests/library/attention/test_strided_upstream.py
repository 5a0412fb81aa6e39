"""Upstream gradients of attention whose heads lie beside each other, as a projection makes them."""

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.runtime.backend import KernelBackend

from ..test_many_cubes import FRAGMENTS, attention
from .test_warpgroup_tma import INFO as TMA

# A device, the dtype, and the sizes: batch, heads, queries, features.
CASES = {
    "simt": (MANY_UNITS, "float32", (2, 3, 9, 8)),
    "one head": (MANY_UNITS, "float32", (3, 1, 9, 8)),
    "rows of narrow accesses": (MANY_UNITS, "float32", (2, 3, 9, 6)),
    "rows of single elements": (MANY_UNITS, "float32", (2, 3, 9, 7)),
    "many queries": (MANY_UNITS, "float32", (1, 2, 70, 8)),
    "matrix instructions": (FRAGMENTS, "bfloat16", (2, 2, 20, 16)),
    "matrix instructions, narrow accesses": (FRAGMENTS, "bfloat16", (2, 2, 20, 20)),
    "matrix instructions, odd rows": (FRAGMENTS, "bfloat16", (2, 2, 20, 17)),
    "copy engine": (TMA, "bfloat16", (2, 2, 20, 16)),
    "one unit": (ONE_UNIT, "float32", (2, 3, 9, 8)),
}
COPIED = ("one unit",)


@pytest.mark.parametrize("name", CASES)
def test_gradients(monkeypatch, name):
    info, dtype, (n, heads, length, features) = CASES[name]
    device = device_of(KernelBackend("attending", lambda _: LanesDevice(info), fusers=()), 0)
    rng = np.random.default_rng(0)
    shape = n, length, heads * features
    arrays = [rng.standard_normal(shape).astype(np.float32) for _ in range(4)]

    def split(x):
        return calor.permute_dims(x.reshape(n, length, heads, features), (0, 2, 1, 3))

    def loss(q, k, v, upstream):
        made = attention(split(q), split(k), split(v))
        return (calor.permute_dims(made, (0, 2, 1, 3)).reshape(*shape) * upstream).sum()

    def gradients(*given):
        return calor.grad(loss, argnums=(0, 1, 2))(*given)

    with calor.device(device):
        given = [calor.asarray(x).astype(getattr(calor, dtype)) for x in arrays]
        calor.eval(*given)
        graph = calor.trace(gradients, *given)
    plan = device.backend.compile(0, graph)
    labels = [la.launch.label for one in plan.base.recording.launches for la in one]
    before = labels[: next(i for i, x in enumerate(labels) if "gradient" in x)]
    assert any(x.startswith("copy") for x in before) == (name in COPIED)
    with calor.device(device):
        found = [x.astype(calor.float32).numpy() for x in calor.jit(gradients)(*given)]
    with calor.device("numpy"):
        exact = [calor.asarray(np.array(x.astype(calor.float32).numpy())) for x in given]
        want = [x.numpy() for x in gradients(*exact)]
    tolerance = 3e-2 if dtype == "bfloat16" else 2e-5
    for one, other in zip(found, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * np.abs(other).max())
