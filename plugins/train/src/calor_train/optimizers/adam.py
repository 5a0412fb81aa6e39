"""Adam, and Adam with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import calor
from calor import DType, Tensor
from calor_train.optimizers.base import Optimizer, Parameters
from calor_train.optimizers.decays import BetasGroup, Factors


class AdamGroup(BetasGroup):
    """Parameters of Adam with the running moments of their gradients.

    The moments of half types are float32 unless ``state_dtype`` says
    otherwise, which takes two bytes more each than PyTorch's: with beta2 = 0.999 a bfloat16 moment
    cannot become smaller, since a thousandth less rounds to the same number. After gradients that
    were ten times as large, such steps stay eleven times too small for good.
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
    )
    decoupled: ClassVar[bool] = False

    eps: Any

    def __init__(
        self, params: Sequence[Tensor], names: Sequence[str], *, amsgrad: bool, **options: Any
    ) -> None:
        self.amsgrad = amsgrad
        slots = ("exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if amsgrad else ()))
        super().__init__(params, names, slots=slots, counted=True, **options)

    def hyperparameters(self) -> tuple[str, ...]:
        """Return the names that ``state_dict`` holds."""
        return ("lr", "betas", "eps", "weight_decay", "amsgrad", "maximize")

    def factors(self, t: Tensor) -> tuple[Tensor, ...]:
        """Return step sizes and roots of the second bias correction.

        Both moments start at zero and so are too small at first; after ``t`` steps they are divided
        by 1 − betaᵗ. The first correction joins the learning rate; of the second the root is kept.
        """
        sizes = self.lr / -calor.expm1(t * self.log_beta1)
        return sizes, calor.sqrt(-calor.expm1(t * self.log_beta2))

    def change(self, index: int, p: Tensor, g: Tensor, shared: Factors) -> Tensor:
        """Return the parameter after a step."""
        decays = "weight_decay" in self.used
        if decays and not self.decoupled:
            g = g + p * self.weight_decay
        mean = self.average("exp_avg", index, g, self.rest_beta1)
        square = self.squares("exp_avg_sq", index, g)
        if self.amsgrad:
            largest = self.held("max_exp_avg_sq", index, p)
            square = self.hold("max_exp_avg_sq", index, calor.maximum(largest, square))
        size, root = shared.of(index, p)
        step = mean / (calor.sqrt(square) / root + self.eps) * size
        if decays and self.decoupled:
            step = step + p * (self.lr * self.weight_decay)
        after: Tensor = p - step
        return after


class AdamWGroup(AdamGroup):
    """Parameters of AdamW."""

    decoupled = True


class Adam(Optimizer):
    """Adam: steps scaled by running moments of the gradient.

    For a gradient g of parameter p in its step t, a step does:

    - g = g + weight_decay · p
    - m = beta1 · m + (1 − beta1) · g, v = beta2 · v + (1 − beta2) · g²
    - p = p − lr · m / (1 − beta1ᵗ) / (√v / √(1 − beta2ᵗ) + eps)

    Names, defaults and formulas are those of torch.optim.Adam. The moments of half types are
    float32 by default; with `state_dtype` they can be as short as PyTorch's, whose second moment
    does not shrink in bfloat16. A parameter without a gradient makes no step and counts none.

    Parameters
    ----------
    params : Module, iterable of Tensor or iterable of dict
        The parameters, or one dictionary a group: `{"params": ..., "lr": ...}`.
    lr : float
        The learning rate.
    betas : tuple of float
        The decay rates of the two moments, in [0, 1).
    eps : float
        Added to the root, so that steps stay finite.
    weight_decay : float
        The factor of the parameter that is added to its gradient.
    amsgrad : bool
        Divide by the largest second moment so far.
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
    - Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015.
    - Reddi et al., "On the Convergence of Adam and Beyond", 2018 (amsgrad).

    Examples
    --------
    >>> import calor
    >>> from calor_train import Adam
    >>> w = calor.asarray([1.0, -1.0], requires_grad=True)
    >>> optimizer = Adam([w], lr=0.25)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.75, -0.75]
    """

    group_type = AdamGroup

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
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
                "amsgrad": amsgrad,
                "maximize": maximize,
                "master_weights": master_weights,
                "state_dtype": state_dtype,
            },
        )


class AdamW(Adam):
    """Adam with weight decay that is decoupled from the gradient.

    Each step also does p = p − lr · weight_decay · p; the moments do not see it. Otherwise it is
    :class:`Adam`, with the names, defaults and formulas of torch.optim.AdamW.

    Parameters
    ----------
    params : Module, iterable of Tensor or iterable of dict
        The parameters, or one dictionary a group: `{"params": ..., "lr": ...}`.
    lr : float
        The learning rate.
    betas : tuple of float
        The decay rates of the two moments, in [0, 1).
    eps : float
        Added to the root, so that steps stay finite.
    weight_decay : float
        The share of the parameter, times the learning rate, that a step takes away.
    amsgrad : bool
        Divide by the largest second moment so far.
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
    Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019.

    Examples
    --------
    >>> import calor
    >>> from calor_train import AdamW
    >>> w = calor.asarray([1.0], requires_grad=True)
    >>> optimizer = AdamW([w], lr=0.5, weight_decay=0.5)
    >>> (w * 0.0).sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.75]
    """

    group_type = AdamWGroup

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        master_weights: bool = False,
        state_dtype: DType | str | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            maximize=maximize,
            master_weights=master_weights,
            state_dtype=state_dtype,
        )
