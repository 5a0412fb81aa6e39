"""The scheduler: counts steps and sets hyper-parameters of an optimizer by schedules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calor.errors import ArgumentError
from calor_train.optimizers import Optimizer
from calor_train.schedules import Schedule


class Scheduler:
    """Sets hyper-parameters of all groups of an optimizer, step after step.

    The value that a group has when the scheduler is made is the base of that group. Call `step()`
    after each `optimizer.step()`, or after each epoch if the schedules count epochs.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer.
    **schedules : Schedule
        A schedule for each hyper-parameter, by its name: `lr=Cosine(1000)`.

    Raises
    ------
    ArgumentError
        If there is no schedule, a value is not a schedule, or the optimizer does not have the
        hyper-parameter.

    Examples
    --------
    >>> import calor
    >>> from calor_train import SGD, Scheduler, StepDecay
    >>> optimizer = SGD([calor.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = Scheduler(optimizer, lr=StepDecay(1, gamma=0.5))
    >>> scheduler.step()
    >>> optimizer.lr
    0.5
    """

    def __init__(self, optimizer: Optimizer, **schedules: Schedule) -> None:
        if not schedules:
            raise ArgumentError(
                "Scheduler needs a schedule, such as Scheduler(optimizer, lr=Cosine(1000))"
            )
        for name, schedule in schedules.items():
            if not isinstance(schedule, Schedule):
                raise ArgumentError(
                    f"{name} must be a schedule, such as Cosine(1000), not {schedule!r}"
                )
            for group in optimizer.param_groups:
                if name not in group.dynamic:
                    known = ", ".join(group.dynamic)
                    raise ArgumentError(
                        f"the optimizer has no {name!r} to schedule; choose one of {known}"
                    )
        self.optimizer = optimizer
        self.schedules = schedules
        self.count = 0
        self.bases = {
            name: [float(group[name]) for group in optimizer.param_groups] for name in schedules
        }
        self._set()

    def step(self) -> None:
        """Go to the next step and set the hyper-parameters for it."""
        self.count += 1
        self._set()

    def _set(self) -> None:
        for name, schedule in self.schedules.items():
            for group, base in zip(self.optimizer.param_groups, self.bases[name], strict=True):
                group[name] = schedule.value(self.count, base)

    def state_dict(self) -> dict[str, Any]:
        """Return the number of steps and the base values.

        Returns
        -------
        dict of str to Any
            The keys "count" and "bases".
        """
        return {"count": self.count, "bases": {k: list(v) for k, v in self.bases.items()}}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a state, and set the hyper-parameters for its step.

        Parameters
        ----------
        state_dict : mapping of str to Any
            What `state_dict` returned.

        Raises
        ------
        ArgumentError
            If it is of other hyper-parameters or another number of groups.
        """
        bases = {name: [float(x) for x in held] for name, held in state_dict["bases"].items()}
        groups = len(self.optimizer.param_groups)
        if set(bases) != set(self.schedules) or any(len(b) != groups for b in bases.values()):
            raise ArgumentError(
                f"the saved scheduler sets {sorted(bases)}, this one {sorted(self.schedules)} "
                f"of {groups} parameter groups"
            )
        self.bases = bases
        self.count = int(state_dict["count"])
        self._set()
