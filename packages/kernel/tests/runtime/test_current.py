"""What a person asks of a device's allocator."""

from dataclasses import replace

import numpy as np
import pytest

import calor
import calor_kernel
from calor.backends.device import device_of
from calor.errors import UnsupportedError
from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.runtime.backend import KernelBackend


@pytest.fixture
def device():
    info = replace(ONE_UNIT, description="asked")
    return device_of(KernelBackend("asked", lambda index: LanesDevice(info, checks=False)), 0)


def test_figures_and_trimming(device):
    with calor.device(device):
        kept = calor.asarray(np.ones(1000, np.float32)) + 1
        calor.eval(kept)
        big = calor.asarray(np.ones(3_000_000, np.float32))
        with_big = calor_kernel.memory()
        del big
        without = calor_kernel.memory(device)
        given_back = calor_kernel.trim(device)
        after = calor_kernel.memory(device)
    assert with_big.in_use - without.in_use == 12_000_000
    assert without.held == with_big.held >= 12_000_000
    assert after.held == without.held - given_back
    assert given_back >= 12_000_000
    assert after.held >= after.in_use == without.in_use
    assert after.held_peak == without.held_peak >= without.held
    assert after.limit is None
    assert (kept.numpy() == 2).all()
    assert calor_kernel.trim(device) == 0


@pytest.mark.parametrize("ask", [calor_kernel.memory, calor_kernel.trim, calor_kernel.profile])
def test_a_device_without_kernels(ask):
    with pytest.raises(UnsupportedError, match="numpy:0 runs no kernels of calor's, so"):
        ask("numpy")
