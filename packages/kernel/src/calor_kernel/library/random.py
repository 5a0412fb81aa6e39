"""Random bits from a counter: Philox4x32-10, the same bits as core's reference.

Requirements: each block of four words is a function of key and counter alone, so any unit can
compute any block; a vector computes one block in each lane, and its words are interleaved before
the store. Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
1, 2, 3", SC 2011.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from calor.dtypes import DType, int64, uint32, uint64
from calor_kernel import language as kl
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import Output, Refusal, Request, Work, lowering
from calor_kernel.ir.types import UNSIGNED

_FIRST: Final = 0xD2511F53
_SECOND: Final = 0xCD9E8D57
_STEPS: Final = (0x9E3779B9, 0xBB67AE85)
_ROUNDS: Final = 10
_CHUNK: Final = 1 << 12  # blocks that a cube of one unit computes
_ALIGN: Final = 16  # bytes to which results are aligned at least
# Instructions and words of a block.
WEIGHT: Final = 80
WORDS: Final = 4


def philox(counter: Sequence[kl.Number], key: Sequence[kl.Number]) -> tuple[kl.Number, ...]:
    """Return the four words of blocks: ten rounds of the four words of their counters."""
    a, b, c, d = counter
    k0, k1 = key
    for turn in range(_ROUNDS):
        if turn:
            k0, k1 = k0 + _STEPS[0], k1 + _STEPS[1]
        left, right = kl.mulhi(a, _like(_FIRST, a)), kl.mulhi(c, _like(_SECOND, c))
        a, b, c, d = right ^ b ^ k0, c * _SECOND, left ^ d ^ k1, a * _FIRST
    return a, b, c, d


def _like(number: int, like: kl.Number) -> kl.Number:
    return kl.constant(number, like.dtype, like.width)


def advanced(counter: Sequence[kl.Number], block: kl.Number) -> tuple[kl.Number, ...]:
    """Return the counters of blocks, counted from ``counter`` on modulo 2**128."""
    low = kl.cast(block, uint32) + counter[0]
    carry = kl.cast(low < counter[0], uint32)
    # The number of a block has 63 bits at most.
    second = kl.cast(block >> 32, uint32) + counter[1]
    over = kl.cast(second < counter[1], uint32)
    second = second + carry
    carry = over | kl.cast(second < carry, uint32)
    third = counter[2] + carry
    return low, second, third, counter[3] + kl.cast(third < carry, uint32)


@kl.kernel
def random_blocks(
    key: kl.In,
    counter: kl.In,
    target: kl.Out,
    count: kl.Size,
    chunk: kl.Size,
    *,
    dtype: DType,
    width: int,
) -> None:
    """Write ``count`` random integers; a cube makes ``chunk`` blocks, ``width`` at a time."""
    words = [kl.splat(key[i], width) for i in range(2)]
    start = [kl.splat(counter[i], width) for i in range(4)]
    each = 2 if dtype is uint64 else 4
    lane = kl.constant(tuple(range(width)), int64) if width > 1 else 0
    first = kl.cube_position() * chunk
    step = kl.cube_size() * width
    for i in kl.loop_range(first + kl.unit_position() * width, first + chunk, step):
        if i * each < count:
            blocks = philox(advanced(start, i + lane), words)
            _store(target, i * each, count - i * each, blocks, dtype, width)


@kl.helper
def _store(
    target: kl.Pointer,
    at: kl.Number,
    rest: kl.Number,
    words: Sequence[kl.Number],
    dtype: DType,
    width: int,
) -> None:
    values = _interleaved(words, width)
    values = kl.bitcast(values, dtype) if dtype is uint64 else kl.cast(values, dtype)
    # A mask would be a branch for each element.
    if rest >= values.width:
        target.store(at, values, align=min(values.width * values.dtype.itemsize, _ALIGN))
    else:
        lanes = kl.constant(tuple(range(values.width)), int64)
        target.store(at, values, mask=lanes < rest)


def drawn_words(
    key: kl.Pointer, counter: kl.Pointer, at: kl.Number, dtype: DType, width: int
) -> kl.Number:
    """Return ``width`` random integers from number ``at`` on, both multiples of four."""
    lanes = width // WORDS
    words = [kl.splat(key[i], lanes) for i in range(2)]
    start = [kl.splat(counter[i], lanes) for i in range(4)]
    block = kl.cast(at // WORDS, int64)
    if lanes > 1:
        block = block + kl.constant(tuple(range(lanes)), int64)
    found = _interleaved(philox(advanced(start, block), words), lanes)
    return found if dtype is uint32 else kl.cast(found, dtype)


def _interleaved(words: Sequence[kl.Number], width: int) -> kl.Number:
    """Return the words of blocks one after another."""
    a, b, c, d = words
    if width == 1:
        return kl.pack(words)
    pairs = [i // 2 + i % 2 * width for i in range(2 * width)]
    low, high = kl.shuffle(a, pairs, b), kl.shuffle(c, pairs, d)
    order = [i // 4 * 2 + i % 2 + i % 4 // 2 * 2 * width for i in range(4 * width)]
    return kl.shuffle(low, order, high)


@lowering("random_bits")
def lower_random_bits(request: Request) -> Sequence[Work] | Refusal:
    """Lower the row of random bits."""
    info = request.info
    (output,) = request.outputs
    key, counter = request.inputs
    if uint32 not in info.dtypes:
        return Refusal("its generator computes with 32-bit integers, which the device does not")
    dtype = UNSIGNED[request.attributes["bits"] // 8]
    count = prod(output.shape)
    # Neighbouring units of a large cube write adjacent blocks.
    width = max(info.vector_bytes // 4, 1) if info.max_units == 1 else 1
    units = min(info.max_units, 128)
    blocks = -(-count // (2 if dtype is uint64 else 4))
    chunk = units * 4 if units > 1 else _CHUNK
    made = launch(
        random_blocks,
        Grid.line(max(-(-blocks // chunk), 1), units),
        Effort("random.blocks", WEIGHT * blocks, output.nbytes),
        key=operand(0, key),
        counter=operand(1, counter),
        target=Bound(Output(), dtype),
        count=count,
        chunk=chunk,
        dtype=dtype,
        width=width,
    )
    return (Work((made,)),)
