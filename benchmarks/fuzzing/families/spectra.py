"""Spectra inside networks: token mixing, neural operators, long convolutions, frames of sounds."""

from math import prod
from random import Random
from typing import Any

from fuzzing.cases import Family, Operand, Parameters, Work
from fuzzing.families._common import alike, like, one, single, sizes

# Batch, and the sizes that a form transforms; the last of "operator" are channels in and out.
_SIZES: dict[str, list[tuple[int, ...]]] = {
    "mix": [(8, 512, 768), (16, 128, 768), (32, 256, 256), (1, 512, 768), (4, 1024, 512)],
    "operator": [(20, 64, 64, 32), (16, 85, 85, 32), (8, 128, 128, 32), (4, 256, 256, 24)],
    "operator_1d": [(20, 1024, 64), (20, 8192, 64), (32, 256, 64)],
    "long": [(2, 768, 1024), (8, 128, 1024), (4, 256, 2048), (1, 768, 4096), (16, 128, 784)],
    "frames": [(8, 998, 400), (16, 300, 512), (32, 100, 400), (4, 862, 1024), (1, 3000, 400)],
    "filter": [(8, 14, 14, 384), (8, 28, 28, 128), (32, 14, 14, 512)],
    "series": [(32, 96, 512), (32, 720, 64), (32, 336, 21)],
}
_FORMS = {
    "mix": 2,
    "operator": 2,
    "operator_1d": 1,
    "long": 2,
    "frames": 3,
    "filter": 1,
    "series": 1,
}


def _draw(random: Random) -> Parameters:
    form = one(random, _FORMS)
    batch, *shape = random.choice(_SIZES[form])
    return {
        "form": form,
        "batch": batch,
        "shape": tuple(shape),
        "modes": one(random, {12: 1, 16: 2}),
    }


def _spectrum(p: Parameters) -> Work:
    """Return what a network computes of a spectrum, in float32 between.

    mix: FNet's real part over tokens and features; operator: weights of the low modes (FNO);
    long: a convolution as long as the sequence (Hyena, S4); frames: log powers of windowed frames
    by bands; filter: GFNet's products; series: autocorrelation (Autoformer).
    """
    form, batch, shape, modes = sizes(p, "form", "batch", "shape", "modes")
    whole = (batch, *shape)
    table = {"mix": _mix, "operator": _operator, "operator_1d": _operator, "long": _long,
             "frames": _frames, "filter": _filter, "series": _series}  # fmt: skip
    operands, call, made = table[form](whole, modes)
    flops = 12.0 * prod(whole)
    return Work(tuple(operands), *alike(call), made, flops=flops, depth=prod(shape))


def _numbers(lib: Any, a: Any, b: Any) -> Any:
    """Return complex numbers of their parts."""
    return lib.complex(a, b)


def _mix(whole: Any, modes: int) -> Any:
    def call(lib: Any, x: Any) -> Any:
        y = lib.fft.fft(lib.fft.fft(single(x), axis=-1), axis=-2)
        return like(lib.real(y), x)

    return [Operand(whole)], call, whole


def _operator(whole: Any, modes: int) -> Any:
    batch, *sides, channels = whole
    flat = len(sides) == 1
    weights = Operand((channels, channels, *(modes,) * len(sides)), "float32", weight=True)
    scale = 1 / channels
    size = sides[-1] // 2 + 1

    def call(lib: Any, x: Any, a: Any, b: Any) -> Any:
        w = _numbers(lib, a * scale, b * scale)
        y = lib.fft.rfft(single(x), axis=-1)
        if flat:
            low = lib.einsum("bim,iom->bom", y[..., :modes], w)
            rest = lib.zeros_like(y[..., modes:])
            return like(lib.fft.irfft(lib.concat([low, rest], axis=-1), n=sides[-1], axis=-1), x)
        y = lib.fft.fft(y, axis=-2)
        low = lib.einsum("bihm,iohm->bohm", y[:, :, :modes, :modes], w)
        wide = lib.concat([low, lib.zeros_like(y[:, :, :modes, modes:size])], axis=-1)
        high = lib.concat([wide, lib.zeros_like(y[:, :, modes:])], axis=-2)
        return like(lib.fft.irfft(lib.fft.ifft(high, axis=-2), n=sides[-1], axis=-1), x)

    shape = (batch, channels, *sides)
    return [Operand(shape), weights, weights], call, shape


def _long(whole: Any, modes: int) -> Any:
    _, channels, length = whole
    scale, padded = length**-0.5, {"n": 2 * length, "axis": -1}

    def call(lib: Any, x: Any, h: Any) -> Any:
        y = lib.fft.rfft(single(x), n=2 * length, axis=-1) * lib.fft.rfft(
            h * scale, n=2 * length, axis=-1
        )
        return like(lib.fft.irfft(y, **padded)[..., :length], x)

    return [Operand(whole), Operand((channels, length), "float32", weight=True)], call, whole


def _frames(whole: Any, modes: int) -> Any:
    batch, frames, size = whole
    bands, bins = 80, size // 2 + 1

    def call(lib: Any, x: Any, window: Any, filters: Any) -> Any:
        y = lib.fft.rfft(single(x) * window, axis=-1)
        power = lib.real(y) ** 2 + lib.imag(y) ** 2
        return like(lib.log(power @ filters + 1e-3), x)

    window = Operand((size,), "float32", fixed=True)
    filters = Operand((bins, bands), "float32", positive=True, fixed=True)
    return [Operand(whole), window, filters], call, (batch, frames, bands)


def _filter(whole: Any, modes: int) -> Any:
    _, height, width, channels = whole
    weights = Operand((height, width // 2 + 1, channels), "float32", weight=True)

    def call(lib: Any, x: Any, a: Any, b: Any) -> Any:
        y = lib.fft.fft(lib.fft.rfft(single(x), axis=2), axis=1) * _numbers(lib, a, b)
        return like(lib.fft.irfft(lib.fft.ifft(y, axis=1), n=width, axis=2), x)

    return [Operand(whole), weights, weights], call, whole


def _series(whole: Any, modes: int) -> Any:
    length = whole[1]

    def call(lib: Any, q: Any, k: Any) -> Any:
        a, b = (lib.fft.rfft(single(x), axis=1) for x in (q, k))
        return like(lib.fft.irfft(a * lib.conj(b), n=length, axis=1) * length**-0.5, q)

    return [Operand(whole), Operand(whole)], call, whole


FAMILIES = (Family("spectrum", 1.5, _draw, _spectrum, ("batch",)),)
