"""Kullback-Leibler divergences, by a registry of pairs of classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import calor
from calor import linalg, special
from calor.errors import ArgumentError
from calor.tensor.tensor import Tensor
from calor_distributions import (
    combined,
    continuous,
    discrete,
    gamma_family,
    multivariate,
    survival,
)
from calor_distributions.distribution import Distribution

Rule = Callable[[Any, Any], Any]
F = TypeVar("F", bound=Rule)
_RULES: dict[tuple[type, type], Rule] = {}


def register_kl(p: type[Distribution], q: type[Distribution]) -> Callable[[F], F]:
    """Register the divergence of two classes, and of their subclasses without one of their own.

    Parameters
    ----------
    p : type
        The class of the first distribution.
    q : type
        The class of the second.

    Returns
    -------
    callable
        A decorator of a function of two distributions.

    Examples
    --------
    >>> import calor
    >>> from calor.distributions import Normal, Uniform, kl_divergence, register_kl
    >>> @register_kl(Uniform, Normal)
    ... def divergence(p, q):
    ...     square = (p.mean - q.mean) ** 2 + p.variance
    ...     density = q.entropy() - 0.5 + square / q.variance * 0.5
    ...     return density - p.entropy()
    >>> round(kl_divergence(Uniform(0.0, 1.0), Normal(0.0, 1.0)).item(), 4)
    1.0856
    """

    def register(function: F) -> F:
        _RULES[p, q] = function
        return function

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return the Kullback-Leibler divergence E log(p / q) of two distributions.

    Parameters
    ----------
    p : Distribution
        The distribution that the mean is taken over.
    q : Distribution
        The other.

    Returns
    -------
    Tensor
        The broadcast batch shape.

    Raises
    ------
    ArgumentError
        If no divergence of the two classes is registered.

    Examples
    --------
    >>> import calor
    >>> from calor.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(1.0, 1.0), Normal(0.0, 1.0)).item()
    0.5
    """
    for first in type(p).__mro__:
        for second in type(q).__mro__:
            rule = _RULES.get((first, second))
            if rule is not None:
                made: Tensor = rule(p, q)
                return made
    raise ArgumentError(
        f"no divergence of {type(p).__name__} and {type(q).__name__}; register one with "
        f"calor.distributions.register_kl"
    )


@register_kl(continuous.Normal, continuous.Normal)
@register_kl(continuous.LogNormal, continuous.LogNormal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale) ** 2
    far = ((p.loc - q.loc) / q.scale) ** 2
    return (ratio + far - 1 - calor.log(ratio)) * 0.5


@register_kl(continuous.HalfNormal, continuous.HalfNormal)
def _half_normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale) ** 2
    return (ratio - 1 - calor.log(ratio)) * 0.5


@register_kl(continuous.Laplace, continuous.Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio, far = p.scale / q.scale, calor.abs(p.loc - q.loc)
    return ratio * calor.exp(-far / p.scale) + far / q.scale - calor.log(ratio) - 1


@register_kl(continuous.Cauchy, continuous.Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    sums = (p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2
    return calor.log(sums) - calor.log(p.scale * q.scale * 4)


@register_kl(continuous.HalfCauchy, continuous.HalfCauchy)
def _half_cauchy(p: Any, q: Any) -> Any:
    return _cauchy(p._base, q._base)


@register_kl(continuous.Gumbel, continuous.Gumbel)
def _gumbel(p: Any, q: Any) -> Any:
    ratio, far = p.scale / q.scale, (q.loc - p.loc) / q.scale
    made = calor.exp(far + calor.lgamma(ratio + 1)) - 1 - calor.log(ratio)
    return made + ratio * continuous.EULER - continuous.EULER - far


@register_kl(continuous.Uniform, continuous.Uniform)
def _uniform(p: Any, q: Any) -> Any:
    made = calor.log((q.high - q.low) / (p.high - p.low))
    outside = calor.logical_or(q.low > p.low, q.high < p.high)
    return calor.where(outside, math.inf, made)


@register_kl(survival.Exponential, survival.Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return ratio - 1 - calor.log(ratio)


@register_kl(survival.Pareto, survival.Pareto)
def _pareto(p: Any, q: Any) -> Any:
    ratio = q.alpha / p.alpha
    made = q.alpha * calor.log(p.scale / q.scale) - calor.log(ratio) + ratio - 1
    return calor.where(p.scale < q.scale, math.inf, made)


@register_kl(gamma_family.Gamma, gamma_family.Gamma)
@register_kl(gamma_family.InverseGamma, gamma_family.InverseGamma)
def _gamma(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    made = b * calor.log(p.rate / q.rate) + calor.lgamma(b) - calor.lgamma(a)
    return made + (a - b) * calor.digamma(a) + (q.rate - p.rate) * (a / p.rate)


@register_kl(survival.Exponential, gamma_family.Gamma)
def _exponential_gamma(p: Any, q: Any) -> Any:
    return _gamma(gamma_family.Gamma(calor.ones_like(p.rate), p.rate), q)


@register_kl(gamma_family.Gamma, survival.Exponential)
def _gamma_exponential(p: Any, q: Any) -> Any:
    return _gamma(p, gamma_family.Gamma(calor.ones_like(q.rate), q.rate))


@register_kl(gamma_family.Beta, gamma_family.Beta)
def _beta(p: Any, q: Any) -> Any:
    a, b = p.concentration1, p.concentration0
    c, d = q.concentration1, q.concentration0
    made = special.betaln(c, d) - special.betaln(a, b)
    made = made + (a - c) * calor.digamma(a) + (b - d) * calor.digamma(b)
    return made + (c + d - a - b) * calor.digamma(a + b)


@register_kl(gamma_family.Dirichlet, gamma_family.Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    total = calor.sum(a, axis=-1, keepdims=True)
    made = calor.sum((a - b) * (calor.digamma(a) - calor.digamma(total)), axis=-1)
    return made + q._log_beta() - p._log_beta()


def _cross(p: Any, q: Any) -> Any:
    """Return p log(p / q) of tensors, with 0 where p is 0."""
    return -special.entr(p) - special.xlogy(p, q)


@register_kl(discrete.Bernoulli, discrete.Bernoulli)
@register_kl(discrete.Geometric, discrete.Geometric)
def _odds(p: Any, q: Any) -> Any:
    chance = p.probs
    made = p._weighted(chance, 1 - chance) - q._weighted(chance, 1 - chance)
    return made / chance if isinstance(p, discrete.Geometric) else made


@register_kl(discrete.Binomial, discrete.Binomial)
def _binomial(p: Any, q: Any) -> Any:
    made = _odds(p, q) * p.total_count
    made = calor.where(p.total_count < q.total_count, math.nan, made)
    return calor.where(p.total_count > q.total_count, math.inf, made)


@register_kl(discrete.Poisson, discrete.Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return _cross(p.rate, q.rate) - (p.rate - q.rate)


@register_kl(discrete.Categorical, discrete.Categorical)
@register_kl(discrete.OneHotCategorical, discrete.OneHotCategorical)
def _categorical(p: Any, q: Any) -> Any:
    weights = p.probs
    gaps = p.logits - q.logits
    return calor.sum(calor.where(weights == 0, 0.0, weights * gaps), axis=-1)


@register_kl(multivariate.MultivariateNormal, multivariate.MultivariateNormal)
def _multivariate(p: Any, q: Any) -> Any:
    turned = linalg.solve_triangular(q.scale_tril, p.scale_tril, lower=True)
    far = linalg.solve_triangular(q.scale_tril, (q.loc - p.loc)[..., None], lower=True)
    squares = calor.sum(turned * turned, axis=(-2, -1)) + calor.sum(far * far, axis=(-2, -1))
    return (squares - p.event_shape[0]) * 0.5 + q._half_log_det() - p._half_log_det()


@register_kl(combined.Independent, combined.Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise ArgumentError(
            f"kl_divergence: {p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims} "
            f"independent axes differ"
        )
    return combined._summed(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(combined.TransformedDistribution, combined.TransformedDistribution)
def _transformed(p: Any, q: Any) -> Any:
    if [type(t) for t in p.transforms] != [type(t) for t in q.transforms] or any(
        vars(a) != vars(b) for a, b in zip(p.transforms, q.transforms, strict=True)
    ):
        raise ArgumentError("kl_divergence: the maps of the two distributions differ")
    return kl_divergence(p.base_dist, q.base_dist)
