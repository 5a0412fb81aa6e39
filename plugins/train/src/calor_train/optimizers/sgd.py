"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import calor
from calor import DType, Tensor
from calor.errors import ArgumentError
from calor_train.optimizers.base import Optimizer, Parameters
from calor_train.optimizers.group import ParameterGroup


class SGDGroup(ParameterGroup):
    """Parameters of SGD with their momentum buffers."""

    dynamic = ("lr", "weight_decay", "momentum")

    momentum: Any

    def __init__(
        self,
        params: Sequence[Tensor],
        names: Sequence[str],
        *,
        momentum: float,
        dampening: float,
        nesterov: bool,
        **options: Any,
    ) -> None:
        if nesterov and (not momentum > 0 or dampening != 0):
            raise ArgumentError("nesterov needs momentum > 0 and dampening = 0")
        self.dampening = float(dampening)
        self.nesterov = nesterov
        slots = ("momentum_buffer",) if momentum else ()
        counted = bool(momentum and dampening)
        super().__init__(params, names, slots=slots, counted=counted, momentum=momentum, **options)

    def hyperparameters(self) -> tuple[str, ...]:
        """Return the names that ``state_dict`` holds."""
        return (*super().hyperparameters(), "dampening", "nesterov")

    def change(self, index: int, p: Tensor, g: Tensor, shared: Any) -> Tensor:
        """Return the parameter after a step."""
        if "weight_decay" in self.used:
            g = g + p * self.weight_decay
        if self.state:
            buffer = self.held("momentum_buffer", index, p) * self.momentum
            buffer = self.hold("momentum_buffer", index, buffer + self._undamped(index, g))
            g = g + buffer * self.momentum if self.nesterov else buffer
        after: Tensor = p - g * self.lr
        return after

    def _undamped(self, index: int, g: Tensor) -> Tensor:
        """Return the gradient's share: all of it in the first step, then 1 − dampening of it."""
        if not self.dampening:
            return g
        assert self.steps is not None
        first = self.steps[index] == 1
        return calor.where(first, g, g * (1.0 - self.dampening))


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum, also Nesterov's.

    For a gradient g of parameter p, a step does:

    - g = g + weight_decay · p
    - b = momentum · b + (1 − dampening) · g, and b = g in the first step
    - p = p − lr · b, with Nesterov's momentum p = p − lr · (g + momentum · b)

    Names, defaults and formulas are those of torch.optim.SGD. The state of half types is float32
    unless `state_dtype` says otherwise.

    Parameters
    ----------
    params : Module, iterable of Tensor or iterable of dict
        The parameters, or one dictionary a group: `{"params": ..., "lr": ...}`.
    lr : float
        The learning rate.
    momentum : float
        How much of the previous step is kept.
    dampening : float
        The share of the gradient that the momentum leaves out.
    weight_decay : float
        The factor of the parameter that is added to its gradient.
    nesterov : bool
        Look ahead by the momentum; needs `momentum` above 0 and `dampening` 0.
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
    - Polyak, "Some Methods of Speeding Up the Convergence of Iteration Methods", 1964.
    - Sutskever et al., "On the Importance of Initialization and Momentum in Deep Learning", 2013.

    Examples
    --------
    >>> import calor
    >>> from calor_train import SGD
    >>> w = calor.asarray([1.0, 2.0], requires_grad=True)
    >>> optimizer = SGD([w], lr=0.5)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.0, 0.0]
    """

    group_type = SGDGroup

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        master_weights: bool = False,
        state_dtype: DType | str | None = None,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
                "master_weights": master_weights,
                "state_dtype": state_dtype,
            },
        )
