"""Are ramps those of the reference, in every dtype?"""

import numpy as np
import pytest

from calor.dtypes import ALL
from calor.ops.base import table
from calor.specs import spec
from calor_kernel.contract.work import Request
from calor_kernel.library.elementwise.ramps import lower_iota

from .running import MACHINES, execute


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ALL)
def test_ramp(dtype, machine):
    info, run = MACHINES[machine]
    attributes = {"length": 1003, "dtype": dtype}
    output = spec((1003,), dtype)
    (work,) = lower_iota(Request("iota", attributes, (), (output,), info))
    (made,) = execute(work, [], [output], run)
    with np.errstate(all="ignore"):
        wanted = table()["iota"].reference(**attributes)
    assert made.tobytes() == wanted.tobytes()
