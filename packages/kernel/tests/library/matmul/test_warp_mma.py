"""Are products by matrix instructions of a plane what the reference says?"""

from dataclasses import replace

import pytest

from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.library.matmul import warp_mma
from calor_kernel.runtime.backend import KernelBackend

from .test_matmul import ONE, check

NONE = ((), ())
# As ROWS of the other ways; sizes are neither of whole tiles nor of whole squares.
ROWS = [
    ((70, 37), (37, 101), ONE, NONE, (None, None)),
    ((70, 37), (37, 101), ONE, NONE, ((1, 0), (1, 0))),
    ((2, 64, 9), (2, 9, 65), ((2,), (1,)), ((0,), (0,)), (None, None)),
]
# What devices have, with the size of their planes.
SIMDGROUP = (32, (warp_mma.SQUARE,))
CDNA = (64, ("mfma_32x32x2_float32", "mfma_32x32x8_float16", "mfma_32x32x8_bfloat16"))
RDNA = (32, ("wmma_16x16x16_float16", "wmma_16x16x16_bfloat16"))
# Accesses of 16 bytes reach all of these operands.
ACCESSES = ((80, 48), (48, 72), ONE, NONE, (None, None))


def backend_of(plane, names):
    info = replace(MANY_UNITS, planes=(plane,), matrices=frozenset(names), shared_bytes=64 << 10)
    return KernelBackend("lanes", lambda index: LanesDevice(info))


@pytest.fixture(scope="module")
def backends():
    return {names: backend_of(plane, names) for plane, names in (SIMDGROUP, CDNA, RDNA)}


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize(
    ("dtype", "result"),
    [("float32", "float32"), ("bfloat16", "bfloat16"), ("float16", "float32")],
)
@pytest.mark.parametrize("names", [SIMDGROUP[1], CDNA[1]], ids=["simdgroup", "mfma"])
def test_products(backends, monkeypatch, row, dtype, result, names):
    check_warp_mma(backends[names], monkeypatch, row, dtype, result)


def check_warp_mma(backend, monkeypatch, row, dtype, result):
    seen = []
    made = warp_mma.WarpMmaPlan
    monkeypatch.setattr(
        warp_mma, "WarpMmaPlan", lambda *given: seen.append(made(*given)) or seen[-1]
    )
    check(backend, row, dtype, result)
    assert seen
    return seen[-1]


@pytest.mark.parametrize("orders", [(None, None), ((1, 0), (1, 0))], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("names", [SIMDGROUP[1], CDNA[1], RDNA[1]], ids=["simd", "mfma", "wmma"])
def test_accesses(backends, monkeypatch, names, dtype, orders):
    if names is RDNA[1] and dtype == "float32":
        monkeypatch.setattr(warp_mma, "WarpMmaPlan", None)
        check(backends[names], (*ACCESSES[:4], orders), dtype, dtype)
        return
    plan = check_warp_mma(backends[names], monkeypatch, (*ACCESSES[:4], orders), dtype, dtype)
    assert plan.a_access == plan.b_access == (4 if dtype == "float32" else 8)


@pytest.mark.parametrize("name", warp_mma.PLANS)
def test_a_tile_is_shared_evenly(name):
    for made in warp_mma.PLANS[name]:
        plan = warp_mma.WarpMmaPlan(*made, True, False, instruction=name)
        assert plan.rows % (plan.shape.m * plan.down) == 0
        assert plan.columns % (plan.shape.n * plan.across) == 0
        assert plan.depth % plan.shape.k == 0
        assert plan.units <= 256
        assert plan.shared_bytes <= (32 << 10 if name == warp_mma.SQUARE else 64 << 10)
