"""Schedules: the learning rate as a function of the step.

Requirements: a schedule is a value without state, so it can be printed, compared, plotted, composed
and evaluated at any step; what counts steps is the :class:`Scheduler`. ``value(step, base)`` is the
rate at a step, counted from 0, for a group whose own rate is ``base``. The unit of a step is
whatever the scheduler is stepped by: an optimizer step, or an epoch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from calor.errors import ArgumentError
from calor.transforms.state import Stateful


class Schedule(ABC):
    """A rate as a function of the step; subclasses are values that compare equal by content.

    Examples
    --------
    >>> from calor_train import Schedule
    >>> class Halving(Schedule):
    ...     def value(self, step, base):
    ...         return base / 2**step
    >>> Halving().table(3)
    [1.0, 0.5, 0.25]
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Return the schedule; ArgumentError if it is given an optimizer, as in PyTorch."""
        taken = any(isinstance(given, Stateful) for given in (*args, *kwargs.values()))
        call = f"Scheduler(optimizer, {cls.__name__}(...))"
        _check(not taken, f"{cls.__name__}: a schedule takes no optimizer; write {call}")
        return super().__new__(cls)

    @abstractmethod
    def value(self, step: int, base: float) -> float:
        """Return the rate at a step.

        Parameters
        ----------
        step : int
            The step, counted from 0.
        base : float
            The group's own rate.

        Returns
        -------
        float
            The rate.
        """

    def table(self, steps: int, base: float = 1.0) -> list[float]:
        """Return the rates of the first steps.

        Parameters
        ----------
        steps : int
            How many steps.
        base : float
            The group's own rate.

        Returns
        -------
        list of float
            The rates of steps 0 to steps − 1.

        Examples
        --------
        >>> from calor_train import LinearWarmup
        >>> LinearWarmup(4).table(5)
        [0.25, 0.5, 0.75, 1.0, 1.0]
        """
        return [self.value(step, base) for step in range(steps)]


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise ArgumentError(message)


@dataclass(frozen=True)
class Constant(Schedule):
    """The base rate times a factor, at every step.

    Parameters
    ----------
    factor : float
        The factor.

    Examples
    --------
    >>> from calor_train import Constant
    >>> Constant(0.5).table(3)
    [0.5, 0.5, 0.5]
    """

    factor: float = 1.0

    def value(self, step: int, base: float) -> float:
        return base * self.factor


@dataclass(frozen=True)
class StepDecay(Schedule):
    """A rate that is multiplied by a factor after every so many steps.

    Parameters
    ----------
    step_size : int
        Steps between two multiplications; above 0.
    gamma : float
        The factor.

    Raises
    ------
    ArgumentError
        If `step_size` is not above 0.

    Examples
    --------
    >>> from calor_train import StepDecay
    >>> StepDecay(2, gamma=0.5).table(5)
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """

    step_size: int
    gamma: float = 0.1

    def value(self, step: int, base: float) -> float:
        return base * self.gamma ** (step // self.step_size)


@dataclass(frozen=True)
class MultiStep(Schedule):
    """A rate that is multiplied by a factor at given steps.

    Parameters
    ----------
    milestones : sequence of int
        The steps, in ascending order.
    gamma : float
        The factor.

    Raises
    ------
    ArgumentError
        If the milestones do not ascend.

    Examples
    --------
    >>> from calor_train import MultiStep
    >>> MultiStep((2, 3), gamma=0.5).table(5)
    [1.0, 1.0, 0.5, 0.25, 0.25]
    """

    milestones: Sequence[int]
    gamma: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "milestones", tuple(self.milestones))
        ordered = list(self.milestones) == sorted(self.milestones)
        _check(ordered, f"milestones must ascend, not {self.milestones}")

    def value(self, step: int, base: float) -> float:
        return base * self.gamma ** sum(step >= m for m in self.milestones)


@dataclass(frozen=True)
class Exponential(Schedule):
    """A rate that is multiplied by a factor at every step.

    Parameters
    ----------
    gamma : float
        The factor.

    Examples
    --------
    >>> from calor_train import Exponential
    >>> Exponential(0.5).table(3)
    [1.0, 0.5, 0.25]
    """

    gamma: float

    def value(self, step: int, base: float) -> float:
        return base * self.gamma**step


@dataclass(frozen=True)
class Cosine(Schedule):
    """Half a cosine from the base rate down to a minimum, which then stays.

    Parameters
    ----------
    steps : int
        The step at which the minimum is reached; above 0.
    minimum : float
        The last rate.

    Raises
    ------
    ArgumentError
        If `steps` is not above 0.

    References
    ----------
    Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2017.

    Examples
    --------
    >>> from calor_train import Cosine
    >>> [round(x, 3) for x in Cosine(4).table(6)]
    [1.0, 0.854, 0.5, 0.146, 0.0, 0.0]
    """

    steps: int
    minimum: float = 0.0

    def value(self, step: int, base: float) -> float:
        return _cosine(min(step / self.steps, 1.0), base, self.minimum)


@dataclass(frozen=True)
class CosineRestarts(Schedule):
    """Half a cosine from the base rate down to a minimum, over and over.

    Parameters
    ----------
    first : int
        Steps of the first cycle; above 0.
    multiplier : int
        How many times as long each cycle is as the one before; at least 1.
    minimum : float
        The rate at the end of a cycle.

    Raises
    ------
    ArgumentError
        If a number is out of its range.

    References
    ----------
    Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2017.

    Examples
    --------
    >>> from calor_train import CosineRestarts
    >>> [round(x, 3) for x in CosineRestarts(2, multiplier=2).table(7)]
    [1.0, 0.5, 1.0, 0.854, 0.5, 0.146, 1.0]
    """

    first: int
    multiplier: int = 1
    minimum: float = 0.0

    def value(self, step: int, base: float) -> float:
        length = self.first
        if self.multiplier == 1:
            return _cosine(step % length / length, base, self.minimum)
        while step >= length:
            step -= length
            length *= self.multiplier
        return _cosine(step / length, base, self.minimum)


@dataclass(frozen=True)
class LinearWarmup(Schedule):
    """A straight rise to the base rate, which the last of the steps reaches.

    Parameters
    ----------
    steps : int
        Steps of the rise; above 0.
    start : float, optional
        The first rate, as a share of the base; 1 / steps if left out, so that no step has rate 0.

    Raises
    ------
    ArgumentError
        If `steps` is not above 0.

    References
    ----------
    Goyal et al., "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour", 2017.

    Examples
    --------
    >>> from calor_train import LinearWarmup
    >>> LinearWarmup(2).table(3)
    [0.5, 1.0, 1.0]
    """

    steps: int
    start: float | None = None

    def value(self, step: int, base: float) -> float:
        if step >= self.steps - 1:
            return base
        start = 1.0 / self.steps if self.start is None else self.start
        return base * (start + (1.0 - start) * step / (self.steps - 1))


@dataclass(frozen=True)
class LinearRamp(Schedule):
    """A straight line between two shares of the base rate, the second of which then stays.

    Parameters
    ----------
    steps : int
        The step at which the line ends; above 0.
    start : float
        The first rate, as a share of the base.
    end : float
        The last rate, as a share of the base.

    Raises
    ------
    ArgumentError
        If `steps` is not above 0.

    Examples
    --------
    >>> from calor_train import LinearRamp
    >>> LinearRamp(4, start=1.0, end=0.0).table(6)
    [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    """

    steps: int
    start: float = 1.0 / 3.0
    end: float = 1.0

    def value(self, step: int, base: float) -> float:
        part = min(step / self.steps, 1.0)
        return base * (self.start + (self.end - self.start) * part)


@dataclass(frozen=True)
class Polynomial(Schedule):
    """A fall from the base rate to a minimum, which then stays.

    The rate is minimum + (base − minimum) · (1 − step / steps)^power.

    Parameters
    ----------
    steps : int
        The step at which the minimum is reached; above 0.
    power : float
        The exponent; 1 is a straight line.
    minimum : float
        The last rate.

    Raises
    ------
    ArgumentError
        If `steps` is not above 0.

    Examples
    --------
    >>> from calor_train import Polynomial
    >>> Polynomial(4, power=2.0).table(6)
    [1.0, 0.5625, 0.25, 0.0625, 0.0, 0.0]
    """

    steps: int
    power: float = 1.0
    minimum: float = 0.0

    def value(self, step: int, base: float) -> float:
        left = 1.0 - min(step / self.steps, 1.0)
        return self.minimum + (base - self.minimum) * math.pow(left, self.power)


@dataclass(frozen=True)
class OneCycle(Schedule):
    """One cycle: up to the base rate, then down to almost nothing.

    Numbers are those of PyTorch's OneCycleLR with max_lr as the base rate. Momentum goes the other
    way: schedule it with :class:`OneCycleMomentum`.

    Parameters
    ----------
    steps : int
        Steps of the cycle; at least 2.
    pct_start : float
        The share of the steps that go up, in [0, 1].
    anneal : {"cosine", "linear"}
        Whether each part is half a cosine or a line.
    div_factor : float
        The first rate is base / div_factor.
    final_div_factor : float
        The last rate is base / div_factor / final_div_factor.

    Raises
    ------
    ArgumentError
        If a number is out of its range, or `anneal` is unknown.

    References
    ----------
    Smith and Topin, "Super-Convergence: Very Fast Training of Neural Networks Using Large Learning
    Rates", 2018.

    Examples
    --------
    >>> from calor_train import OneCycle
    >>> OneCycle(5, pct_start=0.5, anneal="linear", div_factor=4.0).table(2)
    [0.25, 0.75]
    """

    steps: int
    pct_start: float = 0.3
    anneal: Literal["cosine", "linear"] = "cosine"
    div_factor: float = 25.0
    final_div_factor: float = 1e4

    def value(self, step: int, base: float) -> float:
        first = base / self.div_factor
        up = self.pct_start * self.steps - 1
        return _there_and_back(
            step, up, self.steps - 1, (first, base, first / self.final_div_factor), self.anneal
        )


@dataclass(frozen=True)
class OneCycleMomentum(Schedule):
    """The momentum that goes with :class:`OneCycle`: down, then up again.

    For Adam the name to schedule is `beta1`.

    Parameters
    ----------
    steps : int
        Steps of the cycle.
    pct_start : float
        The share of the steps that go down, in [0, 1].
    anneal : {"cosine", "linear"}
        Whether each part is half a cosine or a line.
    low : float
        The least momentum.
    high : float
        The first and last momentum.

    Examples
    --------
    >>> from calor_train import OneCycleMomentum
    >>> [round(x, 2) for x in OneCycleMomentum(5, pct_start=0.6, anneal="linear").table(3)]
    [0.95, 0.9, 0.85]
    """

    steps: int
    pct_start: float = 0.3
    anneal: Literal["cosine", "linear"] = "cosine"
    low: float = 0.85
    high: float = 0.95

    def value(self, step: int, base: float) -> float:
        """Return the momentum at a step; the base is not used.

        Parameters
        ----------
        step : int
            The step, counted from 0.
        base : float
            The group's own rate.

        Returns
        -------
        float
            The momentum.
        """
        up = self.pct_start * self.steps - 1
        values = (self.high, self.low, self.high)
        return _there_and_back(step, up, self.steps - 1, values, self.anneal)


@dataclass(frozen=True)
class Chained(Schedule):
    """Several schedules at once: each takes the rate of the one before as its base.

    Parameters
    ----------
    *schedules : Schedule
        The schedules; at least one.

    Raises
    ------
    ArgumentError
        If there is no schedule.

    Examples
    --------
    >>> from calor_train import Chained, LinearWarmup, StepDecay
    >>> Chained(LinearWarmup(2), StepDecay(3, gamma=0.5)).table(5)
    [0.5, 1.0, 1.0, 0.5, 0.5]
    """

    schedules: tuple[Schedule, ...]

    def __init__(self, *schedules: Schedule) -> None:
        _check(bool(schedules), "Chained takes at least one schedule")
        object.__setattr__(self, "schedules", schedules)

    def value(self, step: int, base: float) -> float:
        for schedule in self.schedules:
            base = schedule.value(step, base)
        return base


@dataclass(frozen=True)
class Joined(Schedule):
    """Several schedules one after another; each counts its steps from its own milestone.

    Parameters
    ----------
    schedules : sequence of Schedule
        The schedules.
    milestones : sequence of int
        The steps at which the second, third, … schedule begins, in ascending order.

    Raises
    ------
    ArgumentError
        If the milestones do not ascend, or there is not one for each schedule after the first.

    Examples
    --------
    >>> from calor_train import Cosine, LinearWarmup, Joined
    >>> warm = Joined([LinearWarmup(2), Cosine(2)], milestones=[2])
    >>> [round(x, 3) for x in warm.table(6)]
    [0.5, 1.0, 1.0, 0.5, 0.0, 0.0]
    """

    schedules: Sequence[Schedule]
    milestones: Sequence[int]

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedules", tuple(self.schedules))
        object.__setattr__(self, "milestones", tuple(self.milestones))
        _check(
            len(self.milestones) == len(self.schedules) - 1,
            f"{len(self.schedules)} schedules need {len(self.schedules) - 1} milestones, "
            f"not {len(self.milestones)}",
        )
        ordered = list(self.milestones) == sorted(self.milestones)
        _check(ordered, f"milestones must ascend, not {self.milestones}")

    def value(self, step: int, base: float) -> float:
        index = sum(step >= m for m in self.milestones)
        start = self.milestones[index - 1] if index else 0
        return self.schedules[index].value(step - start, base)


def _cosine(part: float, start: float, end: float) -> float:
    return end + (start - end) * 0.5 * (1.0 + math.cos(math.pi * part))


def _there_and_back(
    step: int, up: float, last: float, values: tuple[float, float, float], anneal: str
) -> float:
    """Return a value that goes from the first, at 0, to the second, at ``up``, and the third."""
    if step <= up and up > 0:
        part, start, end = step / up, values[0], values[1]
    else:
        part, start, end = min((step - up) / (last - up), 1.0), values[1], values[2]
    return _cosine(part, start, end) if anneal == "cosine" else start + (end - start) * part
