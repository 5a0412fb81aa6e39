"""Parts of products that the last cube of each tile adds, where launches are dear."""

from dataclasses import replace

import numpy as np
import pytest

import calor
import calor_kernel
from calor.backends.device import device_of
from calor_interpreter.device import LanesDevice
from calor_kernel.library.gemm import joined_parts
from calor_kernel.library.gemm.simt_plan import SimtPlan
from calor_kernel.library.matmul import gpu_ways
from calor_kernel.runtime.backend import KernelBackend

from .test_divided import CASES, INFO, WAITING, numbers

DEAR = {"copied": replace(INFO, launch_ns=1700), "loaded": replace(WAITING, launch_ns=1700)}
# Whole tiles, and tiles with edges; products of their own, and epilogues.
PRODUCTS = {
    "whole": CASES["batches"],
    "edges": (lambda x, y: x @ y.mT, numbers(2, 33, 515), numbers(2, 9, 515)),
    "epilogue": (
        lambda x, y, z: calor.tanh(x @ y + z),
        *(numbers(33, 515), numbers(515, 35), numbers(35)),
    ),
}


def ran(info, function, operands):
    """Return the bits of two calls, and the labels of the launches of the second."""
    device = device_of(KernelBackend("lanes", lambda index: LanesDevice(info)), 0)
    with calor.device(device):
        given = [calor.asarray(x) for x in operands]
        call = calor.jit(function)
        first = call(*given).numpy()
        with calor_kernel.profile(device) as profile:
            second = call(*given).numpy()
    return first, second, [event.blueprint for event in profile.events]


@pytest.mark.parametrize(
    ("name", "way"),
    [
        pytest.param("whole", "copied", marks=pytest.mark.slow),
        pytest.param("whole", "loaded", marks=pytest.mark.slow),
        ("edges", "copied"),
        ("epilogue", "loaded"),
    ],
)
def test_last_cubes_add_the_parts_bit_for_bit(monkeypatch, name, way):
    """The counts of cubes are zero again, so a second call has the same result."""
    function, *operands = PRODUCTS[name]
    monkeypatch.setattr(gpu_ways, "divided", lambda rates, *_: (list(rates)[-1], 3))
    if name == "whole":
        monkeypatch.setattr(gpu_ways.predicated_simt, "idle", lambda *_: False)
    apart, _, before = ran(replace(DEAR[way], launch_ns=0), function, operands)
    first, second, after = ran(DEAR[way], function, operands)
    assert any("sums of" in label for label in before)
    assert not any("sums of" in label for label in after)
    np.testing.assert_array_equal(first.view(np.uint32), apart.view(np.uint32))
    np.testing.assert_array_equal(second.view(np.uint32), apart.view(np.uint32))


def test_many_parts_and_large_tiles_are_added_by_a_launch():
    """One cube would read for longer than a launch takes to start."""
    small, large = (SimtPlan(16, 16, high, 2, 8, False, False) for high in (1, 4))
    info = DEAR["copied"]
    assert [joined_parts.joins(n, small, info) for n in (1, 2, 4, 5)] == [False, True, True, False]
    assert not joined_parts.joins(2, large, info)
    assert not joined_parts.joins(2, small, INFO)
    without = replace(info, features=info.features - {"together"})
    assert not joined_parts.joins(2, small, without)
