"""Does attention with a cache give what it gives without, step by step and in one trace?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calor
from calor import nn
from calor.errors import ArgumentError, ElementIndexError, ShapeError


def _inputs(batch: int, length: int, width: int) -> Any:
    made = np.random.default_rng(0).standard_normal((batch, length, width))
    return calor.asarray(made.astype(np.float32))


@pytest.mark.parametrize(
    "rotary", [None, nn.RotaryEmbedding(4), nn.RotaryEmbedding(2, 100.0, True)]
)
@pytest.mark.parametrize("first", [1, 3])
def test_decoding_gives_what_the_whole_sequence_gives(rotary: Any, first: int) -> None:
    layer = nn.MultiHeadAttention(8, 2, batch_first=True, rotary=rotary)
    cache, x = nn.KVCache(2, 2, 7, 4), _inputs(2, 7, 8)
    step = calor.jit(lambda layer, cache, x: layer(x, cache=cache))
    want = layer(x, causal=True).numpy()
    for _ in range(2):
        parts = [step(layer, cache, x[:, :first])]
        parts += [step(layer, cache, x[:, i : i + 1]) for i in range(first, 7)]
        made = np.concatenate([part.numpy() for part in parts], 1)
        np.testing.assert_allclose(made, want, atol=1e-6)
        assert cache.length.item() == 7
        cache.reset()
    assert step.trace_count == (1 if first == 1 else 2)


def test_an_encoder_layer_decodes_with_a_cache() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).eval()
    cache, x = nn.KVCache(2, 2, 5, 4), _inputs(2, 5, 8)
    parts = [layer(x[:, i : i + 1], cache=cache).numpy() for i in range(5)]
    np.testing.assert_allclose(np.concatenate(parts, 1), layer(x, causal=True).numpy(), atol=1e-6)


def test_a_full_cache_says_so_and_stays_as_it_was() -> None:
    layer, cache = nn.MultiHeadAttention(4, 1, batch_first=True), nn.KVCache(1, 1, 2, 4)
    step = calor.jit(lambda layer, cache, x: layer(x, cache=cache))
    step(layer, cache, _inputs(1, 2, 4))
    held = cache.keys.numpy()
    with pytest.raises(ElementIndexError):
        step(layer, cache, _inputs(1, 1, 4)).numpy()
    np.testing.assert_array_equal(cache.keys.numpy(), held)
    assert cache.length.item() == 2


def test_a_cache_is_no_part_of_the_state_and_refuses_what_does_not_fit() -> None:
    cache = nn.KVCache(1, 2, 3, 4, 5, dtype="float16")
    assert (cache.state_dict(), cache.values.shape) == ({}, (1, 2, 3, 5))
    keys, values, seen = cache.update(calor.ones((1, 2, 2, 4)), calor.ones((1, 2, 2, 5)))
    assert keys.dtype.name == values.dtype.name == "float16"
    assert seen.tolist() == [[[[True, False, False], [True, True, False]]]]
    for shape in [(1, 2, 4, 4), (1, 1, 1, 4), (1, 2, 1, 3), (2, 1, 4)]:
        with pytest.raises(ShapeError, match="do not fit a cache"):
            cache.update(calor.ones(shape), calor.ones((*shape[:-1], 5)))
    with pytest.raises(ArgumentError, match="max_len must be at least 1"):
        nn.KVCache(1, 2, 0, 4)


def test_rotary_positions_turn_pairs() -> None:
    x = np.random.default_rng(0).standard_normal((2, 5, 6))
    angles = np.arange(3, 8)[:, None] * 50.0 ** (-np.arange(0, 4, 2) / 4)
    for interleaved in (False, True):
        first, second = (x[..., 0:4:2], x[..., 1:4:2]) if interleaved else (x[..., :2], x[..., 2:4])
        turned = (first + 1j * second) * np.exp(1j * angles)
        layer = nn.RotaryEmbedding(4, 50.0, interleaved)
        made = layer(calor.asarray(x), calor.arange(3, 8)).numpy()
        real, imag = (made[..., 0:4:2], made[..., 1:4:2]) if interleaved else (
            made[..., :2], made[..., 2:4])  # fmt: skip
        np.testing.assert_allclose(real + 1j * imag, turned, rtol=1e-12)
        np.testing.assert_array_equal(made[..., 4:], x[..., 4:])
    with pytest.raises(ArgumentError, match="even"):
        nn.RotaryEmbedding(3)
    with pytest.raises(ShapeError, match="fewer than 4 features"):
        nn.RotaryEmbedding(4)(calor.ones((2, 3)))
