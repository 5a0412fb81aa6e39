"""Reductions, scans and statistics of OpInfo, also those with masks."""

from __future__ import annotations

from typing import Any

from .names import Table, c, linalg


def _reduce(name: str, **given: Any) -> Any:
    def call(input: Any, dim: Any = None, keepdim: bool = False, **more: Any) -> Any:
        axis = tuple(dim) if isinstance(dim, (list, tuple)) else dim
        if axis == ():
            axis = None
        return getattr(c, name)(input, axis=axis, keepdims=keepdim, **given, **more)

    return call


def _variance(name: str) -> Any:
    def call(input: Any, *args: Any, dim: Any = None, unbiased: bool = True,
             correction: Any = None, keepdim: bool = False) -> Any:  # fmt: skip
        given = list(args)
        if given and isinstance(given[0], bool):
            unbiased = given.pop(0)
        if given:
            dim = given.pop(0)
        if given:
            unbiased = given.pop(0)
        if given:
            keepdim = given.pop(0)
        by = (1 if unbiased else 0) if correction is None else correction
        axis = tuple(dim) if isinstance(dim, (list, tuple)) else dim
        axis = None if axis == () else axis
        made = [getattr(c, n)(input, axis=axis, correction=by, keepdims=keepdim)
                for n in name.split("_")]  # fmt: skip
        return made[0] if len(made) == 1 else tuple(made)

    return call


def _with_mean(name: str) -> Any:
    spread = _variance(name)

    def call(input: Any, *args: Any, **more: Any) -> Any:
        dim = more.get("dim", next((a for a in args if not isinstance(a, bool)), None))
        axis = tuple(dim) if isinstance(dim, (list, tuple)) else dim
        axis = None if axis == () else axis
        keep = more.get("keepdim", len(args) > 2 and args[2])
        return spread(input, *args, **more), c.mean(input, axis=axis, keepdims=keep)

    return call


def _with_places(values: str, places: str) -> Any:
    def call(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
        made = getattr(c, values)(input, axis=dim, keepdims=keepdim)
        if dim is None:
            return made
        return made, getattr(c, places)(input, axis=dim, keepdims=keepdim)

    return call


def _pair(name: str) -> Any:
    def call(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
        found = getattr(c, name)(input, axis=dim, keepdims=keepdim)
        return found if dim is None else (found.values, found.indices)

    return call


def _quantile(name: str) -> Any:
    return lambda input, q, dim=None, keepdim=False, *, interpolation="linear": getattr(c, name)(
        input, q, axis=dim, keepdims=keepdim, method=interpolation
    )


def _cumulative_extreme(name: str) -> Any:
    return lambda input, dim: tuple(
        getattr(c, f"cumulative_{part}{name}")(input, axis=dim) for part in ("", "arg")
    )


def _norm(input: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    if dtype is not None:
        input = input.astype(dtype)
    axis = tuple(dim) if isinstance(dim, (list, tuple)) else dim
    axis = None if axis == () else axis
    if p == "nuc":
        return (
            linalg.matrix_norm(input, ord="nuc", keepdims=keepdim)
            if axis is None
            else (linalg.norm(input, ord="nuc", axis=axis, keepdims=keepdim))
        )
    return linalg.vector_norm(
        input, axis=axis, keepdims=keepdim, ord=2 if p in (None, "fro") else p
    )


def _linalg_norm(input: Any, ord: Any = None, dim: Any = None, keepdim: bool = False,
                 dtype: Any = None) -> Any:  # fmt: skip
    if dtype is not None:
        input = input.astype(dtype)
    axis = tuple(dim) if isinstance(dim, (list, tuple)) else dim
    return linalg.norm(input, ord=ord, axis=axis, keepdims=keepdim)


# What a masked reduction puts where the mask is False, by the name of the reduction.
_NEUTRAL = {"sum": 0, "prod": 1, "cumulative_sum": 0, "cumulative_prod": 1}


def _filled(x: Any, mask: Any, value: Any) -> Any:
    return x if mask is None else c.where(c.broadcast_to(mask, x.shape), x, value)


def _masked(name: str) -> Any:
    def call(input: Any, dim: Any = None, *, mask: Any = None, keepdim: bool = False) -> Any:
        neutral: Any = _NEUTRAL.get(name)
        if neutral is None:
            neutral = _least(input) if name in ("max", "argmax") else _most(input)
        return _reduce(name)(_filled(input, mask, neutral), dim, keepdim)

    return call


def _least(x: Any) -> Any:
    kind = x.dtype
    if kind is c.bool_:
        return False
    return -float("inf") if c.isdtype(kind, "real floating") else c.iinfo(kind).min


def _most(x: Any) -> Any:
    kind = x.dtype
    if kind is c.bool_:
        return True
    return float("inf") if c.isdtype(kind, "real floating") else c.iinfo(kind).max


def _masked_scan(name: str) -> Any:
    return lambda input, dim, *, mask=None: getattr(c, name)(
        _filled(input, mask, _NEUTRAL[name]), axis=dim
    )


def _counts(input: Any, dim: Any, mask: Any, keepdim: bool) -> Any:
    ones = c.ones(input.shape, dtype=c.int64)
    return _reduce("sum")(_filled(ones, mask, 0), dim, keepdim)


def _masked_mean(input: Any, dim: Any = None, *, mask: Any = None, keepdim: bool = False) -> Any:
    total = _reduce("sum")(_filled(input, mask, 0), dim, keepdim)
    return total / _counts(input, dim, mask, keepdim)


def _masked_spread(root: bool) -> Any:
    def call(input: Any, dim: Any = None, unbiased: Any = None, *, correction: Any = None,
             mask: Any = None, keepdim: bool = False) -> Any:  # fmt: skip
        by = (1 if unbiased in (None, True) else 0) if correction is None else correction
        count = _counts(input, dim, mask, True)
        mean = _reduce("sum")(_filled(input, mask, 0), dim, True) / count
        off = _filled(c.abs(input - mean), mask, 0)
        total = _reduce("sum")(off * off, dim, keepdim)
        left = _counts(input, dim, mask, keepdim) - by
        made = total / c.maximum(left, 0)
        return c.sqrt(made) if root else made

    return call


def _masked_norm(input: Any, ord: Any, dim: Any = None, *, mask: Any = None,
                 keepdim: bool = False) -> Any:  # fmt: skip
    neutral = float("inf") if ord == -float("inf") else 0
    return _norm(_filled(input, mask, neutral), ord, dim, keepdim)


def _masked_soft(name: str, sign: int = 1) -> Any:
    def call(input: Any, dim: int, *, mask: Any = None) -> Any:
        return getattr(c, name)(_filled(input * sign, mask, -float("inf")), axis=dim)

    return call


def _masked_normalize(input: Any, ord: Any, dim: int, *, mask: Any = None,
                      eps: float = 1e-12) -> Any:  # fmt: skip
    filled = _filled(input, mask, 0)
    return filled / c.maximum(_masked_norm(input, ord, dim, mask=mask, keepdim=True), eps)


def _histogram(input: Any, bins: Any, *, range: Any = None, weight: Any = None,
               density: bool = False) -> Any:  # fmt: skip
    return c.histogram(input, bins, range=range, weights=weight, density=density)


def _histogramdd(input: Any, bins: Any, *, range: Any = None, weight: Any = None,
                 density: bool = False) -> Any:  # fmt: skip
    limits = None if range is None else list(zip(range[::2], range[1::2], strict=True))
    input = c.reshape(input, (-1, input.shape[-1]))
    weight = None if weight is None else c.reshape(weight, (-1,))
    return c.histogramdd(input, bins, range=limits, weights=weight, density=density)


def _histc(input: Any, bins: int = 100, min: Any = 0, max: Any = 0) -> Any:
    limits = None if min == max == 0 else (min, max)
    return c.histogram(input, bins, range=limits).counts.astype(input.dtype)


def _std(kind: str) -> Any:
    return _variance(kind)


TABLE: Table = {
    "all": _reduce("all"), "any": _reduce("any"), "amax": _reduce("max"), "amin": _reduce("min"),
    "argmax": _reduce("argmax"), "argmin": _reduce("argmin"),
    "aminmax": lambda input, dim=None, keepdim=False: (
        c.min(input, axis=dim, keepdims=keepdim), c.max(input, axis=dim, keepdims=keepdim)
    ),
    "count_nonzero": _reduce("count_nonzero"),
    "mean": lambda input, dim=None, keepdim=False, dtype=None: _reduce("mean")(
        input if dtype is None else input.astype(dtype), dim, keepdim
    ),
    "nanmean": _reduce("nanmean"), "nansum": _reduce("nansum"),
    "sum": _reduce("sum"), "prod": _reduce("prod"),
    "std": _std("std"), "std/unbiased": _std("std"),
    "var": _std("var"), "var/unbiased": _std("var"),
    "std_mean": _with_mean("std"), "std_mean/unbiased": _with_mean("std"),
    "var_mean": _with_mean("var"), "var_mean/unbiased": _with_mean("var"),
    "max/reduction_with_dim": _with_places("max", "argmax"),
    "max/reduction_no_dim": _with_places("max", "argmax"),
    "min/reduction_with_dim": _with_places("min", "argmin"),
    "min/reduction_no_dim": _with_places("min", "argmin"),
    "median": lambda input, dim=None, keepdim=False: _kth_median(input, dim, keepdim),
    "nanmedian": lambda input, dim=None, keepdim=False: _kth_median(input, dim, keepdim, True),
    "mode": lambda input, dim=-1, keepdim=False: tuple(c.mode(input, axis=dim, keepdims=keepdim)),
    "kthvalue": lambda input, k, dim=-1, keepdim=False: tuple(
        c.kthvalue(input, k, axis=dim, keepdims=keepdim)
    ),
    "quantile": _quantile("quantile"), "nanquantile": _quantile("nanquantile"),
    "cumsum": lambda input, dim, dtype=None: c.cumulative_sum(input, axis=dim, dtype=dtype),
    "cumprod": lambda input, dim, dtype=None: c.cumulative_prod(input, axis=dim, dtype=dtype),
    "cummax": _cumulative_extreme("max"), "cummin": _cumulative_extreme("min"),
    "logcumsumexp": lambda input, dim: c.cumulative_logsumexp(input, axis=dim),
    "logsumexp": lambda input, dim, keepdim=False: _reduce("logsumexp")(input, dim, keepdim),
    "trapz": lambda y, x=None, *, dx=1.0, dim=-1: c.trapezoid(y, x, dx=dx, axis=dim),
    "trapezoid": lambda y, x=None, *, dx=1.0, dim=-1: c.trapezoid(y, x, dx=dx, axis=dim),
    "cumulative_trapezoid": lambda y, x=None, *, dx=1.0, dim=-1: c.cumulative_trapezoid(
        y, x, dx=dx, axis=dim
    ),
    "diff": lambda input, n=1, dim=-1, prepend=None, append=None: c.diff(
        input, axis=dim, n=n, prepend=prepend, append=append
    ),
    "gradient": lambda input, *, spacing=1, dim=None, edge_order=1: c.gradient(
        input, *_spacings(spacing), axis=tuple(dim) if isinstance(dim, list) else dim,
        edge_order=edge_order,
    ),
    "cov": lambda input, *, correction=1, fweights=None, aweights=None: c.cov(
        input, correction=correction, fweights=fweights, aweights=aweights
    ),
    "corrcoef": lambda input: c.corrcoef(input),
    "histogram": _histogram, "histogramdd": _histogramdd, "histc": _histc,
    "bincount": lambda input, weights=None, minlength=0: c.bincount(
        input, weights=weights, minlength=minlength
    ),
    "norm": _norm, "norm/nuc": _norm, "norm/fro": _norm, "norm/inf": _norm,
    "linalg.norm": _linalg_norm, "linalg.norm/subgradients_at_zero": _linalg_norm,
    "linalg.vector_norm": lambda input, ord=2, dim=None, keepdim=False, dtype=None: _norm(
        input, ord, dim, keepdim, dtype
    ),
    "linalg.matrix_norm": lambda input, ord="fro", dim=(-2, -1), keepdim=False, dtype=None:
        linalg.norm(
            input if dtype is None else input.astype(dtype), ord=ord, axis=tuple(dim),
            keepdims=keepdim,
        ),
    "dist": lambda input, other, p=2: linalg.vector_norm(input - other, ord=p),
    "renorm": lambda input, p, dim, maxnorm: _renorm(input, p, dim, maxnorm),
    "sum_to_size": lambda input, *size: _sum_to(input, size),
    "masked.sum": _masked("sum"), "masked.prod": _masked("prod"),
    "masked.amax": _masked("max"), "masked.amin": _masked("min"),
    "masked.argmax": _masked("argmax"), "masked.argmin": _masked("argmin"),
    "masked.logsumexp": lambda input, dim=None, *, keepdim=False, mask=None: _reduce("logsumexp")(
        _filled(input, mask, -float("inf")), dim, keepdim
    ),
    "masked.cumsum": _masked_scan("cumulative_sum"),
    "masked.cumprod": _masked_scan("cumulative_prod"),
    "masked.mean": _masked_mean, "masked.var": _masked_spread(False),
    "masked.std": _masked_spread(True), "masked.norm": _masked_norm,
    "masked.median": lambda input, dim, *, mask=None, keepdim=False: _kth_median(
        _filled(input, mask, float("nan")), dim, keepdim, True
    )[0],
    "masked.softmax": _masked_soft("softmax"), "masked.log_softmax": _masked_soft("log_softmax"),
    "masked.softmin": _masked_soft("softmax", -1), "masked.normalize": _masked_normalize,
}  # fmt: skip


def _kth_median(input: Any, dim: Any, keepdim: bool, nan: bool = False) -> Any:
    if dim is None:
        return getattr(c, "nanquantile" if nan else "quantile")(input, 0.5, method="lower")
    find = c.nanargmedian if nan else c.argmedian
    places = find(input, axis=dim, keepdims=keepdim)
    if not input.ndim:
        return input, places
    kept = places if keepdim else c.expand_dims(places, axis=dim)
    values = c.take_along_axis(input, kept, axis=dim)
    return values if keepdim else c.squeeze(values, axis=dim), places


def _spacings(spacing: Any) -> Any:
    if spacing is None:
        return ()
    return tuple(spacing) if isinstance(spacing, (list, tuple)) else (spacing,)


def _renorm(input: Any, p: Any, dim: int, maxnorm: float) -> Any:
    axes = tuple(a for a in range(input.ndim) if a != dim % input.ndim)
    length = linalg.vector_norm(input, axis=axes, keepdims=True, ord=p)
    return c.where(length > maxnorm, input * (maxnorm / (length + 1e-7)), input)


def _sum_to(input: Any, size: Any) -> Any:
    shape = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else tuple(size)
    lead = input.ndim - len(shape)
    axes = tuple(
        a for a in range(input.ndim)
        if a < lead or (shape[a - lead] == 1 and input.shape[a] != 1)
    )  # fmt: skip
    return c.reshape(c.sum(input, axis=axes), shape) if axes else input
