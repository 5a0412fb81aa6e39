"""Adagrad and Adadelta: steps divided by the squares of all gradients so far, or by recent ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import calor
from calor import DType, Tensor
from calor_train.optimizers.base import Optimizer, Parameters
from calor_train.optimizers.decays import DecayingGroup, Factors


class AdagradGroup(DecayingGroup):
    """Parameters of Adagrad with the sums of their squared gradients."""

    dynamic = ("lr", "lr_decay", "eps", "weight_decay")
    optional = ("weight_decay", "lr_decay")

    lr_decay: Any
    eps: Any

    def __init__(
        self,
        params: Sequence[Tensor],
        names: Sequence[str],
        *,
        initial_accumulator_value: float,
        **options: Any,
    ) -> None:
        start = self.checked("initial_accumulator_value", initial_accumulator_value)
        self.initial_accumulator_value = start
        super().__init__(params, names, slots=("sum",), counted=True, **options)

    def hyperparameters(self) -> tuple[str, ...]:
        """Return the names that ``state_dict`` holds."""
        return ("lr", "lr_decay", "eps", "weight_decay", "initial_accumulator_value", "maximize")

    def initial(self, slot: str, form: Tensor, dtype: DType | None) -> Tensor:
        """Return the sum as it is before the first step."""
        return calor.full_like(form, self.initial_accumulator_value, dtype=dtype)

    def factors(self, t: Tensor) -> tuple[Tensor, ...]:
        """Return the learning rates after their decay."""
        return (self.lr / (1.0 + (t - 1.0) * self.lr_decay),)

    def change(self, index: int, p: Tensor, g: Tensor, shared: Factors) -> Tensor:
        """Return the parameter after a step."""
        if "weight_decay" in self.used:
            g = g + p * self.weight_decay
        total = self.hold("sum", index, self.held("sum", index, p) + g * g)
        rate = shared.of(index, p)[0] if "lr_decay" in self.used else self.lr
        after: Tensor = p - g / (calor.sqrt(total) + self.eps) * rate
        return after


class AdadeltaGroup(DecayingGroup):
    """Parameters of Adadelta with the running squares of their gradients and steps."""

    dynamic = ("lr", "rho", "eps", "weight_decay", "rest_rho")
    rates = ("rho",)
    closed = True

    rho: Any
    eps: Any
    rest_rho: Any

    def __init__(self, params: Sequence[Tensor], names: Sequence[str], **options: Any) -> None:
        slots = ("square_avg", "acc_delta")
        super().__init__(params, names, slots=slots, counted=True, **options)

    def hyperparameters(self) -> tuple[str, ...]:
        """Return the names that ``state_dict`` holds."""
        return ("lr", "rho", "eps", "weight_decay", "maximize")

    def change(self, index: int, p: Tensor, g: Tensor, shared: Any) -> Tensor:
        """Return the parameter after a step."""
        if "weight_decay" in self.used:
            g = g + p * self.weight_decay
        square = self.held("square_avg", index, p) * self.rho + g * g * self.rest_rho
        square = self.hold("square_avg", index, square)
        moved = self.held("acc_delta", index, p)
        step = calor.sqrt(moved + self.eps) / calor.sqrt(square + self.eps) * g
        self.hold("acc_delta", index, moved * self.rho + step * step * self.rest_rho)
        after: Tensor = p - step * self.lr
        return after


class Adagrad(Optimizer):
    """Adagrad: steps divided by the root of the sum of all squared gradients so far.

    For a gradient g of parameter p in its step t, a step does:

    - g = g + weight_decay · p
    - s = s + g²
    - p = p − lr / (1 + (t − 1) · lr_decay) · g / (√s + eps)

    Names, defaults and formulas are those of torch.optim.Adagrad. The state of half types is
    float32 unless `state_dtype` says otherwise.

    Parameters
    ----------
    params : Module, iterable of Tensor or iterable of dict
        The parameters, or one dictionary a group: `{"params": ..., "lr": ...}`.
    lr : float
        The learning rate.
    lr_decay : float
        How fast the learning rate falls with the steps.
    weight_decay : float
        The factor of the parameter that is added to its gradient.
    initial_accumulator_value : float
        The sum before the first step.
    eps : float
        Added to the root, so that steps stay finite.
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
    Duchi et al., "Adaptive Subgradient Methods for Online Learning and Stochastic Optimization",
    2011.

    Examples
    --------
    >>> import calor
    >>> from calor_train import Adagrad
    >>> w = calor.asarray([1.0, -1.0], requires_grad=True)
    >>> optimizer = Adagrad([w], lr=0.25)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.75, -0.75]
    """

    group_type = AdagradGroup

    def __init__(
        self,
        params: Parameters,
        lr: float = 0.01,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
        master_weights: bool = False,
        state_dtype: DType | str | None = None,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "lr_decay": lr_decay,
                "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value,
                "eps": eps,
                "maximize": maximize,
                "master_weights": master_weights,
                "state_dtype": state_dtype,
            },
        )


class Adadelta(Optimizer):
    """Adadelta: steps in the unit of the parameter, from running squares of gradients and steps.

    For a gradient g of parameter p, a step does:

    - g = g + weight_decay · p
    - v = rho · v + (1 − rho) · g²
    - d = √(u + eps) / √(v + eps) · g, then u = rho · u + (1 − rho) · d²
    - p = p − lr · d

    Names, defaults and formulas are those of torch.optim.Adadelta. The state of half types is
    float32 unless `state_dtype` says otherwise.

    Parameters
    ----------
    params : Module, iterable of Tensor or iterable of dict
        The parameters, or one dictionary a group: `{"params": ..., "lr": ...}`.
    lr : float
        The learning rate.
    rho : float
        The decay rate of both running squares, in [0, 1].
    eps : float
        Added to both squares before their roots; it sets the length of the first steps.
    weight_decay : float
        The factor of the parameter that is added to its gradient.
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
    Zeiler, "ADADELTA: An Adaptive Learning Rate Method", 2012.

    Examples
    --------
    >>> import calor
    >>> from calor_train import Adadelta
    >>> w = calor.asarray([1.0, -1.0], requires_grad=True)
    >>> optimizer = Adadelta([w], lr=0.25, rho=0.75, eps=1.0)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> [round(x, 6) for x in w.tolist()]
    [0.646447, -0.646447]
    """

    group_type = AdadeltaGroup

    def __init__(
        self,
        params: Parameters,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-06,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        master_weights: bool = False,
        state_dtype: DType | str | None = None,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "rho": rho,
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "master_weights": master_weights,
                "state_dtype": state_dtype,
            },
        )
