"""Are convolutions of volumes right whose axes of one tap are one axis?"""

import pytest

from calor import dtypes
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.library.conv.merged_axes import merged
from calor_kernel.runtime.backend import KernelBackend

from .test_conv import NONE, OPS, check
from .test_implicit_gemm_mma import request_of

ONE = (1, 1, 1)
ALONG = ((1, 1), NONE, NONE)
PLACES = {"conv": (0, 1, 2), "conv_input_gradient": (2, 1, 0), "conv_weight_gradient": (0, 2, 1)}
# shapes of x and w, stride, padding, dilation, groups; and the spatial axes that are left.
ROWS = [
    ((2, 3, 6, 4, 5), (3, 1, 3, 1, 1), ONE, ALONG, ONE, 3, 2),
    ((2, 3, 6, 4, 5), (4, 3, 3, 1, 1), (2, 1, 1), ALONG, (2, 1, 1), 1, 2),
    ((2, 3, 4, 5, 6), (4, 3, 1, 1, 3), ONE, (NONE, NONE, (1, 1)), ONE, 1, 2),
    ((2, 3, 4, 5, 6), (4, 3, 1, 1, 1), ONE, (NONE,) * 3, ONE, 1, 2),
    ((2, 3, 4, 5, 6), (4, 3, 1, 3, 1), ONE, (NONE, (1, 1), NONE), ONE, 1, 3),
    ((2, 3, 4, 5, 6), (4, 3, 3, 1, 1), (1, 2, 1), ALONG, ONE, 1, 3),
    ((2, 3, 4, 5, 6), (4, 3, 3, 1, 1), ONE, ((1, 1), (1, 0), NONE), ONE, 1, 3),
]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_axes_of_one_tap(op, row):
    *given, left = row
    image, weight, result = PLACES[op]
    request = request_of(op, tuple(given), dtypes.float32, MANY_UNITS)
    made = merged(request, image=image, weight=weight, result=result)
    assert {len(view.shape) - 2 for view in (*made.inputs, *made.outputs)} == {left}
    for info in (MANY_UNITS, ONE_UNIT):
        backend = KernelBackend("lanes", lambda index, info=info: LanesDevice(info))
        check(backend, op, tuple(given), "float32")
        check(backend, op, tuple(given), "float32", reordered=True)
