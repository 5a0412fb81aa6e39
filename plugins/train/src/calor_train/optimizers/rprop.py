"""Rprop: steps whose length follows from the signs of the gradients alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import calor
from calor import DType, Tensor
from calor.errors import ArgumentError
from calor_train.optimizers.base import Optimizer, Parameters
from calor_train.optimizers.group import ParameterGroup


class RpropGroup(ParameterGroup):
    """Parameters of Rprop with their previous gradients and step sizes."""

    dynamic = ("lr", "eta_minus", "eta_plus", "size_min", "size_max")
    pairs = True

    eta_minus: Any
    eta_plus: Any
    size_min: Any
    size_max: Any

    def __init__(self, params: Sequence[Tensor], names: Sequence[str], **options: Any) -> None:
        super().__init__(params, names, slots=("prev", "step_size"), counted=True, **options)

    def set_numbers(self, **numbers: Any) -> None:
        self.etas = numbers.pop("etas")
        self.step_sizes = numbers.pop("step_sizes")
        super().set_numbers(**numbers)

    @property
    def etas(self) -> tuple[float, float]:
        """The factors of a step size: after a change of sign, and after none."""
        return (self.eta_minus, self.eta_plus)

    @etas.setter
    def etas(self, value: tuple[float, float]) -> None:
        less, more = value
        if not 0.0 < less < 1.0 < more:
            raise ArgumentError(f"etas must be in (0, 1) and above 1, not {value!r}")
        self.eta_minus, self.eta_plus = less, more

    @property
    def step_sizes(self) -> tuple[float, float]:
        """The least and the largest step size."""
        return (self.size_min, self.size_max)

    @step_sizes.setter
    def step_sizes(self, value: tuple[float, float]) -> None:
        self.size_min, self.size_max = value

    def hyperparameters(self) -> tuple[str, ...]:
        """Return the names that ``state_dict`` holds."""
        return ("lr", "etas", "step_sizes", "maximize")

    def initial(self, slot: str, form: Tensor, dtype: DType | None) -> Tensor:
        """Return a state tensor as it is before the first step; step sizes begin with `lr`."""
        zeros = calor.zeros_like(form, dtype=dtype)
        return zeros + self.lr if slot == "step_size" else zeros

    def change(self, index: int, p: Tensor, g: Tensor, shared: Any) -> Tensor:
        """Return the parameter after a step."""
        product = g * self.held("prev", index, p)
        size = self.held("step_size", index, p)
        turned = product < 0.0
        size = calor.where(
            turned,
            size * self.eta_minus,
            calor.where(product > 0.0, size * self.eta_plus, size),
        )
        size = calor.minimum(calor.maximum(size, self.size_min), self.size_max)
        size = self.hold("step_size", index, size)
        g = self.hold("prev", index, calor.where(turned, 0.0, g))
        after: Tensor = p - calor.sign(g) * size
        return after


class Rprop(Optimizer):
    """Rprop: steps whose length follows from the signs of the gradients alone.

    For a gradient g of parameter p, a step does for each element:

    - s = s · etas[1] if g has the sign of the previous gradient, s · etas[0] if it has the other
      one, within `step_sizes`; s is `lr` before the first step
    - g = 0 if the sign has changed
    - p = p − s · sign(g)

    It is meant for gradients of whole data sets. A change of `lr` after the construction changes
    nothing.

    Names, defaults and formulas are those of torch.optim.Rprop. The state of half types is
    float32 unless `state_dtype` says otherwise.

    Parameters
    ----------
    params : Module, iterable of Tensor or iterable of dict
        The parameters, or one dictionary a group: `{"params": ..., "lr": ...}`.
    lr : float
        The first step size.
    etas : tuple of float
        The factors of a step size after a change of sign, in (0, 1), and after none, above 1.
    step_sizes : tuple of float
        The least and the largest step size.
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
    Riedmiller and Braun, "A Direct Adaptive Method for Faster Backpropagation Learning: The RPROP
    Algorithm", 1993.

    Examples
    --------
    >>> import calor
    >>> from calor_train import Rprop
    >>> w = calor.asarray([1.0, -3.0], requires_grad=True)
    >>> optimizer = Rprop([w], lr=0.25)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.75, -2.75]
    """

    group_type = RpropGroup

    def __init__(
        self,
        params: Parameters,
        lr: float = 0.01,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-06, 50.0),
        *,
        maximize: bool = False,
        master_weights: bool = False,
        state_dtype: DType | str | None = None,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "etas": etas,
                "step_sizes": step_sizes,
                "maximize": maximize,
                "master_weights": master_weights,
                "state_dtype": state_dtype,
            },
        )
