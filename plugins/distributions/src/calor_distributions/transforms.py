"""Maps with an inverse and a known derivative, for TransformedDistribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import calor
from calor.tensor.tensor import Tensor


class Transform:
    """A map of tensors element by element, with an inverse.

    Attributes
    ----------
    sign : int
        1 for an increasing map, −1 for a decreasing one, 0 if that depends on numbers.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.ExpTransform().inverse(1.0).item()
    0.0
    """

    sign = 1

    def __call__(self, x: Any) -> Tensor:
        """Return the image of a value.

        Parameters
        ----------
        x : Tensor
            The value.

        Returns
        -------
        Tensor
            The image, of the same shape.
        """
        raise NotImplementedError(f"{type(self).__name__} has no map")

    def inverse(self, y: Any) -> Tensor:
        """Return the value of an image.

        Parameters
        ----------
        y : Tensor
            The image.

        Returns
        -------
        Tensor
            The value, of the same shape.
        """
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        """Return the logarithm of the size of the derivative.

        Parameters
        ----------
        x : Tensor
            The value.
        y : Tensor
            Its image.

        Returns
        -------
        Tensor
            The same shape.
        """
        raise NotImplementedError(f"{type(self).__name__} has no derivative")


class AffineTransform(Transform):
    """The map loc + scale · x.

    Parameters
    ----------
    loc : float or Tensor
        What is added.
    scale : float or Tensor
        The factor, not 0.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.AffineTransform(1.0, 2.0)(3.0).item()
    7.0
    """

    def __init__(self, loc: Any, scale: Any) -> None:
        self.loc, self.scale = loc, scale
        if isinstance(scale, int | float):
            self.sign = 1 if scale > 0 else -1
        else:
            self.sign = 0

    def __call__(self, x: Any) -> Tensor:
        made: Tensor = calor.asarray(x) * self.scale + self.loc
        return made

    def inverse(self, y: Any) -> Tensor:
        made: Tensor = (calor.asarray(y) - self.loc) / self.scale
        return made

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        return calor.log(calor.abs(calor.zeros_like(calor.asarray(x)) + self.scale))


class ExpTransform(Transform):
    """The map exp(x).

    Examples
    --------
    >>> import calor
    >>> calor.distributions.ExpTransform()(0.0).item()
    1.0
    """

    def __call__(self, x: Any) -> Tensor:
        return calor.exp(x)

    def inverse(self, y: Any) -> Tensor:
        return calor.log(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        return calor.asarray(x)


class PowerTransform(Transform):
    """The map x ** exponent of positive numbers.

    Parameters
    ----------
    exponent : float
        The exponent, not 0.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.PowerTransform(2.0)(3.0).item()
    9.0
    """

    def __init__(self, exponent: float) -> None:
        self.exponent = exponent
        self.sign = 1 if exponent > 0 else -1

    def __call__(self, x: Any) -> Tensor:
        return calor.pow(x, self.exponent)

    def inverse(self, y: Any) -> Tensor:
        return calor.pow(y, 1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        return calor.log(calor.abs(self.exponent * calor.asarray(y) / x))


class SigmoidTransform(Transform):
    """The map 1 / (1 + exp(−x)).

    Examples
    --------
    >>> import calor
    >>> calor.distributions.SigmoidTransform()(0.0).item()
    0.5
    """

    def __call__(self, x: Any) -> Tensor:
        return calor.sigmoid(x)

    def inverse(self, y: Any) -> Tensor:
        return calor.logit(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        x = calor.asarray(x)
        return -calor.softplus(-x) - calor.softplus(x)


class TanhTransform(Transform):
    """The map tanh(x), whose derivative keeps its digits where tanh is ±1.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.TanhTransform()(0.0).item()
    0.0
    """

    def __call__(self, x: Any) -> Tensor:
        return calor.tanh(x)

    def inverse(self, y: Any) -> Tensor:
        return calor.atanh(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        x = calor.asarray(x)
        made: Tensor = (math.log(2) - x - calor.softplus(x * -2)) * 2
        return made


class SoftplusTransform(Transform):
    """The map log(1 + exp(x)).

    Examples
    --------
    >>> import calor
    >>> round(calor.distributions.SoftplusTransform()(0.0).item(), 4)
    0.6931
    """

    def __call__(self, x: Any) -> Tensor:
        return calor.softplus(x)

    def inverse(self, y: Any) -> Tensor:
        y = calor.asarray(y)
        made: Tensor = y + calor.log(-calor.expm1(-y))
        return made

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        return -calor.softplus(-calor.asarray(x))


class ComposeTransform(Transform):
    """Several maps, one after the other.

    Parameters
    ----------
    parts : sequence of Transform
        The maps; the first is applied first.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.ComposeTransform([calor.distributions.ExpTransform()])(0.0).item()
    1.0
    """

    def __init__(self, parts: Sequence[Transform]) -> None:
        self.parts = tuple(parts)
        self.sign = math.prod(part.sign for part in self.parts)

    def __call__(self, x: Any) -> Tensor:
        made = calor.asarray(x)
        for part in self.parts:
            made = part(made)
        return made

    def inverse(self, y: Any) -> Tensor:
        made = calor.asarray(y)
        for part in reversed(self.parts):
            made = part.inverse(made)
        return made

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        total = calor.zeros_like(calor.asarray(x))
        for part in self.parts:
            after = part(x)
            total, x = total + part.log_abs_det_jacobian(x, after), after
        return total
