"""Rows of the Fourier transforms as they are called, against sums of products in long double."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor import fft
from calor.dtypes import DType, complex64, complex128, float16, float32, float64, int32

from ..domains import normal
from ..language import COMPLEX, Array, Case, Tolerance, case, exact
from .spectral import _fft, _transformed

NEAR = Tolerance(16.0, 16.0, lambda *operands, **attributes: 16.0)
REAL = (int32, float16, float32, float64)


def _complex_type(dtype: DType) -> tuple[DType]:
    return (complex128 if dtype in (float64, complex128) else complex64,)


def _real_type(dtype: DType) -> tuple[DType]:
    return (float64 if dtype in (float64, complex128) else float32,)


def _fitted(x: Array, sizes: Any, axes: Any) -> Array:
    for n, axis in zip(sizes, axes, strict=True):
        x = np.moveaxis(np.asarray(x), axis, -1)[..., :n]
        x = np.concatenate([x, np.zeros((*x.shape[:-1], n - x.shape[-1]))], -1)
        x = np.moveaxis(x, -1, axis)
    return x


def _factor(sizes: Any, norm: str, forward: bool) -> Any:
    count = np.longdouble(np.prod(sizes))
    if norm == "ortho":
        return 1 / np.sqrt(count)
    return 1 / count if (norm == "forward") is forward else np.longdouble(1)


def _places(x: Array, s: Any, axes: Any) -> tuple[Any, Any]:
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    axes = [a % x.ndim for a in axes]
    return ([x.shape[a] for a in axes] if s is None else list(s)), axes


def _whole(forward: bool) -> Any:
    def oracle(x: Array, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Array:
        sizes, axes = _places(x, s, axes)
        made = _transformed(_fitted(x, sizes, axes), axes, -1 if forward else 1)
        return np.asarray(made * _factor(sizes, norm, forward))

    return oracle


def _halved(x: Array, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Array:
    sizes, axes = _places(x, s, axes)
    made = _fft(_fitted(x, sizes, axes), kind="r2c", axes=axes, length=sizes[-1])
    return np.asarray(made * _factor(sizes, norm, True))


def _doubled(x: Array, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Array:
    sizes, axes = _places(x, s, axes)
    if s is None:
        sizes[-1] = 2 * (sizes[-1] - 1)
    bins = [*sizes[:-1], sizes[-1] // 2 + 1]
    made = _fft(_fitted(x, bins, axes).astype(np.clongdouble), kind="c2r", axes=axes,
                length=sizes[-1])  # fmt: skip
    return np.asarray(made * _factor(sizes, norm, False))


def _one_axis(oracle: Any) -> Any:
    def of_one(x: Array, *, n: Any = None, axis: int = -1, norm: str = "backward") -> Array:
        return oracle(x, s=None if n is None else [n], axes=[axis], norm=norm)  # type: ignore[no-any-return]

    return of_one


_OPPOSITE = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _hermitian(x: Array, *, norm: str = "backward", **options: Any) -> Array:
    return np.asarray(_one_axis(_doubled)(np.conj(x), norm=_OPPOSITE[norm], **options))


def _of_hermitian(x: Array, *, norm: str = "backward", **options: Any) -> Array:
    return np.asarray(np.conj(_one_axis(_halved)(x, norm=_OPPOSITE[norm], **options)))


ONE: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((5,), {}), ((4,), {"norm": "ortho"}), ((2, 4), {"norm": "forward"}), ((2, 3, 2), {"axis": 1}),
    ((4,), {"n": 6}), ((2, 6), {"n": 3, "norm": "ortho"}), ((5, 2), {"n": 4, "axis": 0}),
    ((0, 3), {}), ((1,), {"n": 2}),
]  # fmt: skip
SEVERAL: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((3, 4), {}), ((2, 3, 4), {"axes": (0, 2), "norm": "forward"}),
    ((2, 3, 4), {"s": (4, 3), "axes": (2, 0), "norm": "ortho"}), ((3, 2, 4), {"s": (2, 5)}),
    ((2, 4), {"axes": (-1,)}),
]  # fmt: skip


def _rows(
    function: Any, oracle: Any, problems: Any, kinds: tuple[DType, ...], out: Any
) -> list[Case]:
    return [
        case(function, normal(*shape), oracle=oracle, dtypes=kinds, tol=NEAR, out=out,
             name=f"{shape}-{options}", **options)
        for shape, options in problems
    ]  # fmt: skip


CASES: list[Case] = [
    *_rows(fft.fft, _one_axis(_whole(True)), ONE, (*REAL, *COMPLEX), _complex_type),
    *_rows(fft.ifft, _one_axis(_whole(False)), ONE, (*REAL, *COMPLEX), _complex_type),
    *_rows(fft.fftn, _whole(True), SEVERAL, COMPLEX, _complex_type),
    *_rows(fft.ifftn, _whole(False), SEVERAL, COMPLEX, _complex_type),
    *_rows(fft.rfft, _one_axis(_halved), ONE, REAL, _complex_type),
    *_rows(fft.rfftn, _halved, SEVERAL, REAL, _complex_type),
    *_rows(fft.irfft, _one_axis(_doubled), ONE, COMPLEX, _real_type),
    *_rows(fft.irfftn, _doubled, SEVERAL, COMPLEX, _real_type),
    *_rows(fft.hfft, _hermitian, ONE, (float32, *COMPLEX), _real_type),
    *_rows(fft.ihfft, _of_hermitian, ONE, REAL, _complex_type),
    *(
        case(function, normal(3, 4, 5), oracle=oracle, dtypes=(int32, float32, *COMPLEX),
             tol=exact, name=str(axes), axes=axes)
        for function, oracle in [(fft.fftshift, np.fft.fftshift), (fft.ifftshift, np.fft.ifftshift)]
        for axes in (None, 1, (0, -1))
    ),
]  # fmt: skip
