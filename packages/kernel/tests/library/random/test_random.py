"""Are random bits those of the reference, on every shape of machine, across carries?"""

import numpy as np
import pytest

from calor.dtypes import as_dtype, uint32
from calor.reference.random import random_bits
from calor.specs import spec
from calor_kernel.contract.work import Request, View
from calor_kernel.library.random import lower_random_bits

from ..elementwise.running import MACHINES, execute

COUNTERS = [
    (0, 0, 0, 0),
    (0xFFFFFFFE, 0, 7, 0),
    (0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFF, 3),
    (0xFFFFFFFF,) * 4,
]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("counter", COUNTERS)
def test_bits(counter, bits, machine):
    info, run = MACHINES[machine]
    key = np.array([17, 0xFFFFFFFF], np.uint32)
    words = np.array(counter, np.uint32)
    shape = (3, 7, 11)
    made = random_bits(key, words, shape=shape, bits=bits)
    attributes = {"shape": shape, "bits": bits}
    output = spec(shape, as_dtype(made.dtype))
    views = (View.dense(spec((2,), uint32)), View.dense(spec((4,), uint32)))
    (work,) = lower_random_bits(Request("random_bits", attributes, views, (output,), info))
    (found,) = execute(work, [key, words], [output], run)
    np.testing.assert_array_equal(found, made)
