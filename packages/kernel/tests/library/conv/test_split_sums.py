"""Are the parts of weight gradients added right, for as many taps as shared memory has room for?"""

from dataclasses import replace

import numpy as np
import pytest

from calor.dtypes import float32
from calor_interpreter.device import MANY_UNITS
from calor_interpreter.launch import run_on_lanes
from calor_kernel.contract.launching import Bound
from calor_kernel.contract.work import Input
from calor_kernel.library.conv.split_sums import WHOLE, launch_sum, parts_for
from calor_kernel.library.steps import Steps

INFO = replace(MANY_UNITS, max_units=1024, max_cube=(1024, 1024, 64), planes=(32,))


def launch_of(rows, taps, channels, room, splits, info=INFO):
    """Return the launch that adds parts of rows of taps, and the distance of parts."""
    steps, step = Steps(), -(-rows * taps * room // WHOLE) * WHOLE
    parts = Bound(Input(0), float32)
    launch_sum(steps, parts, float32, (rows, taps, channels, room), splits, step, info)
    (launch,) = steps.launches
    return launch, step


@pytest.mark.parametrize(
    ("rows", "taps", "channels", "room", "splits"),
    [
        (1, 1, 90, 92, 3),
        (2, 9, 5, 8, 9),
        (2, 300, 7, 8, 2),
        (1, 1030, 33, 36, 3),
        (3, 49, 64, 64, 1),
    ],
)
@pytest.mark.parametrize("kilobytes", [4, 48])
def test_sums_of_any_number_of_taps(rows, taps, channels, room, splits, kilobytes):
    info = replace(INFO, shared_bytes=kilobytes << 10)
    launch, step = launch_of(rows, taps, channels, room, splits, info)
    rng = np.random.default_rng(4)
    parts = rng.integers(-9, 9, splits * step).astype(np.float32)
    made = np.full(rows * channels * taps, np.nan, np.float32)
    given = [{Input: parts}.get(type(a), a) for a in launch.arguments]
    given = [a if isinstance(a, int | np.ndarray) else made for a in given]
    run_on_lanes(launch.build.kernel(info.features), launch.cubes, given)
    of = parts.reshape(splits, step)[:, : rows * taps * room].sum(axis=0)
    of = of.reshape(rows, taps, room)[..., :channels].transpose(0, 2, 1)
    np.testing.assert_array_equal(made.reshape(rows, channels, taps), of)


@pytest.mark.parametrize("taps", [1, 25, 31 * 31, 64 * 64, 99 * 99])
@pytest.mark.parametrize("splits", [1, 8, 300])
@pytest.mark.parametrize("kilobytes", [16, 48, 227])
def test_no_cube_exceeds_its_shared_memory(taps, splits, kilobytes):
    info = replace(INFO, shared_bytes=kilobytes << 10)
    launch, _ = launch_of(4, taps, 21, 24, splits, info)
    assert launch.build.kernel(info.features).shared_bytes <= info.shared_bytes


def test_cores_have_cubes_of_few_units_until_they_are_busy():
    info = replace(INFO, cores=100)
    assert parts_for(4, 192, 10, info) == 40
    assert parts_for(4, 32, 10, info) == 320
    assert parts_for(4, 32, 10_000, info) == 0
