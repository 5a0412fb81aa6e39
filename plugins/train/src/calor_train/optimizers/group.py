"""Parameter groups: parameters that share hyper-parameters, with their state.

Requirements: state exists from construction on, and every step changes tensors in place, so that a
jitted step always meets the same structure. Hyper-parameters are run-time numbers. Only whether
one is zero is structure, since operations with a hyper-parameter of zero are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

import calor
from calor import DType, Tensor
from calor.dtypes import as_dtype
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.transforms.state import Stateful
from calor_train.optimizers.working import enter, leave


class ParameterGroup(Stateful):
    """Parameters that share hyper-parameters, and their state: an entry of `param_groups`.

    A subclass names its hyper-parameters in `dynamic`, passes the names of its state tensors as
    `slots`, and writes `change`, the rule for one parameter. Hyper-parameters are attributes and
    items alike: `group.lr` is `group["lr"]`.

    Parameters
    ----------
    params : sequence of Tensor
        The parameters.
    names : sequence of str
        Their names, for messages.
    slots : sequence of str
        Names of the state tensors, one of each for each parameter, in its shape.
    counted : bool
        Count the steps of each parameter.
    maximize : bool
        Ascend in place of descending.
    master_weights : bool
        Keep float32 copies of float16 and bfloat16 parameters.
    state_dtype : DType or str, optional
        The floating dtype of the state tensors; by default that in which a step is computed.
    **numbers : float or Tensor
        The hyper-parameters by name.

    Raises
    ------
    ArgumentError
        If a hyper-parameter is negative or not a number.
    DTypeError
        If ``state_dtype`` is not floating, or the state of a parameter is complex.

    Examples
    --------
    >>> import calor
    >>> from calor_train import SGD
    >>> group = SGD([calor.ones(2, requires_grad=True)], lr=0.5).param_groups[0]
    >>> group["lr"], group.names
    (0.5, ('0',))
    """

    dynamic: ClassVar[tuple[str, ...]] = ("lr", "weight_decay")
    # Hyper-parameters whose operations are left out while they are zero.
    optional: ClassVar[tuple[str, ...]] = ("weight_decay",)
    # Whether complex parameters are computed with as pairs of real numbers.
    pairs: ClassVar[bool] = False

    lr: Any
    weight_decay: Any

    def __init__(
        self,
        params: Sequence[Tensor],
        names: Sequence[str],
        *,
        slots: Sequence[str],
        counted: bool,
        maximize: bool,
        master_weights: bool,
        state_dtype: DType | str | None,
        **numbers: Any,
    ) -> None:
        self.used: frozenset[str] = frozenset()
        self.params = list(params)
        self.names = tuple(names)
        self.maximize = maximize
        self.set_numbers(**numbers)
        with calor.no_grad():
            forms = [enter(p.detach(), self.pairs) for p in self.params]
            kept = None if state_dtype is None else self._kept_in(as_dtype(state_dtype), forms)
            self.state: dict[str, list[Any]] = {}
            for slot in slots:
                self.state[slot] = [self.initial(slot, x, kept) for x in forms]
            self.masters: list[Tensor | None] = [
                x.copy()
                if master_weights and x.dtype is not p.dtype and not p.dtype.is_complex
                else None
                for x, p in zip(forms, self.params, strict=True)
            ]
            # The steps of each parameter: without a gradient it makes none.
            device = self.params[0].device if self.params else None
            self.steps = (
                calor.zeros((len(self.params),), dtype=calor.int32, device=device)
                if counted
                else None
            )

    def set_numbers(self, **numbers: Any) -> None:
        """Set the hyper-parameters.

        Parameters
        ----------
        **numbers : float or Tensor
            The values by name.
        """
        for name, value in numbers.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.dynamic:
            super().__setattr__(name, value)
            return
        if not isinstance(value, Tensor):
            value = self.checked(name, value)
        used = self.used - {name}
        if name in self.optional and (isinstance(value, Tensor) or value):
            used |= {name}
        if used == self.used and type(value) is float and type(vars(self).get(name)) is float:
            # Another number changes no structure, so jit need not check it again.
            object.__setattr__(self, name, value)
            return
        super().__setattr__("used", used)
        super().__setattr__(name, value)

    @staticmethod
    def checked(name: str, value: Any) -> float:
        """Return a hyper-parameter as a float.

        Parameters
        ----------
        name : str
            Its name, for the message.
        value : Any
            Its value.

        Returns
        -------
        float
            The value.

        Raises
        ------
        ArgumentError
            If the value is negative or not a number.
        """
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise ArgumentError(f"{name} must be a number, not {value!r}") from None
        if not number >= 0:
            raise ArgumentError(f"{name} must be at least 0, not {value!r}")
        return number

    def __getitem__(self, name: str) -> Any:
        if name == "params":
            return self.params
        if name not in (*self.dynamic, *self.hyperparameters()):
            raise KeyError(name)
        return getattr(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in (*self.dynamic, *self.hyperparameters()):
            known = ", ".join(self.hyperparameters())
            raise ArgumentError(f"the group has no hyper-parameter {name!r}; choose one of {known}")
        setattr(self, name, value)

    def hyperparameters(self) -> tuple[str, ...]:
        """Return the names of the hyper-parameters in `state_dict`.

        Returns
        -------
        tuple of str
            The names.
        """
        return (*self.dynamic, "maximize")

    def initial(self, slot: str, form: Tensor, dtype: DType | None) -> Tensor | None:
        """Return a state tensor as it is before the first step.

        Parameters
        ----------
        slot : str
            The name of the state.
        form : Tensor
            The parameter in the form in which a step is computed.
        dtype : DType or None
            The dtype of the state; None for that of `form`.

        Returns
        -------
        Tensor or None
            Zeros, unless a subclass begins elsewhere; None where the parameter has no such state.
        """
        return calor.zeros_like(form, dtype=dtype)

    def prepare(self) -> Any:
        """Return what all parameters of a step share; `change` receives it.

        Returns
        -------
        Any
            None, unless a subclass computes something once a step.
        """

    def change(self, index: int, p: Tensor, g: Tensor, shared: Any) -> Tensor:
        """Return a parameter after a step, and update its state.

        Parameters
        ----------
        index : int
            The parameter's position in the group.
        p : Tensor
            The parameter, at least float32.
        g : Tensor
            Its gradient, of the shape and dtype of `p`.
        shared : Any
            What `prepare` returned.

        Returns
        -------
        Tensor
            The new value, of the shape and dtype of `p`.
        """
        raise NotImplementedError

    def step(self, grads: Sequence[Tensor | None]) -> None:
        """Change the parameters that have a gradient; the others keep their state as well.

        Parameters
        ----------
        grads : sequence of Tensor or None
            A gradient for each parameter.

        Raises
        ------
        ArgumentError
            If there is not one for each parameter.
        ShapeError
            If a gradient has another shape than its parameter.
        DTypeError
            If a gradient is complex and its parameter is real.
        """
        if len(grads) != len(self.params):
            raise ArgumentError(
                f"there are {len(self.params)} parameters and {len(grads)} gradients; "
                f"pass None for a parameter without one"
            )
        present = [g is not None for g in grads]
        if not any(present):
            return
        with calor.no_grad():
            if self.steps is not None:
                self.count(self.steps, present)
            shared = self.prepare()
            for index, (p, g) in enumerate(zip(self.params, grads, strict=True)):
                if g is not None:
                    self._step_one(index, p, g, shared)

    def _kept_in(self, dtype: DType, forms: Sequence[Tensor]) -> DType:
        """Return the dtype of the state, after a check."""
        if not dtype.is_floating:
            raise DTypeError(f"state_dtype must be a floating dtype, not {dtype.name}")
        for name, form in zip(self.names, forms, strict=True):
            if form.dtype.is_complex:
                raise DTypeError(
                    f"the state of parameter {name!r} is {form.dtype.name}, which {dtype.name} "
                    f"cannot hold; leave state_dtype out"
                )
        return dtype

    def held(self, slot: str, index: int, p: Tensor) -> Tensor:
        """Return a state tensor in the dtype in which a step is computed.

        Parameters
        ----------
        slot : str
            The name of the state.
        index : int
            The parameter's position in the group.
        p : Tensor
            The parameter, as `change` receives it.

        Returns
        -------
        Tensor
            The state, of the dtype of `p`.
        """
        found: Tensor = self.state[slot][index]
        return found if found.dtype is p.dtype else found.astype(p.dtype)

    def hold(self, slot: str, index: int, value: Tensor) -> Tensor:
        """Set a state tensor, rounded to its dtype.

        Parameters
        ----------
        slot : str
            The name of the state.
        index : int
            The parameter's position in the group.
        value : Tensor
            The new state.

        Returns
        -------
        Tensor
            `value`, as it was before rounding.
        """
        target = self.state[slot][index]
        assign(target, value if value.dtype is target.dtype else value.astype(target.dtype))
        return value

    def count(self, steps: Tensor, present: Sequence[bool]) -> None:
        """Count a step of the parameters that make one.

        Parameters
        ----------
        steps : Tensor
            The counters, int32 (n,).
        present : sequence of bool
            Which parameters make a step.
        """
        if all(present):
            steps += 1
        else:
            steps += calor.asarray(np.asarray(present, np.int32), device=steps.device)

    def _step_one(self, index: int, p: Tensor, g: Tensor, shared: Any) -> None:
        if g.shape != p.shape:
            raise ShapeError(
                f"parameter {self.names[index]!r} has shape {p.shape}, its gradient {g.shape}"
            )
        if g.dtype.is_complex and not p.dtype.is_complex:
            raise DTypeError(
                f"parameter {self.names[index]!r} is {p.dtype.name}, its gradient {g.dtype.name}"
            )
        master = self.masters[index]
        before = enter(p, self.pairs) if master is None else master
        g = enter(g, self.pairs)
        if g.dtype is not before.dtype:
            g = g.astype(before.dtype)
        after = self.change(index, before, -g if self.maximize else g, shared)
        if master is not None:
            assign(master, after)
        assign(p, leave(after, p, self.pairs))

    def counts(self) -> list[int] | None:
        """Return how many steps each parameter has made.

        Returns
        -------
        list of int or None
            The counts; None if the group does not count.
        """
        return None if self.steps is None else [int(n) for n in self.steps.numpy()]

    def entries(self) -> Iterator[dict[str, Any]]:
        """Yield the state of each parameter.

        Yields
        ------
        dict of str to Any
            Copies of the state tensors by name, and the number of steps.
        """
        counts = self.counts()
        for index in range(len(self.params)):
            entry: dict[str, Any] = {} if counts is None else {"step": counts[index]}
            entry |= {slot: held.detach() for slot, held in self._slots(index)}
            master = self.masters[index]
            if master is not None:
                entry["master"] = master.detach()
            yield entry

    def _slots(self, index: int) -> Iterator[tuple[str, Tensor]]:
        """Yield the state tensors that a parameter has, by name."""
        for slot, held in self.state.items():
            if held[index] is not None:
                yield slot, held[index]

    def assignments(self, entries: Sequence[Mapping[str, Any]]) -> list[tuple[Tensor, Any]]:
        """Return each state tensor with its saved value.

        Parameters
        ----------
        entries : sequence of mapping
            The saved state of each parameter, as `entries` yields it.

        Returns
        -------
        list of tuple
            (tensor, saved value).

        Raises
        ------
        ArgumentError
            If the names of a saved state are others.
        ShapeError
            If a saved value has another shape.
        """
        found: list[tuple[Tensor, Any]] = []
        for index, entry in enumerate(entries):
            wanted = dict(self._slots(index))
            if (master := self.masters[index]) is not None:
                wanted["master"] = master
            expected = set(wanted) | ({"step"} if self.steps is not None else set())
            if set(entry) != expected:
                raise ArgumentError(
                    f"state of parameter {self.names[index]!r}: expected {sorted(expected)}, "
                    f"found {sorted(entry)}; was the optimizer made with other options?"
                )
            for slot, held in wanted.items():
                if tuple(entry[slot].shape) != held.shape:
                    raise ShapeError(
                        f"{slot} of parameter {self.names[index]!r} has shape "
                        f"{tuple(entry[slot].shape)}, expected {held.shape}"
                    )
                found.append((held, entry[slot]))
        if self.steps is not None:
            counts = np.asarray([int(entry["step"]) for entry in entries], np.int32)
            found.append((self.steps, counts))
        return found


def assign(target: Tensor, value: Tensor) -> None:
    """Set the value of a tensor, of the same shape and dtype; its handle stays the same."""
    with calor.no_grad():
        target._rebind(value.detach())
