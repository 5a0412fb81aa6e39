"""Entries of OpInfo for windows, short-time Fourier transforms and segments."""

from __future__ import annotations

from typing import Any

from .names import Names, Table, c

signal = Names("calor.signal")
_WINDOWS = ("bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
            "general_hamming", "hamming", "hann", "kaiser", "nuttall")  # fmt: skip


def _window(name: str) -> Any:
    def call(M: int, *args: Any, dtype: Any = None, **more: Any) -> Any:
        given = [tuple(a) if isinstance(a, list) else a for a in args]
        more = {k: tuple(v) if isinstance(v, list) else v for k, v in more.items()}
        if name == "general_cosine":
            given.insert(0, more.pop("a")) if "a" in more else None
        return getattr(signal.windows, name)(M, *given, dtype=dtype, **more)

    return call


def _stft(input: Any, n_fft: int, hop_length: Any = None, win_length: Any = None,
          window: Any = None, center: bool = True, pad_mode: str = "reflect",
          normalized: bool = False, onesided: Any = None,
          return_complex: Any = None) -> Any:  # fmt: skip
    made = signal.stft(
        input, n_fft, hop_length, win_length, window, center=center, pad_mode=pad_mode,
        normalized=normalized, onesided=onesided,
    )  # fmt: skip
    if return_complex is None:
        return_complex = input.dtype.is_complex
    return made if return_complex else c.stack((c.real(made), c.imag(made)), axis=-1)


def _istft(input: Any, n_fft: int, hop_length: Any = None, win_length: Any = None,
           window: Any = None, center: bool = True, normalized: bool = False,
           onesided: Any = None, length: Any = None,
           return_complex: bool = False) -> Any:  # fmt: skip
    return signal.istft(
        input, n_fft, hop_length, win_length, window, center=center, normalized=normalized,
        onesided=onesided, length=length, return_complex=return_complex,
    )  # fmt: skip


def _segments(data: Any, reduce: str, *, lengths: Any = None, offsets: Any = None, axis: int = 0,
              unsafe: bool = False, initial: Any = None, indices: Any = None) -> Any:  # fmt: skip
    if offsets is None:
        zero = c.zeros((*lengths.shape[:-1], 1), dtype=lengths.dtype)
        offsets = c.concat((zero, c.cumulative_sum(lengths, axis=-1)), axis=-1)

    def one(x: Any, ends: Any) -> Any:
        if ends.ndim > 1:
            return c.vmap(one)(x, ends)
        count = ends.shape[0] - 1
        ids = c.searchsorted(ends, c.arange(x.shape[0]), side="right") - 1
        if initial is None:
            return getattr(c, f"segment_{reduce}")(x, ids, num_segments=count)
        start = c.full((count, *x.shape[1:]), initial, dtype=x.dtype)
        update = {"sum": "add", "mean": "add", "prod": "mul", "max": "max", "min": "min"}[reduce]
        made = c.index_update(start, ids, x, update=update)
        if reduce != "mean":
            return made
        sizes = c.reshape(ends[1:] - ends[:-1], (count,) + (1,) * (x.ndim - 1))
        return c.where(sizes == 0, made, made / c.maximum(sizes, 1))

    return one(data, offsets)


TABLE: Table = {
    **{f"signal.windows.{name}": _window(name) for name in _WINDOWS},
    "stft": _stft, "istft": _istft,
    "_segment_reduce/lengths": _segments, "_segment_reduce/offsets": _segments,
}  # fmt: skip
