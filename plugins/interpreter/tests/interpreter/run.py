"""Running small kernels of one function on lanes."""

import numpy as np

from calor.dtypes import as_dtype
from calor_interpreter.launch import run_on_lanes
from calor_kernel.language import Buffer, absolute_position, kernel


@kernel
def mapped(*buffers, function, width=1):
    *inputs, output = buffers
    i = absolute_position() * width
    output.store(i, function(*(x.load(i, width) for x in inputs)))


def map_on_lanes(function, *arrays, result, width=1, **keywords):
    """Return the function of arrays, computed by a kernel with a unit per element."""
    count = len(arrays[0])
    output = np.zeros(count, result)
    signature = [Buffer(as_dtype(a.dtype)) for a in (*arrays, output)]
    built = mapped.build(signature, function=function, width=width)
    run_on_lanes(built, (count // width, 1, 1), [*arrays, output], **keywords)
    return output


def same(a, b):
    """Return whether arrays are equal in value, with NaN equal to NaN, and −0 unequal to +0."""
    assert a.dtype == b.dtype
    if a.dtype.kind in "iub":
        return np.array_equal(a, b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    return np.array_equal(x, y, equal_nan=True) and np.array_equal(
        np.signbit(x) & ~np.isnan(x), np.signbit(y) & ~np.isnan(y)
    )
