"""Do products of few terms take the plan of short sums, where there are no asynchronous copies?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.dtypes import float32
from calor_interpreter.device import LanesDevice
from calor_kernel.library.matmul import gpu_ways
from calor_kernel.runtime.backend import KernelBackend

from .test_divided import WAITING
from .test_waves import H200, first

ALONG = (True, False)
WITHOUT_COPIES = replace(H200, features=H200.features - {"async_copy"})


@pytest.fixture
def plans(monkeypatch):
    """The plans of patches in the order in which they are offered."""
    seen = []
    made = gpu_ways.simt_launch
    monkeypatch.setattr(
        gpu_ways, "simt_launch", lambda task, plan: seen.append(plan) or made(task, plan)
    )
    return seen


@pytest.mark.parametrize(
    ("terms", "copies", "short"),
    [
        (64, False, True),
        (128, False, True),
        (132, False, False),
        (512, False, False),
        (64, True, False),
    ],
)
def test_first_choice(plans, terms, copies, short):
    first(2048, terms, 2048, float32, H200 if copies else WITHOUT_COPIES, ALONG)
    assert (plans[0] == gpu_ways._patches(gpu_ways._SHORT, ALONG)) == short


def test_a_device_of_little_shared_memory_takes_another(plans):
    first(2048, 64, 2048, float32, replace(WITHOUT_COPIES, shared_bytes=8 << 10), ALONG)
    assert gpu_ways._patches(gpu_ways._SHORT, ALONG) not in plans[:1]


@pytest.mark.parametrize("terms", [64, 132])
def test_products_are_right(plans, terms, monkeypatch):
    monkeypatch.setattr(gpu_ways, "divided", lambda *_: None)
    device = device_of(KernelBackend("lanes", lambda index: LanesDevice(WAITING)), 0)
    rng = np.random.default_rng(terms)
    x, y = (rng.standard_normal(s).astype(np.float32) for s in ((128, terms), (terms, 128)))
    with calor.device(device):
        found = calor.jit(lambda x, y: x @ y)(calor.asarray(x), calor.asarray(y)).numpy()
    assert plans
    np.testing.assert_allclose(found, x @ y, rtol=1e-5, atol=2e-5)
