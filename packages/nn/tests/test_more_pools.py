"""Layers that undo pooling, pool at random steps, take norms of windows, and pad."""

import numpy as np
import pytest

import calor
from calor import nn
from calor.errors import ArgumentError, ShapeError


def drawn(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, None, 0), (3, 2, 1)])
def test_unpooling_puts_maxima_back(rank, kernel, stride, padding):
    x = drawn(2, 3, *(7, 6, 5)[:rank])
    pool = getattr(nn, f"MaxPool{rank}d")(kernel, stride, padding, return_indices=True)
    unpool = getattr(nn, f"MaxUnpool{rank}d")(kernel, stride, padding)
    made, places = pool(calor.asarray(x))
    found = unpool(made, places, x.shape).numpy()
    assert found.shape == x.shape
    # An element is back where some window took it, and 0 elsewhere.
    taken = np.zeros((2, 3, x[0, 0].size), bool)
    np.put_along_axis(taken, places.numpy().reshape(2, 3, -1), True, axis=2)
    np.testing.assert_array_equal(found, np.where(taken.reshape(x.shape), x, 0))
    step = kernel if stride is None else stride
    smallest = tuple((n - 1) * step + kernel - 2 * padding for n in made.shape[2:])
    if all(a <= b for a, b in zip(x.shape[2:], smallest, strict=True)):
        assert unpool(made, places).shape[2:] == smallest
    with pytest.raises(ShapeError, match=f"must have {rank} sizes"):
        unpool(made, places, (2,) * (rank + 1))


PADDED = {
    "constant": {"constant_values": 1.5},
    "edge": {},
    "reflect": {},
    "symmetric": {},
    "wrap": {},
}


@pytest.mark.parametrize("mode", PADDED)
@pytest.mark.parametrize("padding", [[(1, 2)], [(0, 1), (2, 0)], [(1, 0), (0, 0), (1, 2)]])
def test_padding_is_that_of_the_last_axes(mode, padding):
    x = drawn(2, 3, 4, 3)
    options = {"value": 1.5} if mode == "constant" else {}
    layer = nn.Pad(padding, mode, **options)
    widths = [(0, 0)] * (x.ndim - len(padding)) + padding
    expected = np.pad(x, widths, mode=mode, **PADDED[mode])
    np.testing.assert_array_equal(layer(calor.asarray(x)).numpy(), expected)
    assert mode in repr(layer)


def test_padding_needs_the_axes():
    with pytest.raises(ShapeError, match="3 pairs do not fit a tensor of shape"):
        nn.Pad([(1, 1)] * 3)(calor.ones((2, 2)))
    with pytest.raises(ArgumentError, match="is negative"):
        nn.Pad([(-1, 1)])(calor.ones((2, 2)))


@pytest.mark.parametrize("rank", [2, 3])
def test_fractional_pooling_is_that_of_the_function(rank):
    x, samples = calor.asarray(drawn(2, 3, 9, 8, 7)[..., : 7 if rank == 3 else 8]), None
    x = x if rank == 3 else x[:, :, 0]
    samples = calor.asarray(np.full((2, 3, rank), 0.25, np.float32))
    function = getattr(nn.functional, f"fractional_max_pool{rank}d")
    layer = getattr(nn, f"FractionalMaxPool{rank}d")
    by_size = layer(2, output_size=4, return_indices=True)
    for a, b in zip(
        by_size(x, random_samples=samples),
        function(x, 2, 4, return_indices=True, random_samples=samples),
        strict=True,
    ):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    by_ratio = layer(2, output_ratio=0.5)
    assert by_ratio(x).shape == (2, 3, *(n // 2 for n in x.shape[2:]))
    key = calor.random.key(3)
    np.testing.assert_array_equal(by_ratio(x, key=key).numpy(), by_ratio(x, key=key).numpy())
    assert "output_ratio=0.5" in repr(by_ratio)
    with pytest.raises(ArgumentError):
        layer(2)(x)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("norm", [1.0, 2.0, 3.0, np.inf, -np.inf])
def test_norms_of_windows_beyond_the_end_are_scaled_to_whole_windows(rank, norm, ceil_mode):
    x = drawn(1, 2, *(5, 4, 6)[:rank])
    kernel, stride = (3, 3, 2)[:rank], (2, 3, 3)[:rank]
    pool = getattr(nn, f"LPPool{rank}d")(norm, kernel, stride, ceil_mode=ceil_mode)
    if norm == 3:
        x = np.abs(x)
    made = pool(calor.asarray(x)).numpy()
    for place in np.ndindex(made.shape[2:]):
        ends = [slice(p * s, p * s + k) for p, s, k in zip(place, stride, kernel, strict=True)]
        part = x[(..., *ends)].reshape(1, 2, -1)
        if np.isinf(norm):
            want = (np.max if norm > 0 else np.min)(np.abs(part), axis=-1)
        else:
            want = ((part**norm).mean(-1) * np.prod(kernel)) ** (1 / norm)
        np.testing.assert_allclose(made[(..., *place)], want, rtol=1e-5)
