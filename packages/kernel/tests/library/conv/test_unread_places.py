"""Do places that no window reads, and those of other windows, stay out of the sums of each way?"""

import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from calor import dtypes
from calor_interpreter.device import LanesDevice
from calor_kernel.library.conv import unit_ways
from calor_kernel.runtime.backend import KernelBackend

from ..ops import run_op
from .test_conv import OPS, output_shape
from .test_implicit_gemm_mma import H200, LOWERINGS, request_of

INFO = replace(H200, cores=2, max_units=1024, max_cube=(1024, 1024, 64))
# Where a window reads no padding, so that each product has a factor from the image.
NONE = (0, 0)
# What a window's gaps, a stride, and the ends of an image leave unread, for the ways named.
ROWS = [
    ("direct blocks", ((2, 2, 5), (3, 2, 3), (1,), (NONE,), (2,), 1)),
    ("direct blocks", ((1, 9, 7), (3, 3, 3), (3,), ((-1, -2),), (1,), 3)),
    ("direct blocks", ((2, 4, 12, 9), (4, 2, 3, 2), (2, 3), (NONE, NONE), (2, 1), 2)),
    ("direct blocks", ((1, 2, 5, 7, 7), (4, 2, 2, 2, 3), (1, 2, 1), (NONE,) * 3, (2, 1, 2), 1)),
    ("depthwise tiles", ((2, 5, 18), (5, 1, 3), (1,), ((0, -1),), (1,), 5)),
    ("depthwise tiles", ((2, 2, 14, 17), (2, 1, 3, 7), (4, 4), (NONE, NONE), (3, 1), 2)),
    ("depthwise tiles", ((1, 3, 6, 7, 5), (3, 1, 2, 1, 2), (1, 1, 3), (NONE,) * 3, (2, 3, 1), 3)),
    ("depthwise windows", ((3, 8, 12, 24), (8, 1, 3, 3), (2, 1), (NONE, NONE), (1, 3), 8)),
    ("depthwise windows", ((2, 3, 16, 13), (3, 1, 9, 8), (1, 1), ((-1, -2), (0, -1)), (1, 1), 3)),
    (
        "depthwise windows",
        ((1, 2, 6, 10, 8), (2, 1, 2, 3, 3), (1, 2, 1), (NONE,) * 3, (2, 1, 2), 2),
    ),
    ("depthwise bands", ((1, 8, 24, 24), (8, 1, 5, 5), (1, 1), ((0, -1), (0, -3)), (1, 1), 8)),
    ("windows by channel", ((1, 3, 14, 13), (6, 3, 8, 9), (1, 1), (NONE, (0, -1)), (1, 1), 1)),
    ("implicit GEMM by FMA", ((2, 9, 10, 9), (24, 9, 3, 3), (2, 1), (NONE, NONE), (1, 2), 1)),
    ("implicit GEMM by MMA", ((2, 32, 9, 8), (24, 32, 3, 3), (2, 3), (NONE, NONE), (1, 2), 1)),
    ("tiles", ((2, 9, 10, 9), (7, 9, 3, 3), (2, 1), (NONE, NONE), (1, 2), 1)),
]


def windows(row):
    """Return which places of an image a window reads."""
    x, w, stride, padding, dilation, _ = row
    read = np.ones((), np.bool_)
    axes = zip(x[2:], w[2:], stride, padding, dilation, strict=True)
    for count, (size, taps, step, (low, _), gap) in zip(
        output_shape(*row[:5])[2:], axes, strict=True
    ):
        line = np.zeros(size, np.bool_)
        for first in range(-low, count * step - low, step):
            line[[at for at in range(first, first + gap * taps, gap) if 0 <= at < size]] = True
        read = read[..., None] & line
    return read


def check(way, row, fill, monkeypatch):
    """Compare a way with the reference where it takes a row, after ``fill`` changed operands."""
    (chosen,) = (one for one in unit_ways.WAYS if one.name == way)
    monkeypatch.setattr(unit_ways, "WAYS", [chosen])
    x, w, stride, padding, dilation, groups = row
    y = output_shape(*row[:5])
    given = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    shapes = {"conv": (x, w), "conv_input_gradient": (y, w), "conv_weight_gradient": (x, y)}
    more = {"conv_input_gradient": {"input_shape": x}, "conv_weight_gradient": {"weight_shape": w}}
    taken = 0
    for op, kind in product(OPS, (dtypes.float32, dtypes.bfloat16)):
        if not LOWERINGS[op](request_of(op, row, kind, INFO)):
            continue
        rng, said = np.random.default_rng(5), {**given, **more.get(op, {})}
        arrays = [rng.integers(-3, 4, shape).astype(kind.numpy) for shape in shapes[op]]
        fill(op, arrays)
        backend = KernelBackend("lanes", lambda _: LanesDevice(INFO))
        (found,), (wanted,) = run_op(backend, op, arrays, said)
        found, wanted = (one.astype(np.float64) for one in (found, wanted))
        known = np.isfinite(wanted)
        most = np.abs(wanted[known]).max(initial=1)
        assert known.any(), (op, kind)
        assert np.abs(found[known] - wanted[known]).max() <= 0.02 * most, (op, kind)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted), f"{op} of {kind}")
        taken += 1
    assert taken


@pytest.mark.parametrize("junk", [np.nan, np.inf], ids=str)
@pytest.mark.parametrize(("way", "row"), ROWS, ids=str)
def test_what_no_window_reads(way, row, junk, monkeypatch):
    read = windows(row)
    assert not read.all()

    def fill(op, arrays):
        if op != "conv_input_gradient":
            arrays[0][..., ~read] = junk

    check(way, row, fill, monkeypatch)


@pytest.mark.parametrize("junk", [np.nan, np.inf], ids=str)
@pytest.mark.parametrize(("way", "row"), ROWS, ids=str)
def test_one_place_is_met_by_its_windows_alone(way, row, junk, monkeypatch):
    """A tap whose products have no such factor has a finite gradient."""

    def fill(op, arrays):
        chosen = random.Random(7)
        arrays[0][tuple(chosen.randrange(n) for n in arrays[0].shape)] = junk

    check(way, row, fill, monkeypatch)


# With padding at one end or both.
PADDED = [
    ("direct blocks", ((2, 2, 5), (3, 2, 3), (1,), ((2, 0),), (1,), 1)),
    ("direct blocks", ((1, 4, 6, 7), (2, 4, 3, 3), (3, 1), ((1, 1), (0, 2)), (2, 1), 1)),
    ("depthwise tiles", ((2, 2, 14, 17), (2, 1, 3, 7), (1, 1), ((1, 1), (3, 3)), (1, 1), 2)),
    ("depthwise windows", ((3, 8, 12, 24), (8, 1, 3, 3), (2, 1), ((1, 1), (2, 0)), (1, 1), 8)),
    ("depthwise bands", ((1, 8, 24, 24), (8, 1, 5, 5), (1, 1), ((2, 2), (2, 2)), (1, 1), 8)),
]


@pytest.mark.parametrize("junk", [np.nan, np.inf], ids=str)
@pytest.mark.parametrize(("way", "row"), PADDED, ids=str)
def test_padding_is_zeros_for_each_output_gradient(way, row, junk, monkeypatch):
    """Zero times infinity or NaN is NaN, at the ends of an image as anywhere."""

    def fill(op, arrays):
        chosen = random.Random(7)
        for ends in (0, -1):
            at = [chosen.randrange(n) for n in arrays[1].shape]
            at[2:] = [ends] * len(at[2:])
            if op == "conv_weight_gradient":
                arrays[1][0, 0][tuple(at[2:])] = junk

    check(way, row, fill, monkeypatch)
