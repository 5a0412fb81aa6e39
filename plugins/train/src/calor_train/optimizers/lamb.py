"""LAMB: Adam's steps, each layer's of a length in proportion to that of its weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import calor
from calor import DType, Tensor
from calor_train.optimizers.base import Optimizer, Parameters
from calor_train.optimizers.decays import BetasGroup, Factors


class LAMBGroup(BetasGroup):
    """Parameters of LAMB with the running moments of their gradients."""

    dynamic = (
        "lr", "weight_decay", "eps", "beta1", "beta2", "rest_beta1", "rest_beta2", "log_beta1",
        "log_beta2",
    )  # fmt: skip

    eps: Any

    def __init__(self, params: Sequence[Tensor], names: Sequence[str], **options: Any) -> None:
        super().__init__(params, names, slots=("exp_avg", "exp_avg_sq"), counted=True, **options)

    def hyperparameters(self) -> tuple[str, ...]:
        """Return the names that ``state_dict`` holds."""
        return ("lr", "betas", "eps", "weight_decay", "maximize")

    def factors(self, t: Tensor) -> tuple[Tensor, ...]:
        """Return the first bias correction and the root of the second one."""
        return -calor.expm1(t * self.log_beta1), calor.sqrt(-calor.expm1(t * self.log_beta2))

    def change(self, index: int, p: Tensor, g: Tensor, shared: Factors) -> Tensor:
        """Return the parameter after a step."""
        mean = self.average("exp_avg", index, g, self.rest_beta1)
        square = self.squares("exp_avg_sq", index, g)
        first, root = shared.of(index, p)
        step = mean / first / (calor.sqrt(square) / root + self.eps)
        if "weight_decay" in self.used:
            step = step + p * self.weight_decay
        weights, steps = (calor.sqrt(calor.square(x).sum()) for x in (p, step))
        known = (weights > 0) & (steps > 0)
        ratio = calor.where(known, weights / calor.where(known, steps, 1.0), 1.0)
        after: Tensor = p - step * (ratio * self.lr)
        return after


class LAMB(Optimizer):
    """LAMB: steps of Adam whose length is that of the layer's weights, for large batches.

    For a gradient g of parameter p in its step t, a step does:

    - m = beta1 · m + (1 − beta1) · g, v = beta2 · v + (1 − beta2) · g²
    - u = m / (1 − beta1ᵗ) / (√(v / (1 − beta2ᵗ)) + eps) + weight_decay · p
    - p = p − lr · ‖p‖ / ‖u‖ · u, with the factor lr alone where a norm is zero

    Each parameter is a layer of the paper. Of a complex parameter both parts have moments.

    Parameters
    ----------
    params : Module, iterable of Tensor or iterable of dict
        The parameters, or one dictionary a group: `{"params": ..., "lr": ...}`.
    lr : float
        The learning rate: the share of its length by which a parameter moves.
    betas : tuple of float
        The decay rates of both running averages, at least 0 and below 1.
    eps : float
        Added to the root of the second moment.
    weight_decay : float
        The share of the parameter that is added to its step, before the step gets its length.
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
    You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", 2020,
    with φ(z) = z.

    Examples
    --------
    >>> import calor
    >>> from calor_train import LAMB
    >>> w = calor.asarray([3.0, 4.0], requires_grad=True)
    >>> optimizer = LAMB([w], lr=0.1)
    >>> optimizer.update([w], [calor.asarray([0.0, 1.0])])
    >>> [round(x, 3) for x in w.tolist()]
    [3.0, 3.5]
    """

    group_type = LAMBGroup

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
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
