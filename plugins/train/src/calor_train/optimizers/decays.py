"""Groups with decay rates, and with factors that depend on the number of the step.

Requirements: 1 − rate and log rate are computed on the host in double precision, since 1 − 0.999 in
float32 is wrong in the fifth digit. What depends on the step is computed once for all parameters of
a dtype and device, as a vector with an element for each parameter.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Protocol

from calor import Tensor
from calor.errors import ArgumentError
from calor_train.optimizers.group import ParameterGroup


class Counted(Protocol):
    """A group that counts steps, and makes numbers of them."""

    @property
    def steps(self) -> Tensor | None:
        """The steps of each parameter."""

    def factors(self, t: Tensor) -> tuple[Tensor, ...]:
        """Return vectors of numbers from the steps made, this one included; all are (n,)."""


class Factors:
    """The numbers of one step that depend on how many steps each parameter has made."""

    def __init__(self, group: Counted) -> None:
        self.group = group
        self.found: dict[Any, tuple[Tensor, ...]] = {}

    def of(self, index: int, p: Tensor) -> tuple[Tensor, ...]:
        """Return the numbers of a parameter, each of shape (1,), or () as the parameter is."""
        key = (p.dtype, p.device)
        if key not in self.found:
            group = self.group
            assert group.steps is not None
            self.found[key] = group.factors(group.steps.astype(p.dtype).to(device=p.device))
        place = slice(index, index + 1) if p.ndim else index
        return tuple(vector[place] for vector in self.found[key])


class DecayingGroup(ParameterGroup):
    """Parameters with running averages, whose decay rates are `rates`.

    A rate ``beta`` sets ``rest_beta``, which is 1 − beta, and ``log_beta`` where a subclass names
    these in `dynamic`.
    """

    pairs = True
    rates: ClassVar[tuple[str, ...]] = ()
    # Whether a rate may be 1; a bias correction would divide by zero then.
    closed: ClassVar[bool] = False

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.rates:
            bound = "at most 1" if self.closed else "below 1"
            known = not isinstance(value, Tensor)
            if not known or not 0 <= float(value) <= 1 or (float(value) == 1 and not self.closed):
                raise ArgumentError(
                    f"{name} must be a number, at least 0 and {bound}, not {value!r}"
                )
            rate = float(value)
            if f"rest_{name}" in self.dynamic:
                super().__setattr__(f"rest_{name}", 1.0 - rate)
            if f"log_{name}" in self.dynamic:
                super().__setattr__(f"log_{name}", math.log(rate) if rate else -math.inf)
        super().__setattr__(name, value)

    @staticmethod
    def checked(name: str, value: Any) -> float:
        """Return a hyper-parameter as a float; ArgumentError when it is out of its range."""
        return float(value) if name.startswith("log_") else ParameterGroup.checked(name, value)

    def prepare(self) -> Factors:
        """Return what all parameters of a step share."""
        return Factors(self)

    def factors(self, t: Tensor) -> tuple[Tensor, ...]:
        """Return vectors of numbers from the steps made, this one included; all are (n,)."""
        raise NotImplementedError

    def average(self, slot: str, index: int, x: Tensor, rest: Any) -> Tensor:
        """Return a running average after it has moved to `x` by the share `rest`."""
        before = self.held(slot, index, x)
        return self.hold(slot, index, before + (x - before) * rest)


class BetasGroup(DecayingGroup):
    """Parameters with two decay rates, which are set and stored as the pair `betas`."""

    rates = ("beta1", "beta2")

    beta1: Any
    beta2: Any
    rest_beta1: Any
    rest_beta2: Any
    log_beta1: Any
    log_beta2: Any

    def set_numbers(self, **numbers: Any) -> None:
        self.betas = numbers.pop("betas")
        super().set_numbers(**numbers)

    @property
    def betas(self) -> tuple[float, float]:
        """The decay rates of the two running averages."""
        return (self.beta1, self.beta2)

    @betas.setter
    def betas(self, value: tuple[float, float]) -> None:
        self.beta1, self.beta2 = value

    def squares(self, slot: str, index: int, g: Tensor) -> Tensor:
        """Return the running average of the squared gradient, with the rate `beta2`."""
        square = self.held(slot, index, g) * self.beta2 + g * g * self.rest_beta2
        return self.hold(slot, index, square)
