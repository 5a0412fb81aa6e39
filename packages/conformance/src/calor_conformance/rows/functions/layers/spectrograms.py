"""The short-time Fourier transform, by a transform of each frame, and back."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...language import Array
from ..drawing import Arguments, Rng, coin
from .language import Row

_ASKS: Final = "nan infinite zeros ties equal large small limits long short"
_PADS: Final = {"constant": "constant", "reflect": "reflect", "replicate": "edge",
                "circular": "wrap"}  # fmt: skip


def _framed(rng: Rng) -> Arguments:
    n = int(rng.choice((4, 5, 8)))
    hop, width = int(rng.integers(1, n)), int(rng.integers(1, n + 1))
    length = n + int(rng.integers(1, 12))
    lead = (2,) if coin(rng) else ()
    options: dict[str, Any] = {
        "hop_length": hop, "center": coin(rng), "normalized": coin(rng),
        "pad_mode": str(rng.choice(tuple(_PADS))),
    }  # fmt: skip
    if coin(rng):
        options["win_length"] = width
        options["window"] = (rng.random(width) + 0.2).astype(np.float32)
    if coin(rng):
        options["onesided"] = coin(rng)
    if rng.random() < 0.2:
        del options["hop_length"]
    return [rng.normal(size=(*lead, length)).astype(np.float32), n], options


def _stft(
    x: Array, n: int, *, hop_length: Any = None, win_length: Any = None, window: Any = None,
    center: bool, normalized: bool, pad_mode: str, onesided: bool = True,
) -> Any:  # fmt: skip
    hop = n // 4 if hop_length is None else hop_length
    whole = np.ones(n)
    if window is not None:
        whole = np.zeros(n)
        before = (n - len(window)) // 2
        whole[before : before + len(window)] = window
    if center:
        wide = [(0, 0)] * (x.ndim - 1) + [(n // 2, n // 2)]
        x = np.pad(x, wide, mode=_PADS[pad_mode])  # type: ignore[call-overload]
    count = (x.shape[-1] - n) // hop + 1
    frames = np.stack([x[..., k * hop : k * hop + n] * whole for k in range(count)], -2)
    made = (np.fft.rfft if onesided else np.fft.fft)(frames)
    made = np.swapaxes(made, -1, -2) / (np.sqrt(n) if normalized else 1.0)
    return made.real, made.imag


def _parts(package: Any, x: Any, n: int, **options: Any) -> Any:
    import calor

    made = package.stft(x, n, **options)
    return calor.real(made), calor.imag(made)


def _there_and_back(rng: Rng) -> Arguments:
    n = int(rng.choice((4, 8)))
    hop = int(rng.integers(1, n // 2 + 1))
    window = (rng.random(n) + 0.3).astype(np.float32)
    length = n + hop * int(rng.integers(1, 6))
    options = {"hop_length": hop, "window": window, "normalized": coin(rng), "center": coin(rng)}
    return [rng.normal(size=(2, length)).astype(np.float32), n], options


def _back(package: Any, x: Any, n: int, **options: Any) -> Any:
    made = package.stft(x, n, **options)
    return package.istft(made, n, length=x.shape[-1], **options)


ROWS: Final[list[Row]] = [
    Row("stft", _framed, _stft, call=_parts, without=_ASKS, smooth=True, near=1e-4,
        least=12),
    Row("istft", _there_and_back, lambda x, n, **options: x, call=_back, without=_ASKS, near=1e-3,
        smooth=True),
]  # fmt: skip
