"""Random bits: Philox for a key, with calor's bits, and RandomUniform for a generator.

Requirements: a key gives the same numbers at each use, also in a model, so its bits are computed as
in calor (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). A generator's
state cannot be part of a model, so the runtime draws its numbers: of the same distribution, but
different from calor's and different at each run.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

from calor import dtypes
from calor.dtypes import float32, int64, uint8, uint16, uint32, uint64
from calor.ops import elementwise as e
from calor.ops.movement import concat, expand, reshape, slice_
from calor.ops.sources import iota
from calor_onnx.exporting.graphs import defined, row
from calor_onnx.exporting.program import Step
from calor_onnx.exporting.writer import Writer, element

_WIDTHS: Final = {8: uint8, 16: uint16, 32: uint32, 64: uint64}
_MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
_STEPS: Final = (0x9E3779B9, 0xBB67AE85)
_LOW: Final = 0xFFFFFFFF


@row("random_bits")
def random_bits(w: Writer, step: Step, key: str, counter: str) -> Any:
    if key in w.shared.drawn:
        return _drawn(w, step)
    # For a symbolic shape the number of blocks is unknown, so each element has its own block.
    sizes = step.gives[0].shape
    function = _by_blocks if all(isinstance(n, int) for n in sizes) else _by_elements
    return tuple(defined(w, step, [key, counter], function))


def _drawn(w: Writer, step: Step) -> str:
    """Return bits of the runtime's generator, 16 at a time, which float32 can represent."""
    bits, shape = step.attributes["bits"], step.gives[0].shape
    dtype, high = step.gives[0].dtype, float(1 << min(bits, 16))
    wide = uint64 if bits == 64 else uint32
    made = ""
    for _ in range(max(bits // 16, 1)):
        options: dict[str, Any] = {"dtype": element(float32), "low": 0.0, "high": high}
        if all(isinstance(n, int) for n in shape):
            drawn = w.emit("RandomUniform", [], (float32,), shape=list(shape), **options)[0]
        else:
            like = w.broadcast(w.constant(0, float32), shape)
            drawn = w.emit("RandomUniformLike", [like], (float32,), **options)[0]
        # A runtime may round up to the end of the interval.
        whole = w.call("Min", w.call("Floor", drawn), w.constant(high - 1, float32))
        part = w.cast(w.cast(whole, int64), wide)
        if made:
            made = w.call("BitShift", made, w.constant(16, wide), direction="LEFT")
            part = w.call("BitwiseOr", made, part)
        made = part
    return w.cast(made, dtype)


def _word(x: Any, place: int) -> Any:
    """Return an element of a vector of uint32, as uint64[1]."""
    return e.cast(slice_(x, starts=(place,), stops=(place + 1,), steps=(1,)), dtype=uint64)


def _blocks(key: Any, counter: Any, numbers: Any) -> list[Any]:
    """Return the four words of each block with these numbers after the counter."""

    def each(x: Any) -> Any:
        return expand(x, shape=numbers.shape)

    words = [_word(counter, i) for i in range(4)]
    start = each(words[0] | words[1] << 32)
    a64 = numbers + start
    # The low half wrapped if it is below its start; then the carry is 1.
    upper = each(words[2] | words[3] << 32) + e.cast(e.less(a64, start), dtype=uint64)
    a, b, c, d = a64 & _LOW, a64 >> 32, upper & _LOW, upper >> 32
    keys = [_word(key, 0), _word(key, 1)]
    for _ in range(10):
        left, right = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a, c = (right >> 32) ^ b ^ each(keys[0]), (left >> 32) ^ d ^ each(keys[1])
        b, d = right & _LOW, left & _LOW
        keys = [(k + step) & _LOW for k, step in zip(keys, _STEPS, strict=True)]
    return [a, b, c, d]


def _by_blocks(key: Any, counter: Any, *, shape: tuple[int, ...], bits: int) -> Any:
    count = prod(shape)
    words = count * 2 if bits == 64 else count
    numbers = iota(length=max(-(-words // 4), 1), dtype=uint64)
    columns = [reshape(x, shape=(*x.shape, 1)) for x in _blocks(key, counter, numbers)]
    if bits == 64:
        columns = [columns[0] | columns[1] << 32, columns[2] | columns[3] << 32]
    joined = concat(*columns, axis=1)
    flat = reshape(joined, shape=(joined.shape[0] * joined.shape[1],))
    kept = slice_(flat, starts=(0,), stops=(count,), steps=(1,))
    return _narrowed(reshape(kept, shape=shape), bits)


def _by_elements(key: Any, counter: Any, *, shape: tuple[int, ...], bits: int) -> Any:
    places = iota(length=prod(shape), dtype=uint64)
    per_block = 2 if bits == 64 else 4
    columns = _blocks(key, counter, places >> (1 if bits == 64 else 2))
    if bits == 64:
        columns = [columns[0] | columns[1] << 32, columns[2] | columns[3] << 32]
    lane = places & (per_block - 1)
    made = columns[0]
    for i, column in enumerate(columns[1:], 1):
        made = e.where(lane == i, column, made)
    return _narrowed(reshape(made, shape=shape), bits)


def _narrowed(x: Any, bits: int) -> Any:
    dtype = _WIDTHS[bits]
    return x if dtype is dtypes.uint64 else e.cast(x & (2**bits - 1), dtype=dtype)
