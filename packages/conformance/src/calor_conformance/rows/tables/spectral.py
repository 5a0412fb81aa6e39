"""Rows of the Fourier transforms and of the random bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.dtypes import uint32

from ..domains import chosen, normal, whole
from ..language import COMPLEX, WIDE_FLOATS, Array, Case, Tolerance, case


def _matrix(n: int, sign: int) -> Array:
    """The matrix of a transform of length n, in long double."""
    turn = np.arctan(np.longdouble(1)) * 8
    places = np.outer(np.arange(n), np.arange(n)) % max(n, 1)
    angle = sign * turn * places.astype(np.longdouble) / max(n, 1)
    made = np.empty((n, n), np.clongdouble)
    made.real, made.imag = np.cos(angle), np.sin(angle)
    return made


def _transformed(x: Array, axes: Any, sign: int) -> Array:
    made = x.astype(np.clongdouble)
    for axis in axes:
        turned = np.tensordot(_matrix(x.shape[axis], sign), made, ([1], [axis]))
        made = np.moveaxis(turned, 0, axis)
    return made


def _fft(x: Array, *, kind: str, axes: Any, length: int) -> Array:
    if kind == "forward":
        return _transformed(x, axes, -1)
    if kind == "inverse":
        return _transformed(x, axes, 1)
    last = axes[-1]
    if kind == "r2c":
        return np.take(_transformed(x, axes, -1), np.arange(length // 2 + 1), last)
    # The other axes first; then the missing bins of the last are conjugates of those there, and
    # the imaginary parts of the first and the middle one do not count.
    made = np.moveaxis(_transformed(x, axes[:-1], 1), last, -1)
    whole = np.zeros((*made.shape[:-1], length), np.clongdouble)
    for k in range(length):
        bin_ = made[..., k] if k <= length // 2 else made[..., length - k].conj()
        whole[..., k] = bin_.real if k == 0 or 2 * k == length else bin_
    return np.moveaxis(_transformed(whole, (whole.ndim - 1,), 1).real, -1, last)


def _size(x: Array, **attributes: Any) -> Array:
    """The largest that any bin could be."""
    return np.asarray(np.sum(np.abs(x)) * 2 + np.zeros(_fft(x, **attributes).shape))


NEAR = Tolerance(2.0, 2.0, _size)


def _complex(name: str, shape: tuple[int, ...], *axes: int) -> list[Case]:
    return [
        case("fft", normal(*shape), kind=kind, axes=axes, length=shape[axes[-1]], oracle=_fft,
             dtypes=COMPLEX, tol=NEAR, name=f"{kind}-{name}")
        for kind in ("forward", "inverse")
    ]  # fmt: skip


def _halved(name: str, shape: tuple[int, ...], *axes: int) -> list[Case]:
    length = shape[axes[-1]]
    bins = tuple(n // 2 + 1 if i == axes[-1] else n for i, n in enumerate(shape))
    return [
        case("fft", normal(*shape), kind="r2c", axes=axes, length=length, oracle=_fft,
             dtypes=WIDE_FLOATS, tol=NEAR, name=f"r2c-{name}"),
        case("fft", normal(*bins), kind="c2r", axes=axes, length=length, oracle=_fft,
             dtypes=COMPLEX, tol=NEAR, name=f"c2r-{name}"),
    ]  # fmt: skip


def philox(key: Array, counter: Array, *, shape: Any, bits: int) -> Array:
    """Philox4x32-10 with Python's integers, one block after another."""
    count = int(np.prod(shape))
    words: list[int] = []
    start = sum(int(c) << (32 * i) for i, c in enumerate(counter))
    block = 0
    while len(words) < count * (2 if bits == 64 else 1):
        number = (start + block) % (1 << 128)
        a = [(number >> (32 * i)) & 0xFFFFFFFF for i in range(4)]
        k = [int(key[0]), int(key[1])]
        for _ in range(10):
            p, q = a[0] * 0xD2511F53, a[2] * 0xCD9E8D57
            a = [(q >> 32) ^ a[1] ^ k[0], q & 0xFFFFFFFF, (p >> 32) ^ a[3] ^ k[1], p & 0xFFFFFFFF]
            k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
        words += a
        block += 1
    if bits == 64:
        words = [words[2 * i] | words[2 * i + 1] << 32 for i in range(count)]
    numbers = [w % (1 << bits) for w in words[:count]]
    return np.array(numbers, f"u{bits // 8}").reshape(shape)


_BIG = chosen([0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFF, 7], uint32)


CASES: list[Case] = [
    *_complex("1d", (5,), 0),
    *_complex("even", (3, 6), 1),
    *_complex("first", (4, 3), 0),
    *_complex("2d", (3, 4), 0, 1),
    *_complex("middle", (2, 3, 4), 0, 2),
    *_complex("one", (2, 1), 1),
    *_complex("none", (0, 3), 1),
    *_halved("odd", (5,), 0),
    *_halved("even", (6,), 0),
    *_halved("even-rows", (4, 3), 0),
    *_halved("2d-odd", (3, 5), 0, 1),
    *_halved("2d-even", (3, 4), 0, 1),
    *_halved("swapped", (4, 3), 1, 0),
    *_halved("one", (2, 1), 1),
    *_halved("two", (2,), 0),
    *(
        case("random_bits", whole(0, 1 << 31, 2), counter, shape=shape, bits=bits, oracle=philox,
             dtypes=(uint32,), raw=True, name=f"{bits}-{list(shape)}-{name}")
        for bits in (8, 16, 32, 64)
        for name, counter, shape in [
            ("small", whole(0, 9, 4), (3, 5)),
            ("carries", _BIG, (11,)),
            ("0d", whole(0, 9, 4), ()),
            ("empty", whole(0, 9, 4), (2, 0)),
        ]
    ),
]  # fmt: skip
