"""Lion: steps of one size, whose signs are those of a running average."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import calor
from calor import DType, Tensor
from calor_train.optimizers.base import Optimizer, Parameters
from calor_train.optimizers.decays import BetasGroup


class LionGroup(BetasGroup):
    """Parameters of Lion with the running averages of their gradients."""

    dynamic = ("lr", "weight_decay", "beta1", "beta2", "rest_beta1", "rest_beta2")

    def __init__(self, params: Sequence[Tensor], names: Sequence[str], **options: Any) -> None:
        super().__init__(params, names, slots=("exp_avg",), counted=False, **options)

    def hyperparameters(self) -> tuple[str, ...]:
        """Return the names that ``state_dict`` holds."""
        return ("lr", "betas", "weight_decay", "maximize")

    def change(self, index: int, p: Tensor, g: Tensor, shared: Any) -> Tensor:
        """Return the parameter after a step."""
        before = self.held("exp_avg", index, p)
        step = calor.sign(before * self.beta1 + g * self.rest_beta1)
        if "weight_decay" in self.used:
            step = step + p * self.weight_decay
        self.average("exp_avg", index, g, self.rest_beta2)
        after: Tensor = p - step * self.lr
        return after


class Lion(Optimizer):
    """Lion: the sign of a running average, as a step of one size for every element.

    For a gradient g of parameter p, a step does:

    - u = sign(beta1 · m + (1 − beta1) · g) + weight_decay · p
    - m = beta2 · m + (1 − beta2) · g
    - p = p − lr · u

    The paper's learning rates are three to ten times smaller than those of AdamW, and its weight
    decay larger by the same factor. Of a complex parameter both parts have a sign.

    Parameters
    ----------
    params : Module, iterable of Tensor or iterable of dict
        The parameters, or one dictionary a group: `{"params": ..., "lr": ...}`.
    lr : float
        The learning rate.
    betas : tuple of float
        The share of the average in a step, and the decay rate of the average, in [0, 1).
    weight_decay : float
        The share of the parameter, times the learning rate, that a step takes away.
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
    Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023.

    Examples
    --------
    >>> import calor
    >>> from calor_train import Lion
    >>> w = calor.asarray([1.0, -3.0], requires_grad=True)
    >>> optimizer = Lion([w], lr=0.25)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.75, -2.75]
    """

    group_type = LionGroup

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
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
                "weight_decay": weight_decay,
                "maximize": maximize,
                "master_weights": master_weights,
                "state_dtype": state_dtype,
            },
        )
