"""Numbers and edges beside tensors that are on another device than the current one."""

import numpy as np
import pytest

import calor
from other_device import other_device


@pytest.mark.parametrize(
    "function",
    [
        lambda x: calor.ldexp(3.0, x),
        lambda x: calor.ldexp(3.0, calor.astype(x, "int32")),
        lambda x: calor.float_power(3.0, x),
        lambda x: calor.nanpercentile(5.0, x),
        lambda x: calor.histogram(1.5, x).counts,
        lambda x: calor.histogram(x, [0.0, 1.5, 4.0]).counts,
        lambda x: calor.histogram_bin_edges(2.0, x),
        lambda x: calor.masked_scatter(1.0, x > 1, x),
        lambda x: calor.put(x, 1, 7.0),
    ],
)
def test_what_stands_beside_a_tensor_is_put_on_its_device(function) -> None:
    with other_device():
        x = calor.asarray(np.array([0.5, 1.0, 2.0], np.float32))
        want = function(x).numpy()
    made = function(x)
    assert made.device == other_device()
    assert made.numpy().tobytes() == want.tobytes()
