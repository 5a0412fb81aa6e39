"""RAdam: Adam whose steps are plain momentum until the second moment is known well enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import calor
from calor import DType, Tensor
from calor_train.optimizers.base import Optimizer, Parameters
from calor_train.optimizers.decays import BetasGroup, Factors


class RAdamGroup(BetasGroup):
    """Parameters of RAdam with their running moments.

    The length of the average after t steps, 2 / (1 − beta2) − 1 − 2t · beta2ᵗ / (1 − beta2ᵗ), is
    a small difference of large numbers. With q = −t · log beta2 it is `rho_offset` + 2t · h(q),
    where h(q) = 1 / q − 1 / (exp(q) − 1) is smooth, and the offset is small and from the host.
    """

    dynamic = (
        "lr",
        "weight_decay",
        "eps",
        "beta1",
        "beta2",
        "rest_beta1",
        "rest_beta2",
        "log_beta1",
        "log_beta2",
        "rho_offset",
        "rho_scale",
    )

    eps: Any
    rho_offset: Any
    rho_scale: Any

    def __init__(
        self,
        params: Sequence[Tensor],
        names: Sequence[str],
        *,
        decoupled_weight_decay: bool,
        **options: Any,
    ) -> None:
        self.decoupled_weight_decay = decoupled_weight_decay
        super().__init__(params, names, slots=("exp_avg", "exp_avg_sq"), counted=True, **options)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "beta2":
            x = -math.log(self.beta2) if self.beta2 else math.inf
            longest = 2.0 / (1.0 - self.beta2) - 1.0
            # The difference of both poles is a series where they are large.
            self.rho_offset = x / 6.0 - x**3 / 360.0 if x < 0.02 else longest - 2.0 / x
            scale = longest / ((longest - 4.0) * (longest - 2.0)) if longest > 5.0 else 0.0
            self.rho_scale = scale

    def hyperparameters(self) -> tuple[str, ...]:
        """Return the names that ``state_dict`` holds."""
        return ("lr", "betas", "eps", "weight_decay", "decoupled_weight_decay", "maximize")

    def lengths(self, t: Tensor) -> Tensor:
        """Return the lengths rho of the average after the steps `t`."""
        q = t * -self.log_beta2
        small, large = calor.minimum(q, 0.25), calor.maximum(q, 0.25)
        s = small * small
        near = small * (1 / 12 - s * (1 / 720 - s * (1 / 30240 - s * (1 / 1209600))))
        h = calor.where(q < 0.25, 0.5 - near, 1.0 / large - 1.0 / calor.expm1(large))
        found: Tensor = t * 2.0 * h + self.rho_offset
        return found

    def factors(self, t: Tensor) -> tuple[Tensor, ...]:
        """Return step sizes, rectified roots of the second correction, and whether they count."""
        rho = self.lengths(t)
        long = calor.maximum(rho, 5.0)
        rectified = calor.sqrt((long - 4.0) * (long - 2.0) / long * self.rho_scale)
        root = rectified * calor.sqrt(-calor.expm1(t * self.log_beta2))
        return self.lr / -calor.expm1(t * self.log_beta1), root, rho > 5.0

    def change(self, index: int, p: Tensor, g: Tensor, shared: Factors) -> Tensor:
        """Return the parameter after a step."""
        decays = "weight_decay" in self.used
        if decays and not self.decoupled_weight_decay:
            g = g + p * self.weight_decay
        mean = self.average("exp_avg", index, g, self.rest_beta1)
        square = self.squares("exp_avg_sq", index, g)
        size, root, known = shared.of(index, p)
        # A gradient of zeros has no root to divide by before the average is long enough.
        divisor = calor.where(known, calor.sqrt(square) + self.eps, 1.0)
        step = mean * size * (calor.where(known, root, 1.0) / divisor)
        if decays and self.decoupled_weight_decay:
            step = step + p * (self.lr * self.weight_decay)
        after: Tensor = p - step
        return after


class RAdam(Optimizer):
    """RAdam: Adam whose steps are plain momentum until the second moment is known well enough.

    For a gradient g of parameter p in its step t, a step does:

    - g = g + weight_decay · p, or p = p − lr · weight_decay · p if that is decoupled
    - m = beta1 · m + (1 − beta1) · g, v = beta2 · v + (1 − beta2) · g²
    - ρ∞ = 2 / (1 − beta2) − 1, ρ = ρ∞ − 2t · beta2ᵗ / (1 − beta2ᵗ)
    - if ρ > 5: r = √((ρ − 4) (ρ − 2) ρ∞ / ((ρ∞ − 4) (ρ∞ − 2) ρ)) and
      p = p − lr · m / (1 − beta1ᵗ) · r · √(1 − beta2ᵗ) / (√v + eps)
    - otherwise: p = p − lr · m / (1 − beta1ᵗ)

    Names, defaults and formulas are those of torch.optim.RAdam. The state of half types is
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
        Added to the root, so that steps stay finite.
    weight_decay : float
        The factor of the parameter that is added to its gradient.
    decoupled_weight_decay : bool
        Take `weight_decay`, times the learning rate, from the parameter and not into its gradient.
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
    Liu et al., "On the Variance of the Adaptive Learning Rate and Beyond", 2020.

    Examples
    --------
    >>> import calor
    >>> from calor_train import RAdam
    >>> w = calor.asarray([1.0, -1.0], requires_grad=True)
    >>> optimizer = RAdam([w], lr=0.25)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.5, -0.5]
    """

    group_type = RAdamGroup

    def __init__(
        self,
        params: Parameters,
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
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
                "decoupled_weight_decay": decoupled_weight_decay,
                "maximize": maximize,
                "master_weights": master_weights,
                "state_dtype": state_dtype,
            },
        )
