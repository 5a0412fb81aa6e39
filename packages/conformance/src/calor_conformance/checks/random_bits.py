"""Random numbers: the bits are a function of key and counter, equal on every device.

The known answers are Random123's for Philox4x32-10 (Salmon et al., SC 2011). Other bits are
compared with the reference element by element, also at carries of the counter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import calor
from calor.dtypes import DType, bfloat16, float16, float32, float64, uint8, uint16, uint32, uint64
from calor.ops.base import find
from calor.reference.random import random_bits as meaning

from .base import Array, Place
from .contract import Contracts

contract = Contracts("random")
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
# Counters just below a carry of each word, and lengths around a block of four words.
COUNTERS = ((0, 0, 0, 0), (0xFFFFFFFE, 0, 7, 0), (0xFFFFFFFE, 0xFFFFFFFF, 7, 0),
            (0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF))  # fmt: skip
LENGTHS = (1, 3, 4, 5, 8, 1001)


def _bits(key: Any, counter: Any, shape: tuple[int, ...], width: int) -> Array:
    words = [calor.asarray(np.array(w, np.uint32)) for w in (key, counter)]
    return np.asarray(find("random_bits")(*words, shape=shape, bits=width).numpy())


@contract(
    "uniform numbers are at least 0 and less than 1 in every dtype, and use its whole range",
    of=(float16, bfloat16, float32, float64),
    dtypes=(uint32,),
    op="random_bits",
)
def uniform_ends(place: Place, dtype: DType) -> None:
    drawn = calor.random.uniform((20_000,), dtype=dtype, key=calor.random.key(3)).numpy()
    wide = drawn.astype(np.float64)
    assert wide.min() >= 0, f"{wide.min()} is less than 0"
    assert wide.max() < 1, f"{wide.max()} is not less than 1"
    reach = wide.max() - wide.min()
    assert reach > 0.98, f"all are from {wide.min()} to {wide.max()}"


@contract("Philox4x32-10 gives Random123's known answers", dtypes=(uint32,), op="random_bits")
def known_answers(place: Place) -> None:
    for counter, key, want in KNOWN:
        got = _bits(key, counter, (4,), 32)
        assert got.tolist() == list(want), f"{[hex(v) for v in got]} for counter {counter}"


def _agree(width: int) -> None:
    for counter in COUNTERS:
        for length in LENGTHS:
            key = (17, 4)
            got = _bits(key, counter, (length,), width)
            want = meaning(np.array(key), np.array(counter, np.uint32), shape=(length,), bits=width)
            wrong = np.flatnonzero(got != want)
            assert not wrong.size, (
                f"element {wrong[0]} of {length} is {got[wrong[0]]:#x}, not {want[wrong[0]]:#x}, "
                f"from counter {counter}"
            )


@contract(
    "bits of each width are those of the reference, across blocks and carries",
    dtypes=(uint32,),
    tier="full",
    op="random_bits",
    of=(uint8, uint16, uint32, uint64),
)
def bits(place: Place, dtype: DType) -> None:
    _agree(8 * dtype.itemsize)


@contract("shapes draw the same bits in row-major order", dtypes=(uint32,), op="random_bits")
def shapes_of_bits(place: Place) -> None:
    flat = _bits((1, 2), (3, 0, 0, 0), (24,), 32)
    for shape in ((2, 12), (2, 3, 4), (1, 24, 1)):
        assert _bits((1, 2), (3, 0, 0, 0), shape, 32).reshape(-1).tolist() == flat.tolist()


@contract(
    "uniform numbers are those of the reference bit by bit",
    dtypes=(uint32,),
    tier="full",
    of=(float16, float32, float64),
)
def uniform(place: Place, dtype: DType) -> None:
    def draw() -> Array:
        key = calor.random.key(11)
        return np.asarray(calor.random.uniform((1000,), dtype=dtype, key=key).numpy())

    got = draw()
    with calor.device("numpy"):
        want = draw()
    assert got.tobytes() == want.tobytes()


@contract(
    "the global generator gives one stream, drawn at once, later or jitted",
    tier="compiled",
    dtypes=(uint32, float32),
)
def stream(place: Place) -> None:
    generator = calor.random.Generator(5)

    def draw() -> Any:
        return calor.random.uniform((3,), generator=generator)

    start = generator.state
    first = [draw().tolist() for _ in range(4)]
    generator.set_state(start)
    pending = [draw() for _ in range(4)]
    assert [t.tolist() for t in reversed(pending)] == first[::-1]
    generator.set_state(start)
    jitted = calor.jit(draw)
    assert [jitted().tolist() for _ in range(4)] == first


CHECKS = contract.checks
