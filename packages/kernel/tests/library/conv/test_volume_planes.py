"""Are convolutions of volumes right that are convolutions of planes?"""

from dataclasses import replace

import pytest

from calor import dtypes
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.runtime.backend import KernelBackend

from .test_conv import NONE, OPS, check
from .test_implicit_gemm_mma import H200, LOWERINGS, request_of

ONE, PADDED = (1, 1, 1), ((1, 1),) * 3
# shapes of x and w, stride, padding, dilation, groups.
ROWS = [
    ((2, 17, 4, 5, 6), (18, 17, 3, 3, 3), ONE, PADDED, ONE, 1),
    ((2, 17, 5, 5, 4), (18, 17, 3, 2, 2), (2, 1, 1), ((1, 0), NONE, (0, 1)), ONE, 1),
    ((1, 17, 6, 4, 4), (18, 17, 2, 2, 2), (1, 2, 1), ((2, 1), NONE, NONE), (3, 1, 2), 1),
    ((1, 17, 7, 3, 3), (18, 17, 2, 1, 2), (3, 1, 1), (NONE,) * 3, ONE, 1),
    # Few filters.
    ((1, 17, 3, 4, 5), (10, 17, 2, 3, 3), ONE, ((1, 0), (1, 1), (1, 1)), ONE, 1),
    # Channels and filters that fill accesses; one tap along the first axis.
    ((2, 16, 3, 3, 4), (16, 16, 3, 3, 2), (2, 1, 1), ((2, 0), (1, 1), (0, 1)), ONE, 1),
    ((1, 24, 2, 4, 4), (9, 24, 1, 3, 3), ONE, (NONE, (1, 1), (1, 1)), ONE, 1),
    # Groups with more taps than blocks have.
    ((1, 4, 5, 4, 5), (6, 2, 3, 5, 5), (2, 1, 1), ((1, 1), (2, 2), (2, 2)), ONE, 2),
]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_volumes(op, row, dtype, monkeypatch):
    monkeypatch.setattr("calor_kernel.library.conv.volume_planes._FLOPS", 1)
    info = MANY_UNITS if dtype == "float32" else replace(H200, cores=8)
    work, *_ = LOWERINGS[op](request_of(op, row, getattr(dtypes, dtype), info))
    assert work.way.name == "planes of volumes"
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, op, row, dtype)
    check(backend, op, row, dtype, reordered=True)
