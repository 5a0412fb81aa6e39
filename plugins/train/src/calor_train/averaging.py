"""Averages of weights over the steps of a training run.

Requirements: an update runs within a jitted step, so averages exist from construction on and change
in place. Buffers are copied, since averages of counters and running statistics mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import calor
from calor import Tensor
from calor.errors import ArgumentError, ShapeError
from calor.transforms.state import Stateful
from calor_nn.module import Module
from calor_train.optimizers.group import assign
from calor_train.optimizers.working import working_dtype


class ExponentialMovingAverage(Stateful):
    """An exponential moving average of a model's weights, for evaluation.

    After each step of the optimizer `update()` does a = decay · a + (1 − decay) · p for every
    parameter, and copies the buffers. Averages of half types are float32. `update` may run inside
    `calor.jit` if the average is an argument of the function.

    Parameters
    ----------
    model : Module
        The model.
    decay : float
        The share of the average that an update keeps, in [0, 1).

    Raises
    ------
    ArgumentError
        If `decay` is out of its range.

    References
    ----------
    Polyak and Juditsky, "Acceleration of Stochastic Approximation by Averaging", 1992.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> from calor_train import ExponentialMovingAverage
    >>> model = nn.Linear(1, 1, bias=False)
    >>> model.weight = nn.Parameter(calor.asarray([[1.0]]))
    >>> average = ExponentialMovingAverage(model, decay=0.75)
    >>> with calor.no_grad():
    ...     model.weight[...] = 5.0
    >>> average.update()
    >>> with average.swapped():
    ...     inside = model.weight.tolist()
    >>> inside, model.weight.tolist()
    ([[2.0]], [[5.0]])
    """

    def __init__(self, model: Module, decay: float = 0.999) -> None:
        self.decay = decay
        named = [*model.named_parameters(), *model.named_buffers()]
        self.names = tuple(name for name, _ in named)
        self.sources: list[Tensor] = [tensor for _, tensor in named]
        self.averaged = sum(1 for _ in model.named_parameters())
        with calor.no_grad():
            self.averages = [
                x.detach().astype(working_dtype(x.dtype)).copy()
                if index < self.averaged
                else x.detach().copy()
                for index, x in enumerate(self.sources)
            ]

    @property
    def decay(self) -> float:
        """The share of the average that an update keeps."""
        return self._decay

    @decay.setter
    def decay(self, value: float) -> None:
        if not 0 <= value < 1:
            raise ArgumentError(f"decay must be at least 0 and below 1, not {value!r}")
        self._decay = float(value)
        # On the host, in double precision: in float32 1 − 0.9999 is wrong in the fourth digit.
        self._rest = 1.0 - self._decay

    def update(self) -> None:
        """Move the averages towards the present parameters, and copy the buffers."""
        with calor.no_grad():
            for index, (held, x) in enumerate(zip(self.averages, self.sources, strict=True)):
                now = x.detach().astype(held.dtype)
                if index < self.averaged:
                    now = held + (now - held) * self._rest
                assign(held, now)

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """Give the model the averages within a `with` block; its own weights return after it.

        Yields
        ------
        None
            Nothing.
        """
        own = [x.detach().copy() for x in self.sources]
        for x, held in zip(self.sources, self.averages, strict=True):
            assign(x, held.astype(x.dtype))
        try:
            yield
        finally:
            for x, value in zip(self.sources, own, strict=True):
                assign(x, value)

    def state_dict(self) -> dict[str, Any]:
        """Return copies of the averages by the names of the model.

        Returns
        -------
        dict of str to Any
            The tensors.
        """
        pairs = zip(self.names, self.averages, strict=True)
        return {name: held.detach().copy() for name, held in pairs}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore averages.

        Parameters
        ----------
        state_dict : mapping of str to Any
            What `state_dict` returned.

        Raises
        ------
        ArgumentError
            If the names are others; nothing is changed.
        ShapeError
            If a tensor has another shape; nothing is changed.
        """
        if set(state_dict) != set(self.names):
            other = sorted(set(state_dict) ^ set(self.names))
            raise ArgumentError(f"the saved averages are of another model: {', '.join(other)}")
        for name, held in zip(self.names, self.averages, strict=True):
            if tuple(state_dict[name].shape) != held.shape:
                raise ShapeError(
                    f"{name} has shape {tuple(state_dict[name].shape)}, expected {held.shape}"
                )
        for name, held in zip(self.names, self.averages, strict=True):
            assign(held, calor.asarray(state_dict[name], dtype=held.dtype, device=held.device))
