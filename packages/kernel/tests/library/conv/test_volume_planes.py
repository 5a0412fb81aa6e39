"""Are convolutions of volumes right that are convolutions of planes?"""

from dataclasses import replace

import pytest

from calor import dtypes
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.library.conv import unit_ways
from calor_kernel.runtime.backend import KernelBackend

from .test_conv import DIGITS, NONE, OPS, check
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


@pytest.fixture(autouse=True)
def copied(monkeypatch):
    """Leave out the way that reads volumes of few filters in place."""
    ways = [way for way in unit_ways.WAYS if way.name != "volumes in place"]
    monkeypatch.setattr(unit_ways, "WAYS", ways)


LARGE = ((8, 32, 40, 40, 40), (32, 32, 3, 3, 3), ONE, ((2, 2),) * 3, (2, 2, 2), 1)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "tf32"])
def test_volumes(op, row, dtype, monkeypatch):
    monkeypatch.setattr("calor_kernel.library.conv.volume_planes._FLOPS", 1)
    info = MANY_UNITS if dtype == "float32" else replace(H200, cores=8)
    more = {}
    if dtype == "tf32":
        monkeypatch.setitem(DIGITS, "float32", 2e-3)
        dtype, more = "float32", {"precision": "high"}
    request = request_of(op, row, getattr(dtypes, dtype), info)
    work, *_ = LOWERINGS[op](replace(request, attributes={**request.attributes, **more}))
    assert work.way.name == "planes of volumes"
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, op, row, dtype, **more)
    check(backend, op, row, dtype, reordered=True, **more)


@pytest.mark.parametrize("op", OPS)
def test_tf32_planes_are_rounded_by_the_one_copy(op):
    """What matrix instructions read is copied once from volumes, with channels last."""
    request = request_of(op, LARGE, dtypes.float32, replace(H200, cores=8))
    request = replace(request, attributes={**request.attributes, "precision": "high"})
    (work,) = LOWERINGS[op](request)
    made = [(one.build.function.name, dict(one.build.keywords)) for one in work.launches]
    copies = [said for name, said in made if name == "channels_last" and not said["rows"]]
    assert [said["rounded"] for said in copies] == [True] * (2 if op == OPS[2] else 1)
    assert "unfold_planes" not in [name for name, _ in made]
