"""The normal distribution of vectors."""

from __future__ import annotations

import math
from typing import Any

import calor
from calor import linalg
from calor.errors import ArgumentError, ShapeError
from calor.random.generator import Shape
from calor.tensor.tensor import Tensor
from calor_distributions.distribution import Distribution, check_event, parameters


class MultivariateNormal(Distribution):
    """The normal distribution of vectors with a covariance.

    Parameters
    ----------
    loc : Tensor
        The mean, of shape (..., N).
    covariance_matrix : Tensor, optional
        Positive definite matrices of shape (..., N, N).
    precision_matrix : Tensor, optional
        Its inverse.
    scale_tril : Tensor, optional
        Its lower Cholesky factor; one of the three.

    Raises
    ------
    ArgumentError
        If not one of the three is given.
    ShapeError
        If the mean has no axis, or the shapes do not fit.
    LinAlgError
        If a matrix is not positive definite.

    Examples
    --------
    >>> import calor
    >>> d = calor.distributions.MultivariateNormal(calor.zeros(2), calor.eye(2))
    >>> round(d.log_prob(calor.zeros(2)).item(), 4)
    -1.8379
    """

    has_rsample = True

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
    ) -> None:
        (loc,) = parameters(loc)
        given = [t for t in (covariance_matrix, precision_matrix, scale_tril) if t is not None]
        if len(given) != 1:
            raise ArgumentError(
                "MultivariateNormal: give one of covariance_matrix, precision_matrix, scale_tril"
            )
        (matrix,) = parameters(given[0])
        if not loc.ndim or matrix.ndim < 2 or matrix.shape[-2:] != (loc.shape[-1],) * 2:
            raise ShapeError(
                f"MultivariateNormal: a mean of shape {loc.shape} and a matrix of shape "
                f"{matrix.shape} do not fit; pass (..., N) and (..., N, N)"
            )
        if covariance_matrix is not None:
            matrix = linalg.cholesky(matrix)
        elif precision_matrix is not None:
            # P = L Lᴴ in reverse order of rows makes the factor of the inverse triangular.
            turned = calor.flip(linalg.cholesky(calor.flip(matrix, axis=(-2, -1))), axis=(-2, -1))
            identity = calor.eye(loc.shape[-1], dtype=matrix.dtype, device=matrix.device)
            matrix = linalg.solve_triangular(turned.mT, identity, lower=True)
        batch = calor.broadcast_shapes(loc.shape[:-1], matrix.shape[:-2])
        self.loc = calor.broadcast_to(loc, (*batch, loc.shape[-1]))
        self.scale_tril = calor.broadcast_to(matrix, (*batch, *matrix.shape[-2:]))
        super().__init__(batch, loc.shape[-1:])

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        drawn = calor.random.normal(
            self._shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device, **stream
        )
        return self.loc + (self.scale_tril @ drawn[..., None])[..., 0]

    def _half_log_det(self) -> Tensor:
        return calor.sum(calor.log(linalg.diagonal(self.scale_tril)), axis=-1)

    def log_prob(self, value: Any) -> Tensor:
        value = self._value(value)
        check_event("MultivariateNormal", value, self.event_shape)
        z = linalg.solve_triangular(self.scale_tril, (value - self.loc)[..., None], lower=True)
        square = calor.sum(z * z, axis=(-2, -1))
        constant = self.event_shape[0] * math.log(2 * math.pi)
        return (square + constant) * -0.5 - self._half_log_det()

    def entropy(self) -> Tensor:
        return self._half_log_det() + 0.5 * self.event_shape[0] * (1 + math.log(2 * math.pi))

    @property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self.scale_tril @ self.scale_tril.mT

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return linalg.cholesky_inverse(self.scale_tril)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return calor.sum(self.scale_tril * self.scale_tril, axis=-1)
