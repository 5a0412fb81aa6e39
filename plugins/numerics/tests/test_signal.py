"""Windows against SciPy's, transforms against a loop of NumPy's, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.signal.windows

import calor
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.signal import istft, stft, windows

WINDOWS: list[tuple[str, dict[str, Any], tuple[Any, ...]]] = [
    *((name, {}, ()) for name in ("bartlett", "blackman", "cosine", "hamming", "hann", "nuttall")),
    ("exponential", {"tau": 3.0}, (None, 3.0)),
    ("gaussian", {"std": 2.5}, (2.5,)),
    ("general_cosine", {"a": [0.3, 0.4, 0.2]}, ([0.3, 0.4, 0.2],)),
    ("general_hamming", {"alpha": 0.7}, (0.7,)),
    ("kaiser", {"beta": 3.0}, (3.0,)),
]


@pytest.mark.parametrize(("name", "options", "theirs"), WINDOWS, ids=[w[0] for w in WINDOWS])
@pytest.mark.parametrize("sym", [True, False])
def test_windows_are_those_of_scipy(name: str, options: Any, theirs: Any, sym: bool) -> None:
    for length in (0, 1, 2, 7, 16):
        if not length and name == "general_cosine":
            continue
        found = getattr(windows, name)(length, sym=sym, dtype="float64", **options).numpy()
        wanted = getattr(scipy.signal.windows, name)(length, *theirs, sym=sym)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)
    assert getattr(windows, name)(4, **options).dtype is calor.float32


def looped(x: Any, n: int, hop: int, window: Any, onesided: bool) -> Any:
    frames = [x[..., i : i + n] * window for i in range(0, x.shape[-1] - n + 1, hop)]
    transform = np.fft.rfft if onesided else np.fft.fft
    return np.stack([transform(f) for f in frames], -1)


CASES = list(product([8, 9], [None, 3], [None, 6], [True, False], [True, False]))


@pytest.mark.parametrize(("n", "hop", "width", "center", "whole"), CASES)
def test_transforms_and_back(n: int, hop: Any, width: Any, center: bool, whole: bool) -> None:
    random = np.random.default_rng(n)
    x = random.standard_normal((2, 40)) + (1j * random.standard_normal((2, 40)) if whole else 0)
    window = 0.1 + np.hanning(width or n)
    before = (n - len(window)) // 2
    wide = np.pad(window, (before, n - len(window) - before))
    padded = np.pad(x, [(0, 0), (n // 2, n // 2)], mode="reflect") if center else x
    wanted = looped(padded, n, hop or n // 4, wide, not whole)
    given = calor.asarray(window)
    found = stft(calor.asarray(x), n, hop, width, given, center=center)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=0, atol=1e-12)
    scaled = stft(calor.asarray(x), n, hop, width, given, center=center, normalized=True)
    np.testing.assert_allclose(scaled.numpy() * n**0.5, wanted, rtol=0, atol=1e-12)
    if width and not center:
        # The ends of the signal are in no window.
        with pytest.raises(ArgumentError, match="squared windows add up to 0"):
            istft(found, n, hop, width, given, center=False, return_complex=whole)
        return
    back = istft(scaled, n, hop, width, given, center=center, normalized=True, return_complex=whole)
    count = min(back.shape[-1], 40)
    np.testing.assert_allclose(back.numpy()[:, :count], x[:, :count], rtol=0, atol=1e-12)
    if width:
        return
    longer = istft(
        found, n, hop, width, given, center=center, length=60, return_complex=whole
    ).numpy()
    assert longer.shape == (2, 60)
    assert not longer[:, -1].any()


def test_transforms_have_gradients_and_are_jitted() -> None:
    x, window = calor.linspace(0, 1, 24, dtype="float64"), windows.hann(8, sym=False)

    def energy(x: Any) -> Any:
        return (calor.abs(stft(x, 8, window=window)) ** 2).sum()

    found = calor.jit(calor.grad(energy))(x).numpy()
    step = np.zeros(24)
    step[5] = 1e-6
    difference = energy(x + calor.asarray(step)).item() - energy(x - calor.asarray(step)).item()
    assert found[5] == pytest.approx(difference / 2e-6, rel=1e-5)
    through = calor.jit(lambda x: istft(stft(x, 8, window=window), 8, window=window))
    np.testing.assert_allclose(through(x).numpy(), x.numpy(), atol=1e-12)


ONES = calor.ones(16)
REFUSED: list[tuple[Callable[[], Any], Any, str]] = [
    (lambda: windows.hann(-1), ArgumentError, "length is -1"),
    (lambda: windows.hann(4, dtype="int32"), DTypeError, "real floating"),
    (lambda: windows.gaussian(4, std=0), ArgumentError, "positive number"),
    (lambda: windows.exponential(4, center=1), ArgumentError, "in the middle"),
    (lambda: windows.kaiser(4, beta=-1), ArgumentError, "at least 0"),
    (lambda: windows.general_cosine(4, []), ArgumentError, "at least one"),
    (lambda: stft(ONES, 0), ArgumentError, "at least 1"),
    (lambda: stft(ONES, 8, win_length=9), ArgumentError, "win_length is 9"),
    (lambda: stft(ONES, 8, window=calor.ones(4)), ShapeError, "pass 8 elements"),
    (lambda: stft(ONES, 8, pad_mode="edges"), ArgumentError, "none of constant"),  # type: ignore[arg-type]
    (lambda: stft(ONES, 32, center=False), ShapeError, "longer signal"),
    (lambda: stft(ONES.astype("complex64"), 8, onesided=True), ArgumentError, "two sides"),
    (lambda: istft(ONES, 8), ShapeError, r"pass \(\.\.\., 5, frames\)"),
]


@pytest.mark.parametrize(("call", "kind", "match"), REFUSED, ids=[m for *_, m in REFUSED])
def test_wrong_operands_are_refused(call: Callable[[], Any], kind: Any, match: str) -> None:
    with pytest.raises(kind, match=match):
        call()
