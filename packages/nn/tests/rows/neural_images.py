"""Rows of the functions that work on spatial axes; oracles go from place to place."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor_conformance.rows.domains import between, normal, well_separated
from calor_conformance.rows.language import Array, Case
from calor_conformance.rows.tables import convolution
from calor_nn import functional

from .neural import row

SIZES = ((6,), (5, 4), (4, 3, 3))


def _sizes(value: Any, rank: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, tuple) else (value,) * rank


def _conv_oracle(
    x: Array, w: Array, b: Array, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Array:  # fmt: skip
    rank = x.ndim - 2
    step, apart = _sizes(stride, rank), _sizes(dilation, rank)
    if padding == "same":
        reach = [d * (k - 1) for d, k in zip(apart, w.shape[2:], strict=True)]
        pairs = tuple((n // 2, n - n // 2) for n in reach)
    else:
        pairs = tuple((p, p) for p in _sizes(0 if padding == "valid" else padding, rank))
    made = convolution.conv(x, w, stride=step, padding=pairs, dilation=apart, groups=groups)
    return made + b.reshape(-1, *(1,) * rank)


def _transposed_oracle(
    x: Array, w: Array, b: Array, *, stride: int = 1, padding: int = 0, output_padding: int = 0,
    groups: int = 1, dilation: int = 1,
) -> Array:  # fmt: skip
    """Each place of the input adds its multiple of the kernel to the output."""
    sizes = [
        (n - 1) * stride - 2 * padding + dilation * (k - 1) + output_padding + 1
        for n, k in zip(x.shape[2:], w.shape[2:], strict=True)
    ]
    outputs = w.shape[1] * groups
    made = np.zeros((x.shape[0], outputs, *sizes), x.dtype)
    per_group = x.shape[1] // groups
    for c in range(x.shape[1]):
        first = c // per_group * w.shape[1]
        for at in np.ndindex(*x.shape[2:]):
            for k in np.ndindex(*w.shape[2:]):
                place = tuple(
                    a * stride + i * dilation - padding for a, i in zip(at, k, strict=True)
                )
                if all(0 <= p < n for p, n in zip(place, sizes, strict=True)):
                    for o in range(w.shape[1]):
                        made[(slice(None), first + o, *place)] += (
                            x[(slice(None), c, *at)] * w[(c, o, *k)]
                        )
    return made + b.reshape(-1, *(1,) * (x.ndim - 2))


_CONV = (functional.conv1d, functional.conv2d, functional.conv3d)
_TRANSPOSED = (
    functional.conv_transpose1d,
    functional.conv_transpose2d,
    functional.conv_transpose3d,
)
CONVOLUTIONS: list[Case] = [
    *(
        row(_CONV[len(s) - 1], normal(2, 4, *s), normal(4, 4 // more.get("groups", 1), *kernel),
            normal(4), oracle=_conv_oracle, name=str(more), scale=200.0, **more)
        for s, kernel, more in [
            (SIZES[0], (3,), {}),
            (SIZES[0], (2,), {"padding": "same"}),
            (SIZES[0], (3,), {"stride": 2, "padding": 1, "groups": 2}),
            (SIZES[1], (3, 2), {"padding": "valid"}),
            (SIZES[1], (2, 2), {"stride": (2, 1), "padding": (1, 0), "groups": 4}),
            (SIZES[1], (2, 2), {"padding": "same", "dilation": 2}),
        ]
    ),
    row(functional.conv3d, normal(1, 1, *SIZES[2]), normal(2, 1, 2, 2, 2), normal(2),
        oracle=_conv_oracle, padding=1, stride=2, scale=200.0),
    *(
        row(_TRANSPOSED[len(s) - 1], normal(1, 2, *s),
            normal(2, 4 // more.get("groups", 1), *kernel), normal(4), scale=200.0,
            oracle=_transposed_oracle, name=str(more), **more)
        for s, kernel, more in [
            ((4,), (3,), {}),
            ((4,), (3,), {"stride": 2, "padding": 1, "output_padding": 1}),
            ((4,), (2,), {"dilation": 3, "output_padding": 2, "padding": 1}),
            ((3, 2), (2, 3), {"stride": 2, "groups": 2}),
            ((2, 2, 1), (2, 1, 2), {"stride": 2}),
        ]
    ),
]  # fmt: skip


def _windows(n: int, k: int, s: int, p: int, d: int, ceil_mode: bool) -> list[list[int]]:
    """The places of each window on one axis; those in the padding are left in."""
    found, start = [], -p
    while True:
        inside = [start + i * d for i in range(k)]
        if inside[-1] >= n + p and not (ceil_mode and start < n and _partly(found, inside, n + p)):
            return found
        found.append(inside)
        start += s


def _partly(found: list[list[int]], inside: list[int], end: int) -> bool:
    """A last window reaches beyond the end by less than a step from the one before."""
    return not found or found[-1][-1] < end - 1


def _pooled(x: Array, reduce: Any, lists: list[list[list[int]]]) -> Array:
    rank = len(lists)
    lead = x.shape[: x.ndim - rank]
    made = np.zeros((*lead, *(len(w) for w in lists)), x.dtype)
    for at in np.ndindex(*(len(w) for w in lists)):
        places = [w[i] for w, i in zip(lists, at, strict=True)]
        made[(..., *at)] = reduce(x, places)
    return made


def _take(x: Array, places: list[list[int]]) -> Array:
    """The elements of a window that lie on x, along one last axis."""
    rank = len(places)
    kept = [[p for p in w if 0 <= p < n] for w, n in zip(places, x.shape[-rank:], strict=True)]
    return np.asarray(x[(..., *np.ix_(*kept))].reshape(*x.shape[: x.ndim - rank], -1))


def _pool_lists(x: Array, kernel: int, a: dict[str, Any]) -> list[list[list[int]]]:
    step, pad = a.get("stride") or kernel, a.get("padding", 0)
    apart, ceil = a.get("dilation", 1), a.get("ceil_mode", False)
    return [_windows(n, kernel, step, pad, apart, ceil) for n in x.shape[2:]]


def _max_oracle(x: Array, *, kernel_size: int, **a: Any) -> Array:
    lists = _pool_lists(x, kernel_size, a)
    return _pooled(x, lambda t, w: _take(t, w).max(-1), lists)


def _avg_oracle(
    x: Array, *, kernel_size: int, count_include_pad: bool = True, divisor_override: Any = None,
    **a: Any,
) -> Array:  # fmt: skip
    pad = a.get("padding", 0)

    def reduce(t: Array, places: list[list[int]]) -> Array:
        inside = _take(t, places)
        count: float = inside.shape[-1]
        if count_include_pad:
            ends = [n + pad for n in t.shape[2:]]
            count = np.prod([sum(p < e for p in w) for w, e in zip(places, ends, strict=True)])
        return np.asarray(inside.sum(-1) / (divisor_override or count))

    return _pooled(x, reduce, _pool_lists(x, kernel_size, a))


def _norm_oracle(x: Array, *, norm_type: float, kernel_size: int, ceil_mode: bool) -> Array:
    """PyTorch's: the mean power of the elements that lie on x, times a whole window's number."""
    whole = kernel_size ** (x.ndim - 2)

    def reduce(t: Array, places: list[list[int]]) -> Array:
        powers = _take(t, places) ** norm_type
        return np.asarray((powers.mean(-1) * whole) ** (1 / norm_type))

    return _pooled(x, reduce, _pool_lists(x, kernel_size, {"ceil_mode": ceil_mode}))


def _adaptive_lists(x: Array, sizes: Any) -> list[list[list[int]]]:
    wanted = sizes if isinstance(sizes, tuple) else (sizes,) * (x.ndim - 2)
    return [
        [list(range(i * n // m, -(-(i + 1) * n // m))) for i in range(m)]
        for n, m in zip(x.shape[2:], (m or n for m, n in zip(wanted, x.shape[2:], strict=True)),
                        strict=True)
    ]  # fmt: skip


def _pool(kind: str, rank: int) -> Any:
    return getattr(functional, f"{kind}_pool{rank}d")


_POOLS: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 2, "stride": 2, "ceil_mode": True},
    {"kernel_size": 3, "stride": 3, "padding": 1, "ceil_mode": True},
]
POOLS: list[Case] = [
    *(
        row(_pool("max", len(s)), well_separated(2, 2, *s), oracle=_max_oracle, name=str(a),
            scale=50.0, **a)
        for s in SIZES
        for a in [*_POOLS, {"kernel_size": 2, "stride": 1, "dilation": 2, "padding": 1}]
    ),
    *(
        row(_pool("avg", len(s)), normal(2, 2, *s), oracle=_avg_oracle, scale=10.0,
            count_include_pad=padded, name=f"{a} {padded}", **a)
        for s in SIZES
        for a in _POOLS
        for padded in (True, False)
    ),
    row(functional.avg_pool2d, normal(1, 2, 4, 4), oracle=_avg_oracle, kernel_size=2,
        divisor_override=3, name="divisor", scale=10.0),
    *(
        row(_pool("lp", len(s)), between(0.2, 2.0, 1, 2, *s), oracle=_norm_oracle, norm_type=3.0,
            kernel_size=2, ceil_mode=ceil, name=str(ceil), scale=10.0)
        for s in SIZES[:2]
        for ceil in (False, True)
    ),
    *(
        row(_pool(f"adaptive_{kind}", len(s)), well_separated(1, 2, *s), output_size=m, scale=50.0,
            name=str(m), oracle=lambda x, *, output_size, reduce=reduce: _pooled(
                x, lambda t, w: reduce(_take(t, w)), _adaptive_lists(x, output_size)))
        for kind, reduce in (("avg", lambda t: t.mean(-1)), ("max", lambda t: t.max(-1)))
        for s, m in [((6,), 4), ((6,), 3), ((5, 4), (2, 3)), ((5, 4), (None, 1)), ((4, 3, 3), 2)]
    ),
]  # fmt: skip


def _sources(n: int, m: int, scale: float, mode: str, align: bool) -> list[dict[int, float]]:
    """For each new place the weights of the old ones."""
    found = []
    for i in range(m):
        if mode.startswith("nearest"):
            place = (i + (0.5 if mode == "nearest-exact" else 0.0)) * scale
            found.append({min(int(place + 1e-6), n - 1): 1.0})
            continue
        if align:
            at = i * (n - 1) / (m - 1) if m > 1 else 0.0
        else:
            at = (i + 0.5) * scale - 0.5
        if mode != "bicubic":
            at = max(at, 0.0)
        first, weights = int(np.floor(at)), {}
        reach = range(-1, 3) if mode == "bicubic" else range(2)
        for offset in reach:
            d = abs(at - first - offset)
            w = max(1 - d, 0.0) if mode != "bicubic" else _keys(d)
            place = min(max(first + offset, 0), n - 1)
            weights[place] = weights.get(place, 0.0) + w
        found.append(weights)
    return found


def _keys(d: float, a: float = -0.75) -> float:
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * (d**3 - 5 * d**2 + 8 * d - 4) if d < 2 else 0.0


def _resized(
    x: Array, *, size: Any = None, scale_factor: Any = None, mode: str, align_corners: bool = False
) -> Array:
    if mode == "area":
        return _pooled(x, lambda t, w: _take(t, w).mean(-1), _adaptive_lists(x, size))
    for axis in range(2, x.ndim):
        n = x.shape[axis]
        m = int(n * scale_factor) if size is None else _sizes(size, x.ndim - 2)[axis - 2]
        scale = n / m if scale_factor is None else 1 / scale_factor
        rows = _sources(n, m, scale, mode, align_corners)
        parts = [sum(w * np.take(x, i, axis) for i, w in r.items()) for r in rows]
        x = np.stack(parts, axis)
    return x


_LINEAR = ("linear", "bilinear", "trilinear")
RESIZING: list[Case] = [
    *(
        row(functional.interpolate, normal(1, 2, *s), oracle=_resized, mode=mode,
            align_corners=align, name=f"{mode} {align} {len(s)}d {list(how.values())}",
            scale=10.0, **how)
        for s in SIZES
        for mode, align in [
            ("nearest", False), ("nearest-exact", False), (_LINEAR[len(s) - 1], False),
            (_LINEAR[len(s) - 1], True), *([("bicubic", False), ("bicubic", True)] * (len(s) == 2)),
        ]
        for how in ({"size": tuple(2 * n for n in s)}, {"size": 3}, {"scale_factor": 1.7})
    ),
    row(functional.interpolate, normal(1, 2, 5, 4), oracle=_resized, mode="area", size=(2, 3),
        scale=10.0, name="area"),
]  # fmt: skip


def _places(x: Array, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    """Yield (row of the column, number of the patch, place on the image)."""
    rows = [
        _windows(n, k, s, p, d, False)
        for n, k, s, p, d in zip(x.shape[2:], kernel, stride, padding, dilation, strict=True)
    ]
    patches = list(np.ndindex(len(rows[0]), len(rows[1])))
    for c in range(x.shape[1]):
        for number, k in enumerate(np.ndindex(*kernel)):
            for patch, (i, j) in enumerate(patches):
                yield c * kernel[0] * kernel[1] + number, patch, (c, rows[0][i][k[0]],
                                                                  rows[1][j][k[1]])  # fmt: skip


def _columns(x: Array, *, kernel_size: Any, stride: Any, padding: Any, dilation: Any) -> Array:
    found = list(_places(x, kernel_size, stride, padding, dilation))
    made = np.zeros((x.shape[0], found[-1][0] + 1, found[-1][1] + 1), x.dtype)
    for r, p, (c, i, j) in found:
        if 0 <= i < x.shape[2] and 0 <= j < x.shape[3]:
            made[:, r, p] = x[:, c, i, j]
    return made


def _image(
    x: Array, *, output_size: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any
) -> Array:
    channels = x.shape[1] // (kernel_size[0] * kernel_size[1])
    made = np.zeros((x.shape[0], channels, *output_size), x.dtype)
    for r, p, (c, i, j) in _places(made, kernel_size, stride, padding, dilation):
        if 0 <= i < output_size[0] and 0 <= j < output_size[1]:
            made[:, c, i, j] += x[:, r, p]
    return made


def _shuffled(x: Array, *, factor: int) -> Array:
    n, c, h, w = x.shape
    made = np.zeros((n, c // factor**2, h * factor, w * factor), x.dtype)
    for k in np.ndindex(*made.shape[1:]):
        source = (k[0] * factor + k[1] % factor) * factor + k[2] % factor
        made[:, k[0], k[1], k[2]] = x[:, source, k[1] // factor, k[2] // factor]
    return made


def _there_and_back(x: Any, *, factor: int) -> Any:
    return functional.pixel_unshuffle(functional.pixel_shuffle(x, factor), factor)


PATCHES: list[Case] = [
    *(
        row(functional.im2col, normal(2, 2, 5, 4), oracle=_columns, name=str(number), **a)
        for number, a in enumerate([
            {"kernel_size": (2, 2), "stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)},
            {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)},
        ])
    ),
    row(functional.col2im, normal(2, 12, 12), oracle=_image, output_size=(5, 4), kernel_size=(3, 2),
        stride=(1, 1), padding=(0, 1), dilation=(1, 2), scale=20.0),
    row(lambda x, *, factor: functional.pixel_shuffle(x, factor), normal(1, 8, 2, 3),
        oracle=_shuffled, factor=2, name="pixel_shuffle"),
    row(_there_and_back, normal(1, 8, 2, 3), oracle=lambda x, *, factor: x, factor=2,
        name="pixel_unshuffle"),
]  # fmt: skip

CASES: list[Case] = [*CONVOLUTIONS, *POOLS, *RESIZING, *PATCHES]
