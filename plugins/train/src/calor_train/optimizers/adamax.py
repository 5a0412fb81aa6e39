"""Adamax: Adam with the largest recent gradient in place of the root mean square."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import calor
from calor import DType, Tensor
from calor_train.optimizers.base import Optimizer, Parameters
from calor_train.optimizers.decays import BetasGroup, Factors


class AdamaxGroup(BetasGroup):
    """Parameters of Adamax with the running mean and maximum of their gradients."""

    dynamic = ("lr", "weight_decay", "eps", "beta1", "beta2", "rest_beta1", "log_beta1")

    eps: Any

    def __init__(self, params: Sequence[Tensor], names: Sequence[str], **options: Any) -> None:
        super().__init__(params, names, slots=("exp_avg", "exp_inf"), counted=True, **options)

    def hyperparameters(self) -> tuple[str, ...]:
        """Return the names that ``state_dict`` holds."""
        return ("lr", "betas", "eps", "weight_decay", "maximize")

    def factors(self, t: Tensor) -> tuple[Tensor, ...]:
        """Return step sizes with the bias correction of the mean."""
        return (self.lr / -calor.expm1(t * self.log_beta1),)

    def change(self, index: int, p: Tensor, g: Tensor, shared: Factors) -> Tensor:
        """Return the parameter after a step."""
        if "weight_decay" in self.used:
            g = g + p * self.weight_decay
        mean = self.average("exp_avg", index, g, self.rest_beta1)
        before = self.held("exp_inf", index, p) * self.beta2
        largest = self.hold("exp_inf", index, calor.maximum(before, calor.abs(g) + self.eps))
        (size,) = shared.of(index, p)
        after: Tensor = p - mean / largest * size
        return after


class Adamax(Optimizer):
    """Adamax: Adam with the largest recent gradient in place of the root mean square.

    For a gradient g of parameter p in its step t, a step does:

    - g = g + weight_decay · p
    - m = beta1 · m + (1 − beta1) · g, u = max(beta2 · u, |g| + eps)
    - p = p − lr · m / (1 − beta1ᵗ) / u

    Names, defaults and formulas are those of torch.optim.Adamax. The state of half types is
    float32 unless `state_dtype` says otherwise.

    Parameters
    ----------
    params : Module, iterable of Tensor or iterable of dict
        The parameters, or one dictionary a group: `{"params": ..., "lr": ...}`.
    lr : float
        The learning rate.
    betas : tuple of float
        The decay rates of the two running averages, in [0, 1).
    eps : float
        Added to the absolute gradient, so that steps stay finite.
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
    Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015, section 7.1.

    Examples
    --------
    >>> import calor
    >>> from calor_train import Adamax
    >>> w = calor.asarray([1.0, -1.0], requires_grad=True)
    >>> optimizer = Adamax([w], lr=0.25)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.75, -0.75]
    """

    group_type = AdamaxGroup

    def __init__(
        self,
        params: Parameters,
        lr: float = 0.002,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
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
