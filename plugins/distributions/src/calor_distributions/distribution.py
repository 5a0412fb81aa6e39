"""What every distribution has: shapes, samples, and moments; the parts that differ are methods.

Requirements: parameters are tensors that broadcast, and their values are never read, so that a
distribution can be made and used inside a jitted function. Parameters out of range give NaN.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import calor
from calor import dtypes
from calor.errors import ArgumentError, ShapeError
from calor.random.generator import Generator, Shape, shape_of
from calor.tensor.tensor import Tensor

# Whether a draw shall have gradients; those that cost something are left out otherwise.
REPARAMETRIZED = ContextVar("reparametrized", default=True)


def parameters(*values: Any) -> list[Tensor]:
    """Return parameters as tensors of one shape and floating dtype."""
    given = [v for v in values if isinstance(v, Tensor)]
    kinds = [v.dtype for v in given if v.dtype.is_floating]
    kind = calor.result_type(*kinds) if kinds else dtypes.default_float()
    place = given[0].device if given else None
    made = [
        v.astype(kind) if isinstance(v, Tensor) else calor.asarray(v, dtype=kind, device=place)
        for v in values
    ]
    return list(calor.broadcast_arrays(*made))


class Distribution:
    """A probability distribution over tensors.

    Parameters
    ----------
    batch_shape : tuple of int
        The shape of independent distributions, each with parameters of its own.
    event_shape : tuple of int, optional
        The shape of one draw of one of them. By default () for numbers.

    Attributes
    ----------
    has_rsample : bool
        Whether samples have gradients by the parameters.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.Normal(0.0, 1.0).sample((3,)).shape
    (3,)
    """

    has_rsample = False

    def __init__(self, batch_shape: tuple[int, ...], event_shape: tuple[int, ...] = ()) -> None:
        self.batch_shape = batch_shape
        self.event_shape = event_shape

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(batch_shape={self.batch_shape}, event_shape={self.event_shape})"
        )

    def _like(self) -> Tensor:
        """Return a parameter, whose dtype and device numbers get."""
        held = vars(self).values()
        found = next((v for v in held if isinstance(v, Tensor)), None)
        if found is None:
            found = next(v for v in held if isinstance(v, Distribution))._like()
        return found

    def _value(self, value: Any) -> Tensor:
        """Return a value as a tensor of no less digits than the parameters have."""
        like = self._like()
        if isinstance(value, Tensor):
            if not value.dtype.is_floating or not like.dtype.is_floating:
                return value
            # What is computed of the value alone would be rounded to fewer digits than the rest.
            return value.astype(calor.result_type(value.dtype, like.dtype))
        return calor.asarray(value, dtype=like.dtype, device=like.device)

    def _shape(self, sample_shape: Shape) -> tuple[int, ...]:
        """Return the shape of a sample."""
        return (*shape_of(sample_shape), *self.batch_shape, *self.event_shape)

    def sample(
        self,
        sample_shape: Shape = (),
        *,
        key: Tensor | None = None,
        generator: Generator | None = None,
    ) -> Tensor:
        """Return a sample without gradient.

        Parameters
        ----------
        sample_shape : int or tuple of int, optional
            How many draws, and in which shape. By default one.
        key : Tensor, optional
            A key of `calor.random`. By default the generator is used.
        generator : Generator, optional
            The stream to draw from. By default the global one.

        Returns
        -------
        Tensor
            Shape ``sample_shape + batch_shape + event_shape``.
        """
        token = REPARAMETRIZED.set(False)
        try:
            drawn = self._draw(sample_shape, key=key, generator=generator)
        finally:
            REPARAMETRIZED.reset(token)
        return calor.stop_gradient(drawn)  # type: ignore[no-any-return]

    def rsample(
        self,
        sample_shape: Shape = (),
        *,
        key: Tensor | None = None,
        generator: Generator | None = None,
    ) -> Tensor:
        """Return a sample with gradients by the parameters.

        Parameters
        ----------
        sample_shape : int or tuple of int, optional
            How many draws, and in which shape. By default one.
        key : Tensor, optional
            A key of `calor.random`. By default the generator is used.
        generator : Generator, optional
            The stream to draw from. By default the global one.

        Returns
        -------
        Tensor
            Shape ``sample_shape + batch_shape + event_shape``.

        Raises
        ------
        ArgumentError
            If samples of this distribution have no gradient.
        """
        if not self.has_rsample:
            raise ArgumentError(
                f"samples of {type(self).__name__} have no gradient; use sample(), and log_prob() "
                f"of it for a score-function estimate"
            )
        return self._draw(sample_shape, key=key, generator=generator)

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        raise self._missing("sample")

    def _missing(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {what}")

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density, or of the probability, of a value.

        Parameters
        ----------
        value : Tensor
            Shape that broadcasts with ``batch_shape + event_shape``.

        Returns
        -------
        Tensor
            The broadcast shape without the axes of the event. −inf outside of the support.

        Raises
        ------
        NotImplementedError
            If the distribution has none.
        """
        raise self._missing("log_prob")

    def cdf(self, value: Any) -> Tensor:
        """Return the probability of at most a value.

        Parameters
        ----------
        value : Tensor
            Shape that broadcasts with ``batch_shape``.

        Returns
        -------
        Tensor
            Values in [0, 1].

        Raises
        ------
        NotImplementedError
            If the distribution has none in closed form.
        """
        raise self._missing("cdf")

    def icdf(self, value: Any) -> Tensor:
        """Return the value below which a draw is with a probability.

        Parameters
        ----------
        value : Tensor
            Probabilities in [0, 1].

        Returns
        -------
        Tensor
            The quantiles.

        Raises
        ------
        NotImplementedError
            If the distribution has none in closed form.
        """
        raise self._missing("icdf")

    def entropy(self) -> Tensor:
        """Return the entropy in nats.

        Returns
        -------
        Tensor
            Shape ``batch_shape``.

        Raises
        ------
        NotImplementedError
            If the distribution has none in closed form.
        """
        raise self._missing("entropy")

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise self._missing("mean")

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        raise self._missing("mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise self._missing("variance")

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return calor.sqrt(self.variance)

    def perplexity(self) -> Tensor:
        """Return the exponential of the entropy.

        Returns
        -------
        Tensor
            Shape ``batch_shape``.
        """
        return calor.exp(self.entropy())


def inside(where: Any, made: Any, outside: float = -calor.inf) -> Tensor:
    """Return a result where a value is in the support, and another number elsewhere."""
    return calor.where(where, made, outside)


def one_of(name: str, probs: Any, logits: Any) -> tuple[Any, bool]:
    """Return the parameter that was given, and whether it is logits."""
    if (probs is None) == (logits is None):
        raise ArgumentError(f"{name}: give either probs or logits, not both or neither")
    return (logits, True) if probs is None else (probs, False)


def check_event(name: str, value: Tensor, event: tuple[int, ...]) -> None:
    """Raise ShapeError unless the last axes of a value are those of the event."""
    if value.shape[len(value.shape) - len(event) :] != event:
        raise ShapeError(f"{name}: a value of shape {value.shape} does not end in {event}")
