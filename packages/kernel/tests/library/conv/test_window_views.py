"""Weight gradients of few channels by products with windows in place."""

from dataclasses import replace

import pytest

from calor import dtypes
from calor_interpreter.device import LanesDevice
from calor_kernel.library.conv import window_views
from calor_kernel.library.conv.lowering import lower_conv_weight_gradient
from calor_kernel.runtime.backend import KernelBackend

from .test_conv import DIGITS, NONE, check
from .test_implicit_gemm_mma import H200, request_of

OP = "conv_weight_gradient"
# Shapes of x and w, stride, padding, dilation, groups: sound, one image, and windows of two axes.
ROWS = {
    "sound": ((3, 1, 71), (24, 1, 10), (5,), ((0, 0),), (1,), 1),
    "dilated": ((2, 2, 40), (17, 2, 3), (1,), ((0, 0),), (4,), 1),
    "one image": ((1, 1, 90), (16, 1, 7), (2,), ((-3, 0),), (1,), 1),
    "images": ((2, 2, 9, 10), (20, 2, 3, 2), (1, 2), (NONE, NONE), (2, 1), 1),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_windows_are_views(monkeypatch, row, dtype):
    monkeypatch.setattr(window_views, "_PIXELS", 1)
    monkeypatch.setitem(DIGITS, "float32", 2e-3)
    more = {"precision": "high"} if dtype == "float32" else {}
    request = request_of(OP, row, getattr(dtypes, dtype), H200)
    asked = replace(request, attributes={**request.attributes, **more})
    work, *_ = lower_conv_weight_gradient(asked)
    assert work.variant == "windows in place"
    check(KernelBackend("lanes", lambda index: LanesDevice(H200)), OP, row, dtype, **more)


def test_padded_windows_are_no_views():
    row = ((8, 1, 1000), (24, 1, 10), (5,), ((2, 2),), (1,), 1)
    work, *_ = lower_conv_weight_gradient(request_of(OP, row, dtypes.float32))
    assert work.variant != "windows in place"
