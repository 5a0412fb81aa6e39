"""Are products by TMA right whose rows units write, since they begin anywhere?"""

from dataclasses import replace

import pytest

from calor_cuda.kernels.matmul import split_k_launch
from calor_cuda.kernels.matmul import ways as tma_ways
from calor_interpreter.device import LanesDevice
from calor_kernel.contract.work import Candidates
from calor_kernel.library.matmul import lowering
from calor_kernel.runtime.backend import KernelBackend

from .test_matmul import ONE, check
from .test_units import ALONE, NONE, SEVERAL, tma_plans

ALONG = (None, (1, 0))
ROWS = [
    ((72, 40), (40, 101), ONE, NONE, ALONG),
    ((130, 136), (136, 67), ONE, NONE, ALONG),
    ((2, 64, 16), (2, 16, 75), ((2,), (1,)), ((0,), (0,)), (None, (0, 2, 1))),
]


@pytest.mark.parametrize("plan", [(64, 64, 2, 2), (128, 128, 2, 2), (64, 64, 3, 2, True)], ids=str)
@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize(
    "types",
    [("bfloat16", "bfloat16"), ("float16", "float32"), ("float32", "float32"), ("int8", "int32")],
    ids=str,
)
def test_odd_columns(monkeypatch, row, types, plan):
    monkeypatch.setattr(tma_ways, "_BOXES", {plan: 1.0})
    seen = tma_plans(monkeypatch)
    more = {"precision": "high"} if types[0] == "float32" else {}
    if types[0] == "int8":
        row = ((72, 32), (32, 101), *row[2:4], ALONG) if len(row[0]) == 2 else ROWS[0]
        row = ((72, 32), (32, 101), ONE, NONE, ALONG)
    backend = KernelBackend("lanes", lambda index: LanesDevice(ALONE))
    check(backend, row, *types, 2e-3 if more else None, **more)
    assert seen
    assert seen[0].by_units


def test_parts_of_odd_columns(monkeypatch):
    """The last cube of a tile adds the parts, and its units write them."""
    monkeypatch.setattr(tma_ways, "_SHARED", ((64, 64, 2, 2),))
    monkeypatch.setattr(split_k_launch, "_LEAST", 1)
    found = []

    def parted(ways, task, request, made=lowering.ranked):
        able = made(ways, task, replace(request, candidates=True))
        own = [work for work in able if work.variant.endswith("split-K")]
        found.extend(own)
        return Candidates.of(own or able)

    monkeypatch.setattr(lowering, "ranked", parted)
    backend = KernelBackend("lanes", lambda index: LanesDevice(SEVERAL))
    check(backend, ((72, 256), (256, 67), ONE, NONE, ALONG), "bfloat16", "bfloat16")
    assert found
