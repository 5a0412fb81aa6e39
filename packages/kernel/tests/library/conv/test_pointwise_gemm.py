"""Are pointwise convolutions products of images in place, also where lines are odd?"""

from dataclasses import replace

import pytest

from calor import dtypes
from calor_interpreter.device import LanesDevice
from calor_kernel.library.matmul import gpu_ways
from calor_kernel.runtime.backend import KernelBackend

from .test_conv import DIGITS, NONE, check
from .test_implicit_gemm_mma import H200, LOWERINGS, ONE, request_of

INFO = replace(H200, cores=2, max_units=512)


@pytest.mark.parametrize("precision", ["highest", "high"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("filters", [1, 3, 4, 7, 8, 12, 16])
def test_few_filters_read_images_of_odd_lines_once(filters, dtype, precision, monkeypatch):
    """Ways by whole accesses would copy an image before they read it."""
    monkeypatch.setattr(gpu_ways, "_FEW_TERMS", 0)
    monkeypatch.setitem(DIGITS, "float32", 2e-3)
    row = ((2, 40, 5, 7), (filters, 40, 1, 1), ONE, (NONE, NONE), ONE, 1)
    request = request_of("conv", row, getattr(dtypes, dtype), INFO)
    request = replace(request, attributes={**request.attributes, "precision": precision})
    (work,) = LOWERINGS["conv"](request)
    assert [launch.label.split(" rows")[0] for launch in work.launches] == [
        f"matmul gemv {next(n for n in (1, 2, 4, 8, 8) if n >= min(filters, 8))}"
    ]
    check(KernelBackend("lanes", lambda _: LanesDevice(INFO)), "conv", row, dtype)
