"""The language of distributions: a density and its support, from which all else is computed.

Requirements: a density is written here, in float64 and without calor; moments, entropies,
distribution functions and divergences are integrals or sums of it, so a formula of the package has
nothing in common with what it is compared with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np

from ..functions.drawing import Rng
from ..language import Array
from .quadrature import integral

Parameters = Sequence[Any]
lgamma: Final = np.vectorize(math.lgamma, otypes=[float])


def xlogy(x: Any, y: Any) -> Any:
    """Return x log y, which is 0 where x is 0."""
    with np.errstate(all="ignore"):
        return np.where(np.asarray(x) == 0, 0.0, x * np.log(y))


def betaln(a: Any, b: Any) -> Any:
    """Return the logarithm of the beta function."""
    return lgamma(a) + lgamma(b) - lgamma(a + b)


@dataclass(frozen=True)
class Density:
    """A family of distributions of one number.

    Parameters
    ----------
    name : str
        The class in its package.
    draw : callable
        Draws one set of parameters, as floats.
    log : callable
        The logarithm of the density or probability of places in the support at parameters.
    support : callable
        The ends of the support at parameters.
    unit : callable
        A place inside and the width at parameters.
    make : callable, default None
        Makes the distribution from the package and tensors; by default the class does.
    about : str, default ""
        What tells this way to make it from others.
    whole : bool, default False
        Whether it is a distribution of whole numbers.
    moments : callable, default None
        The mean and the variance at parameters where they are no finite numbers; 0 stands for
        those to be integrated.
    transported : bool, default True
        Whether a sample moves with a parameter as its quantile does.
    kept : int, default 0
        How many of the parameters two distributions share of which there is a divergence.
    diverges : bool, default True
        Whether there is a divergence of two of the family.
    near : float, default 3e-5
        The largest error beside the number, or beside 1 if that is more.
    """

    name: str
    draw: Callable[[Rng], tuple[float, ...]] = field(repr=False)
    log: Callable[..., Any] = field(repr=False)
    support: Callable[..., tuple[Any, Any]] = field(repr=False)
    unit: Callable[..., tuple[Any, Any]] = field(repr=False)
    make: Callable[..., Any] | None = field(default=None, repr=False)
    about: str = ""
    whole: bool = False
    moments: Callable[..., tuple[Any, Any]] | None = field(default=None, repr=False)
    transported: bool = True
    kept: int = 0
    diverges: bool = True
    near: float = 3e-5

    @property
    def label(self) -> str:
        """The name and what tells this way from others."""
        return "-".join(filter(None, (self.name, self.about)))

    def log_at(self, x: Any, parameters: Parameters) -> Array:
        """Return the logarithm of the density anywhere; −∞ outside of the support."""
        low, high = self.support(*parameters)
        inside = (x >= low) & (x <= high)
        if self.whole:
            inside = inside & (x == np.floor(x))
        with np.errstate(all="ignore"):
            safe = np.where(inside, x, self.unit(*parameters)[0])
            return np.asarray(np.where(inside, self.log(safe, *parameters), -np.inf))

    def expected(
        self,
        of: Callable[[Any, Any], Any],
        parameters: Parameters,
        high: Any = np.inf,
        corners: Sequence[Any] = (),
    ) -> Array:
        """Return the mean of a function of places and log densities, below an end.

        Parameters
        ----------
        of : callable
            The function.
        parameters : sequence of array_like
            The parameters, one set for each result.
        high : array_like, default inf
            The end.
        corners : sequence of array_like, default ()
            Places where the function has a corner.

        Returns
        -------
        ndarray
            The means, of the parameters' shape.
        """
        wide = [np.asarray(p, np.float64)[..., None] for p in parameters]

        def weighed(x: Any) -> Any:
            log = self.log_at(x, wide)
            with np.errstate(all="ignore"):
                return np.where(log > -np.inf, np.exp(log) * of(x, log), 0.0)

        first, last = (np.asarray(e, np.float64) for e in self.support(*parameters))
        last = np.minimum(last, high)
        if self.whole:
            bound = np.where(np.isfinite(last), last, self.far(parameters))
            every = np.arange(float(np.max(bound, initial=0.0)) + 1)
            return np.asarray(np.where(every <= bound[..., None], weighed(every), 0.0).sum(-1))
        middle, width = (np.asarray(u, np.float64) for u in self.unit(*parameters))
        # Densities may have a corner in their middle, and the rule none in an interval.
        inner = np.sort(np.broadcast_arrays(middle, *corners), axis=0)
        ends = [first, *np.clip(inner, first, last), last]
        made = sum(np.where(b > a, integral(weighed, a, b, width), 0.0) for a, b in pairwise(ends))
        return np.asarray(made)

    def far(self, parameters: Parameters) -> Array:
        """Return a whole number above which there is nearly nothing."""
        middle, width = self.unit(*parameters)
        return np.asarray(np.ceil(np.asarray(middle) + 60 * np.asarray(width)))

    def share(self, x: Any, parameters: Parameters) -> Array:
        """Return the share of numbers of at most x."""
        return np.clip(self.expected(lambda x, log: 1.0, parameters, x), 0, 1)

    def mean_and_variance(self, parameters: Parameters) -> tuple[Array, Array]:
        """Return the two moments."""
        with np.errstate(all="ignore"):
            mean = self.expected(lambda x, log: x, parameters)
            center = mean[..., None]
            variance = self.expected(lambda x, log: (x - center) ** 2, parameters)
            if self.moments is not None:
                told = [np.asarray(t, np.float64) for t in self.moments(*parameters)]
                mean, variance = (
                    np.where(t == 0, made, t)
                    for t, made in zip(told, (mean, variance), strict=True)
                )
        return mean, variance

    def entropy(self, parameters: Parameters) -> Array:
        """Return the entropy in nats."""
        return self.expected(lambda x, log: -log, parameters)

    def divergence(self, parameters: Parameters, other: Density, others: Parameters) -> Array:
        """Return the Kullback-Leibler divergence to another distribution."""
        wide = [np.asarray(p, np.float64)[..., None] for p in others]
        lows, highs = self.support(*parameters), other.support(*others)
        made = self.expected(
            lambda x, log: log - np.maximum(other.log_at(x, wide), -1e300),
            parameters,
            corners=[other.unit(*others)[0]],
        )
        beyond = (np.asarray(lows[0]) < highs[0]) | (np.asarray(lows[1]) > highs[1])
        return np.asarray(np.where(beyond, np.inf, made))
