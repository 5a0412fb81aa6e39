"""Losses and distances of a number and a tensor on another device than the current one."""

import numpy as np
import pytest

import calor
from calor.nn import functional
from other_device import other_device


@pytest.mark.parametrize(
    "function",
    [
        lambda x: functional.binary_cross_entropy(0.25, x),
        lambda x: functional.binary_cross_entropy_with_logits(0.25, x),
        lambda x: functional.kl_div(0.25, x),
        lambda x: functional.pairwise_distance(0.25, calor.stack([x, x])),
        lambda x: functional.cosine_similarity(0.25, calor.stack([x, x]), axis=0),
    ],
)
def test_a_number_beside_a_tensor_is_put_on_its_device(function) -> None:
    with other_device():
        x = calor.asarray(np.float32(0.75))
        want = function(x).numpy()
    made = function(x)
    assert made.device == other_device()
    assert made.numpy().tobytes() == want.tobytes()
