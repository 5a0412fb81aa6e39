"""Functions of tensors that are on another device than the current one."""

import numpy as np
import pytest

import calor
from other_device import other_device

NUMBERS = np.array([0.5, 2.0, -1.0, 3.0], np.float32)


@pytest.mark.parametrize("length", [6, 7])
def test_the_gradient_of_an_inverse_transform_of_reals_is_where_its_operand_is(length: int) -> None:
    with other_device():
        x = calor.asarray(NUMBERS.astype(np.complex64), requires_grad=True)
    calor.sum(calor.fft.irfft(x, n=length) ** 2).backward()
    assert x.grad is not None
    assert x.grad.device == other_device()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: calor.clip(1.0, x, 2.0),
        lambda x: calor.clip(1.0, None, x),
        lambda x: calor.quantile(1.5, calor.abs(x) / 4),
    ],
)
def test_a_number_beside_a_tensor_is_put_on_its_device(function) -> None:
    with other_device():
        x = calor.asarray(NUMBERS)
        want = function(x).numpy()
    made = function(x)
    assert made.device == other_device()
    assert made.numpy().tobytes() == want.tobytes()
