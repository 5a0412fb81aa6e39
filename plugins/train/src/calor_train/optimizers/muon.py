"""Muon: momentum of matrices, whose singular values a step makes about equal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, Literal

import calor
from calor import DType, Tensor
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor_train.optimizers.base import Optimizer, Parameters
from calor_train.optimizers.group import ParameterGroup

Adjust = Literal["original", "match_rms_adamw"]
_ADJUSTED: Final = ("original", "match_rms_adamw")
# More steps of the iteration than this gain nothing.
_STEPS: Final = 100


class MuonGroup(ParameterGroup):
    """Parameters of Muon with their momentum buffers."""

    dynamic = ("lr", "weight_decay", "momentum", "rest_momentum", "eps")

    momentum: Any
    rest_momentum: Any
    eps: Any

    def __init__(
        self,
        params: Sequence[Tensor],
        names: Sequence[str],
        *,
        nesterov: bool,
        ns_coefficients: Sequence[float],
        ns_steps: int,
        adjust_lr_fn: Adjust | None,
        **options: Any,
    ) -> None:
        for name, p in zip(names, params, strict=True):
            if p.ndim != 2:
                raise ShapeError(
                    f"Muon: parameter {name!r} has shape {p.shape} and is no matrix; give such "
                    f"parameters, embeddings and the last layer to AdamW"
                )
            if p.dtype.is_complex:
                raise DTypeError(f"Muon: parameter {name!r} is {p.dtype.name}; only real ones")
        if len(ns_coefficients) != 3 or not 0 < ns_steps < _STEPS:
            raise ArgumentError(
                f"Muon: ns_coefficients are three numbers, and ns_steps is 1 to {_STEPS - 1}"
            )
        if adjust_lr_fn not in (None, *_ADJUSTED):
            raise ArgumentError(
                f"Muon: adjust_lr_fn must be one of {', '.join(_ADJUSTED)}, not {adjust_lr_fn!r}"
            )
        self.nesterov = nesterov
        self.ns_coefficients = tuple(map(float, ns_coefficients))
        self.ns_steps = ns_steps
        self.adjust_lr_fn = adjust_lr_fn
        super().__init__(params, names, slots=("momentum_buffer",), counted=False, **options)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "momentum":
            super().__setattr__("rest_momentum", abs(1.0 - value))
        super().__setattr__(name, value)

    def hyperparameters(self) -> tuple[str, ...]:
        """Return the names that ``state_dict`` holds."""
        return (
            "lr", "weight_decay", "momentum", "nesterov", "ns_coefficients", "eps", "ns_steps",
            "adjust_lr_fn", "maximize",
        )  # fmt: skip

    def change(self, index: int, p: Tensor, g: Tensor, shared: Any) -> Tensor:
        """Return the parameter after a step."""
        before = self.held("momentum_buffer", index, p)
        mean = self.hold("momentum_buffer", index, before + (g - before) * self.rest_momentum)
        moved = g + (mean - g) * self.momentum if self.nesterov else mean
        step = self._orthogonal(moved).astype(p.dtype) * self._ratio(*p.shape)
        if "weight_decay" in self.used:
            step = step + p * self.weight_decay
        after: Tensor = p - step * self.lr
        return after

    def _orthogonal(self, x: Tensor) -> Tensor:
        """Return U S Vᵀ with singular values S around one, of x with the same U and V."""
        tall = x.shape[0] > x.shape[1]
        size = calor.sqrt(calor.square(x).sum())
        x = (x / calor.maximum(size, self.eps)).astype(calor.bfloat16)
        if tall:
            x = x.mT
        a, b, c = self.ns_coefficients
        for _ in range(self.ns_steps):
            gram = x @ x.mT
            x = a * x + (b * gram + c * (gram @ gram)) @ x
        return x.mT if tall else x

    def _ratio(self, rows: int, columns: int) -> float:
        """Return the factor of the learning rate for matrices of a shape."""
        if self.adjust_lr_fn == "match_rms_adamw":
            return 0.2 * math.sqrt(max(rows, columns))
        return math.sqrt(max(1.0, rows / columns)) if columns else 1.0


class Muon(Optimizer):
    """Muon: steps of matrices that are made nearly orthogonal.

    For a gradient g of a matrix p with r rows and c columns, a step does:

    - b = momentum · b + (1 − momentum) · g
    - u = b, with Nesterov's momentum u = momentum · b + (1 − momentum) · g
    - o = u with singular values around one, by `ns_steps` steps of the Newton–Schulz iteration
      x = a · x + (b · x xᵀ + c · (x xᵀ)²) x in bfloat16
    - p = p − lr · (s · o + weight_decay · p), with s = √max(1, r/c), or 0.2 √max(r, c) for
      "match_rms_adamw"

    It is meant for the matrices of hidden layers. Give biases, norms, embeddings and the last layer
    to :class:`AdamW`. Names, defaults and formulas are those of torch.optim.Muon, whose learning
    rate does not scale the weight decay by s either.

    Parameters
    ----------
    params : Module, iterable of Tensor or iterable of dict
        Matrices, or one dictionary a group: `{"params": ..., "lr": ...}`.
    lr : float
        The learning rate.
    weight_decay : float
        The share of the parameter, times the learning rate, that a step takes away.
    momentum : float
        The decay rate of the running average.
    nesterov : bool
        Look ahead by the momentum.
    ns_coefficients : tuple of float
        The coefficients of the iteration.
    eps : float
        The least size by which a matrix is divided before the iteration.
    ns_steps : int
        How many steps of the iteration are done, 1 to 99.
    adjust_lr_fn : {"original", "match_rms_adamw"}, optional
        How the learning rate is adjusted to the shape; the second lets rates of AdamW be reused. By
        default "original".
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
    ShapeError
        If a parameter is no matrix.
    DTypeError
        If a parameter is not floating, or `state_dtype` cannot hold its state.
    GradientError
        If a parameter is computed from other tensors.

    References
    ----------
    - Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024.
    - Liu et al., "Muon is Scalable for LLM Training", 2025 ("match_rms_adamw").

    Examples
    --------
    >>> import calor
    >>> from calor_train import Muon
    >>> w = calor.eye(2)
    >>> w.requires_grad = True
    >>> optimizer = Muon([w], lr=0.5, weight_decay=0.0)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> bool((abs(w.detach() - calor.eye(2) * 0.5) < 0.2).all())
    True
    """

    group_type = MuonGroup

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: Adjust | None = None,
        *,
        maximize: bool = False,
        master_weights: bool = False,
        state_dtype: DType | str | None = None,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "weight_decay": weight_decay,
                "momentum": momentum,
                "nesterov": nesterov,
                "ns_coefficients": ns_coefficients,
                "eps": eps,
                "ns_steps": ns_steps,
                "adjust_lr_fn": adjust_lr_fn,
                "maximize": maximize,
                "master_weights": master_weights,
                "state_dtype": state_dtype,
            },
        )
