"""Adan: Nesterov's momentum of gradients and of their differences, in steps of Adam's kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import calor
from calor import DType, Tensor
from calor_train.optimizers.base import Optimizer, Parameters
from calor_train.optimizers.decays import DecayingGroup, Factors


class AdanGroup(DecayingGroup):
    """Parameters of Adan with their running averages and the gradients of the last step."""

    dynamic = (
        "lr", "weight_decay", "eps", "beta1", "beta2", "beta3", "rest_beta1", "rest_beta2",
        "rest_beta3", "log_beta1", "log_beta2", "log_beta3",
    )  # fmt: skip
    rates = ("beta1", "beta2", "beta3")

    eps: Any
    beta1: Any
    beta2: Any
    beta3: Any
    rest_beta1: Any
    rest_beta2: Any
    rest_beta3: Any
    log_beta1: Any
    log_beta2: Any
    log_beta3: Any

    def __init__(self, params: Sequence[Tensor], names: Sequence[str], **options: Any) -> None:
        slots = ("exp_avg", "exp_avg_diff", "exp_avg_sq", "previous_grad")
        super().__init__(params, names, slots=slots, counted=True, **options)

    def set_numbers(self, **numbers: Any) -> None:
        self.betas = numbers.pop("betas")
        super().set_numbers(**numbers)

    @property
    def betas(self) -> tuple[float, float, float]:
        """The decay rates of the three running averages."""
        return (self.beta1, self.beta2, self.beta3)

    @betas.setter
    def betas(self, value: tuple[float, float, float]) -> None:
        self.beta1, self.beta2, self.beta3 = value

    def hyperparameters(self) -> tuple[str, ...]:
        """Return the names that ``state_dict`` holds."""
        return ("lr", "betas", "eps", "weight_decay", "maximize")

    def factors(self, t: Tensor) -> tuple[Tensor, ...]:
        """Return both step sizes, a root, and whether there was a gradient before."""
        size = self.lr / -calor.expm1(t * self.log_beta1)
        size_diff = self.lr * self.beta2 / -calor.expm1(t * self.log_beta2)
        root = calor.sqrt(-calor.expm1(t * self.log_beta3))
        return size, size_diff, root, (t > 1).astype(t.dtype)

    def change(self, index: int, p: Tensor, g: Tensor, shared: Factors) -> Tensor:
        """Return the parameter after a step."""
        size, size_diff, root, later = shared.of(index, p)
        # The first gradient has none before it, and no difference.
        difference = calor.where(later > 0, g - self.held("previous_grad", index, g), 0.0)
        self.hold("previous_grad", index, g)
        mean = self.average("exp_avg", index, g, self.rest_beta1)
        mean_diff = self.average("exp_avg_diff", index, difference, self.rest_beta2)
        ahead = g + difference * self.beta2
        square = self.held("exp_avg_sq", index, g) * self.beta3 + ahead * ahead * self.rest_beta3
        self.hold("exp_avg_sq", index, square)
        step = (mean * size + mean_diff * size_diff) / (calor.sqrt(square) / root + self.eps)
        after: Tensor = p - step
        if "weight_decay" in self.used:
            after = after / (1.0 + self.lr * self.weight_decay)
        return after


class Adan(Optimizer):
    """Adan: adaptive Nesterov momentum, with averages of gradients and of their differences.

    For a gradient g of parameter p in its step t, and the gradient g' of the step before, a step
    does, with d = g − g', which is 0 in the first step:

    - m = beta1 · m + (1 − beta1) · g, v = beta2 · v + (1 − beta2) · d
    - n = beta3 · n + (1 − beta3) · (g + beta2 · d)²
    - u = (m / (1 − beta1ᵗ) + beta2 · v / (1 − beta2ᵗ)) / (√(n / (1 − beta3ᵗ)) + eps)
    - p = (p − lr · u) / (1 + lr · weight_decay)

    A rate here is one minus that of the paper, as in the authors' implementation, whose bias
    corrections these are. Of a complex parameter both parts have averages.

    Parameters
    ----------
    params : Module, iterable of Tensor or iterable of dict
        The parameters, or one dictionary a group: `{"params": ..., "lr": ...}`.
    lr : float
        The learning rate.
    betas : tuple of float
        The decay rates of the averages of gradients, of their differences, and of squares, at least
        0 and below 1.
    eps : float
        Added to the root of the average of squares.
    weight_decay : float
        The weight of half the parameter's squared length, whose proximal step ends a step.
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
    Xie et al., "Adan: Adaptive Nesterov Momentum Algorithm for Faster Optimizing Deep Models",
    2022, algorithm 1.

    Examples
    --------
    >>> import calor
    >>> from calor_train import Adan
    >>> w = calor.asarray([1.0], requires_grad=True)
    >>> optimizer = Adan([w], lr=0.25)
    >>> optimizer.update([w], [calor.asarray([2.0])])
    >>> [round(x, 3) for x in w.tolist()]
    [0.75]
    """

    group_type = AdanGroup

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float, float] = (0.98, 0.92, 0.99),
        eps: float = 1e-8,
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
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "master_weights": master_weights,
                "state_dtype": state_dtype,
            },
        )
