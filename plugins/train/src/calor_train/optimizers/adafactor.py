"""Adafactor: second moments of matrices as the product of a column and a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import calor
from calor import DType, Tensor
from calor.errors import ArgumentError, DTypeError
from calor_train.optimizers.base import Optimizer, Parameters
from calor_train.optimizers.decays import Factors
from calor_train.optimizers.group import ParameterGroup


class AdafactorGroup(ParameterGroup):
    """Parameters of Adafactor with the second moments of their gradients.

    Those of matrices, and of what has more axes, are sums over each of the last two axes; only
    others have one for each element.
    """

    dynamic = ("lr", "weight_decay", "beta2_decay", "eps2", "d")

    beta2_decay: Any
    eps2: Any
    d: Any

    def __init__(self, params: Sequence[Tensor], names: Sequence[str], **options: Any) -> None:
        for name, p in zip(names, params, strict=True):
            if p.dtype.is_complex:
                raise DTypeError(f"Adafactor: parameter {name!r} is {p.dtype.name}; only real ones")
        slots = ("row_var", "col_var", "variance")
        super().__init__(params, names, slots=slots, counted=True, **options)

    def set_numbers(self, **numbers: Any) -> None:
        self.eps = numbers.pop("eps")
        super().set_numbers(**numbers)

    @property
    def eps(self) -> tuple[float | None, float]:
        """The least root of a second moment, None for that of the dtype, and the least size."""
        return (self.eps1, self.eps2)

    @eps.setter
    def eps(self, value: tuple[float | None, float]) -> None:
        first, self.eps2 = value
        self.eps1 = None if first is None else self.checked("eps", first)

    @staticmethod
    def checked(name: str, value: Any) -> float:
        """Return a hyper-parameter as a float; ArgumentError when it is out of its range."""
        if name != "beta2_decay":
            number = ParameterGroup.checked(name, value)
            if name == "d" and number < 1:
                raise ArgumentError(f"d must be at least 1, not {value!r}")
            return number
        if not isinstance(value, int | float) or value > 0:
            raise ArgumentError(f"beta2_decay must be a number of at most 0, not {value!r}")
        return float(value)

    def hyperparameters(self) -> tuple[str, ...]:
        """Return the names that ``state_dict`` holds."""
        return ("lr", "beta2_decay", "eps", "d", "weight_decay", "maximize")

    def initial(self, slot: str, form: Tensor, dtype: DType | None) -> Tensor | None:
        """Return zeros for a sum over an axis of a matrix, or for each element of others."""
        if (form.ndim > 1) == (slot == "variance"):
            return None
        shape = form.shape
        if slot == "row_var":
            shape = (*shape[:-1], 1)
        elif slot == "col_var":
            shape = (*shape[:-2], 1, *shape[-1:])
        return calor.zeros(shape, dtype=dtype or form.dtype, device=form.device)

    def prepare(self) -> Factors:
        """Return what all parameters of a step share."""
        return Factors(self)

    def factors(self, t: Tensor) -> tuple[Tensor, ...]:
        """Return the shares of a step in the second moments, and the sizes of steps."""
        return calor.exp(calor.log(t) * self.beta2_decay), calor.minimum(calor.rsqrt(t), self.lr)

    def change(self, index: int, p: Tensor, g: Tensor, shared: Factors) -> Tensor:
        """Return the parameter after a step."""
        share, rate = shared.of(index, p)
        eps = calor.finfo(p.dtype).eps if self.eps1 is None else self.eps1
        if p.ndim > 1:
            row = self._moved("row_var", index, calor.square(g).mean(axis=-1, keepdims=True), share)
            column = self._moved(
                "col_var", index, calor.square(g).mean(axis=-2, keepdims=True), share
            )
            square = row * column / calor.maximum(row.mean(axis=-2, keepdims=True), eps)
        else:
            square = self._moved("variance", index, calor.square(g), share)
        step = g * calor.rsqrt(calor.maximum(square, eps * eps))
        length = math.sqrt(p.size or 1)
        most = calor.maximum(calor.sqrt(calor.square(step).sum()) / (length * self.d), 1.0)
        size = calor.maximum(calor.sqrt(calor.square(p).sum()) / length, self.eps2) * rate / most
        if "weight_decay" in self.used:
            p = p * (1.0 - self.lr * self.weight_decay)
        after: Tensor = p - step * size
        return after

    def _moved(self, slot: str, index: int, x: Tensor, share: Tensor) -> Tensor:
        """Return a second moment after it has moved to ``x`` by a share."""
        before = self.held(slot, index, x)
        return self.hold(slot, index, before + (x - before) * share)


class Adafactor(Optimizer):
    """Adafactor: steps in proportion to the parameter's size, with little state.

    For a gradient g of parameter p in its step t, a step does:

    - v = v + t^beta2_decay · (g² − v). Of a matrix only the means of v over rows and over columns
      are kept, and v is their product by the mean of all
    - u = g / √max(v, eps1²), divided by max(1, rms(u) / d)
    - p = p · (1 − lr · weight_decay) − min(lr, 1 / √t) · max(eps2, rms(p)) · u

    Parameters with more than two axes are matrices along the last two. Names, defaults and formulas
    are those of torch.optim.Adafactor.

    Parameters
    ----------
    params : Module, iterable of Tensor or iterable of dict
        The parameters, or one dictionary a group: `{"params": ..., "lr": ...}`.
    lr : float
        The largest share of its size by which a parameter moves.
    beta2_decay : float
        The exponent of the number of the step, at most 0, with which gradients enter moments.
    eps : tuple
        The least root of a second moment, None for the precision of the dtype; and the least size
        of a parameter for its steps.
    d : float
        The root mean square above which a step is made smaller, at least 1.
    weight_decay : float
        The share of the parameter, times the learning rate, that a step takes away.
    maximize : bool
        Ascend in place of descending.
    master_weights : bool
        Keep float32 copies of float16 and bfloat16 parameters, so that steps below their precision
        add up.
    state_dtype : DType or str, optional
        The floating dtype of the running state; by default float32 for half types, otherwise that
        of the parameter.

    Raises
    ------
    ArgumentError
        If there are no parameters, an option is unknown, or a number is out of its range.
    DTypeError
        If a parameter is not floating, or `state_dtype` cannot hold its state.
    GradientError
        If a parameter is computed from other tensors.

    References
    ----------
    Shazeer and Stern, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost", 2018.

    Examples
    --------
    >>> import calor
    >>> from calor_train import Adafactor
    >>> w = calor.ones((2, 3), requires_grad=True)
    >>> optimizer = Adafactor([w], lr=0.125)
    >>> optimizer.update([w], [calor.ones((2, 3))])
    >>> w.tolist()[0]
    [0.875, 0.875, 0.875]
    >>> state = optimizer.state_dict()["state"]["0"]
    >>> state["row_var"].shape, state["col_var"].shape
    ((2, 1), (1, 3))
    """

    group_type = AdafactorGroup

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
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
                "beta2_decay": beta2_decay,
                "eps": eps,
                "d": d,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "master_weights": master_weights,
                "state_dtype": state_dtype,
            },
        )
