"""RMSprop: steps divided by a running root mean square of the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import calor
from calor import DType, Tensor
from calor_train.optimizers.base import Optimizer, Parameters
from calor_train.optimizers.decays import DecayingGroup


class RMSpropGroup(DecayingGroup):
    """Parameters of RMSprop with the running squares of their gradients."""

    dynamic = ("lr", "momentum", "alpha", "eps", "weight_decay", "rest_alpha")
    rates = ("alpha",)
    closed = True

    momentum: Any
    alpha: Any
    eps: Any
    rest_alpha: Any

    def __init__(
        self,
        params: Sequence[Tensor],
        names: Sequence[str],
        *,
        momentum: float,
        centered: bool,
        **options: Any,
    ) -> None:
        self.centered = centered
        slots = (
            "square_avg",
            *(("momentum_buffer",) if momentum else ()),
            *(("grad_avg",) if centered else ()),
        )
        super().__init__(params, names, slots=slots, counted=True, momentum=momentum, **options)

    def hyperparameters(self) -> tuple[str, ...]:
        """Return the names that ``state_dict`` holds."""
        return ("lr", "momentum", "alpha", "eps", "centered", "weight_decay", "maximize")

    def change(self, index: int, p: Tensor, g: Tensor, shared: Any) -> Tensor:
        """Return the parameter after a step."""
        if "weight_decay" in self.used:
            g = g + p * self.weight_decay
        square = self.held("square_avg", index, p) * self.alpha + g * g * self.rest_alpha
        square = self.hold("square_avg", index, square)
        if self.centered:
            mean = self.average("grad_avg", index, g, self.rest_alpha)
            # Rounding can make the variance of equal gradients negative.
            square = calor.maximum(square - mean * mean, 0.0)
        step = g / (calor.sqrt(square) + self.eps)
        if "momentum_buffer" in self.state:
            buffer = self.held("momentum_buffer", index, p) * self.momentum
            step = self.hold("momentum_buffer", index, buffer + step)
        after: Tensor = p - step * self.lr
        return after


class RMSprop(Optimizer):
    """RMSprop: steps divided by a running root mean square of the gradient.

    For a gradient g of parameter p, a step does:

    - g = g + weight_decay · p
    - v = alpha · v + (1 − alpha) · g²
    - s = g / (√v + eps), with √(v − m²) for √v if centered, where m is the running mean of g
    - b = momentum · b + s, and p = p − lr · b

    Names, defaults and formulas are those of torch.optim.RMSprop. The state of half types is
    float32 unless `state_dtype` says otherwise.

    Parameters
    ----------
    params : Module, iterable of Tensor or iterable of dict
        The parameters, or one dictionary a group: `{"params": ..., "lr": ...}`.
    lr : float
        The learning rate.
    alpha : float
        The decay rate of the running squares, in [0, 1].
    eps : float
        Added to the root, so that steps stay finite.
    weight_decay : float
        The factor of the parameter that is added to its gradient.
    momentum : float
        How much of the previous step is kept.
    centered : bool
        Divide by the running standard deviation in place of the root mean square.
    maximize : bool
        Ascend in place of descending.
    master_weights : bool
        Keep float32 copies of float16 and bfloat16 parameters, so that steps below their precision
        add up.
    state_dtype : DType or str, optional
        The floating dtype of the running state; by default float32 for half types, otherwise that
        of the parameter. A half type takes less memory; a step is computed in float32 and rounds
        the state.

    Raises
    ------
    ArgumentError
        If there are no parameters, an option is unknown, or a number is out of its range.
    DTypeError
        If a parameter is not floating or complex, or `state_dtype` cannot hold its state.
    GradientError
        If a parameter is computed from other tensors.

    References
    ----------
    - Tieleman and Hinton, "Lecture 6.5: RMSprop", Neural Networks for Machine Learning, 2012.
    - Graves, "Generating Sequences with Recurrent Neural Networks", 2013 (centered).

    Examples
    --------
    >>> import calor
    >>> from calor_train import RMSprop
    >>> w = calor.asarray([1.0, -1.0], requires_grad=True)
    >>> optimizer = RMSprop([w], lr=0.25, alpha=0.75)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.5, -0.5]
    """

    group_type = RMSpropGroup

    def __init__(
        self,
        params: Parameters,
        lr: float = 0.01,
        alpha: float = 0.99,
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
        master_weights: bool = False,
        state_dtype: DType | str | None = None,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "alpha": alpha,
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum": momentum,
                "centered": centered,
                "maximize": maximize,
                "master_weights": master_weights,
                "state_dtype": state_dtype,
            },
        )
