"""NAdam: Adam with Nesterov's momentum."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

import calor
from calor import DType, Tensor
from calor.errors import ArgumentError
from calor_train.optimizers.base import Optimizer, Parameters
from calor_train.optimizers.decays import BetasGroup, Factors
from calor_train.optimizers.group import assign

_LOG_DECAY: Final = math.log(0.96)


class NAdamGroup(BetasGroup):
    """Parameters of NAdam with their running moments and the products of their momenta."""

    dynamic = (
        "lr",
        "weight_decay",
        "eps",
        "momentum_decay",
        "beta1",
        "beta2",
        "rest_beta1",
        "rest_beta2",
        "log_beta2",
    )

    eps: Any
    momentum_decay: Any

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
        wide = any(p.dtype in (calor.float64, calor.complex128) for p in self.params)
        with calor.no_grad():
            # The product of the momenta of all steps of each parameter.
            self.products = calor.ones(
                (len(self.params),),
                dtype=calor.float64 if wide else calor.float32,
                device=self.params[0].device if self.params else None,
            )

    def hyperparameters(self) -> tuple[str, ...]:
        """Return the names that ``state_dict`` holds."""
        return (
            "lr",
            "betas",
            "eps",
            "weight_decay",
            "momentum_decay",
            "decoupled_weight_decay",
            "maximize",
        )

    def momenta(self, t: Tensor) -> Tensor:
        """Return the momentum of the steps `t`."""
        decay = calor.exp(t * self.momentum_decay * _LOG_DECAY)
        found: Tensor = (1.0 - decay * 0.5) * self.beta1
        return found

    def count(self, steps: Tensor, present: Sequence[bool]) -> None:
        """Count a step of the parameters that make one, and take its momentum into the product."""
        super().count(steps, present)
        after = self.products * self.momenta(steps.astype(self.products.dtype))
        if not all(present):
            made = calor.asarray(np.asarray(present), device=steps.device)
            after = calor.where(made, after, self.products)
        assign(self.products, after)

    def factors(self, t: Tensor) -> tuple[Tensor, ...]:
        """Return step sizes of gradient and mean, and roots of the second bias correction."""
        product = self.products.astype(t.dtype).to(device=t.device)
        following = self.momenta(t + 1.0)
        return (
            (1.0 - self.momenta(t)) / (1.0 - product) * self.lr,
            following / (1.0 - product * following) * self.lr,
            calor.sqrt(-calor.expm1(t * self.log_beta2)),
        )

    def change(self, index: int, p: Tensor, g: Tensor, shared: Factors) -> Tensor:
        """Return the parameter after a step."""
        decays = "weight_decay" in self.used
        if decays and not self.decoupled_weight_decay:
            g = g + p * self.weight_decay
        mean = self.average("exp_avg", index, g, self.rest_beta1)
        square = self.squares("exp_avg_sq", index, g)
        now, ahead, root = shared.of(index, p)
        step = (g * now + mean * ahead) / (calor.sqrt(square) / root + self.eps)
        if decays and self.decoupled_weight_decay:
            step = step + p * (self.lr * self.weight_decay)
        after: Tensor = p - step
        return after

    def entries(self) -> Iterator[dict[str, Any]]:
        """Yield the state of each parameter, with the product of its momenta."""
        for index, entry in enumerate(super().entries()):
            yield entry | {"mu_product": self.products[index].detach()}

    def assignments(self, entries: Sequence[Mapping[str, Any]]) -> list[tuple[Tensor, Any]]:
        """Return each state tensor with its saved value."""
        found = super().assignments(
            [{name: x for name, x in entry.items() if name != "mu_product"} for entry in entries]
        )
        if not all("mu_product" in entry for entry in entries):
            raise ArgumentError("the saved state has no 'mu_product'; was it saved by NAdam?")
        products = np.asarray([float(entry["mu_product"]) for entry in entries], np.float64)
        return [*found, (self.products, products)]


class NAdam(Optimizer):
    """NAdam: Adam with Nesterov's momentum.

    For a gradient g of parameter p in its step t, a step does:

    - g = g + weight_decay · p, or p = p − lr · weight_decay · p if that is decoupled
    - m = beta1 · m + (1 − beta1) · g, v = beta2 · v + (1 − beta2) · g²
    - μₜ = beta1 · (1 − ½ · 0.96^(t · momentum_decay)), Π = μ₁ · … · μₜ
    - a = (1 − μₜ) / (1 − Π) · g + μₜ₊₁ / (1 − Π · μₜ₊₁) · m
    - p = p − lr · a / (√v / √(1 − beta2ᵗ) + eps)

    Names, defaults and formulas are those of torch.optim.NAdam. The state of half types is
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
    momentum_decay : float
        How fast the momentum rises from half of beta1 to beta1.
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
    Dozat, "Incorporating Nesterov Momentum into Adam", 2016.

    Examples
    --------
    >>> import calor
    >>> from calor_train import NAdam
    >>> w = calor.asarray([1.0, -1.0], requires_grad=True)
    >>> optimizer = NAdam([w], lr=0.25)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> [round(x, 6) for x in w.tolist()]
    [0.735887, -0.735887]
    """

    group_type = NAdamGroup

    def __init__(
        self,
        params: Parameters,
        lr: float = 0.002,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        momentum_decay: float = 0.004,
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
                "momentum_decay": momentum_decay,
                "decoupled_weight_decay": decoupled_weight_decay,
                "maximize": maximize,
                "master_weights": master_weights,
                "state_dtype": state_dtype,
            },
        )
