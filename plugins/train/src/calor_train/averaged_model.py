"""The mean of the weights of several steps, as a model of its own, and its batch norms.

Requirements: an update runs within a jitted step, so the count is a tensor, and the first update
has the structure of all others.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import calor
from calor import Tensor
from calor.errors import ArgumentError
from calor_nn import BatchNorm1d, BatchNorm2d, BatchNorm3d
from calor_nn.modes import kept_modes
from calor_nn.module import Module
from calor_train.optimizers.group import assign
from calor_train.optimizers.working import working_dtype


class AveragedModel(Module):
    """A copy of a model whose weights are the mean of those of its updates.

    After some epochs of a high rate call `update_parameters(model)` once an epoch; at the end
    `update_bn` gives batch norms the statistics of the mean. The copy of the model is the attribute
    `module`, and calls are calls of it.

    Parameters
    ----------
    model : Module
        The model, which is copied.
    use_buffers : bool
        Average floating buffers too; else they are copied.

    Attributes
    ----------
    n_averaged : Tensor
        How many updates there were, int32.

    References
    ----------
    Izmailov et al., "Averaging Weights Leads to Wider Optima and Better Generalization", 2018.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> from calor_train import AveragedModel
    >>> model = nn.Linear(1, 1, bias=False)
    >>> mean = AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     model.weight = nn.Parameter(calor.asarray([[value]]))
    ...     mean.update_parameters(model)
    >>> mean(calor.ones((1, 1))).item()
    3.0
    """

    n_averaged: Tensor

    def __init__(self, model: Module, *, use_buffers: bool = False) -> None:
        super().__init__()
        self.module = copy.deepcopy(model)
        self.use_buffers = use_buffers
        device = next((p.device for p in model.parameters()), None)
        self.register_buffer("n_averaged", calor.zeros((), dtype=calor.int32, device=device))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the copy.

        Parameters
        ----------
        *args : Any
            Its arguments.
        **kwargs : Any
            Its keyword arguments.

        Returns
        -------
        Any
            Its result.
        """
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Add the weights of a model to the mean; the first ones are the mean.

        Parameters
        ----------
        model : Module
            A model with the names and shapes of the one that was copied.

        Raises
        ------
        ArgumentError
            If names or shapes differ; nothing is changed.
        """
        kinds = ("named_parameters", "named_buffers")
        own, given = ([dict(getattr(m, kind)()) for kind in kinds] for m in (self.module, model))
        for held, now in zip(own, given, strict=True):
            other = set(held) ^ set(now) or {n for n, x in held.items() if x.shape != now[n].shape}
            if other:
                raise ArgumentError(f"another model than was copied: {', '.join(sorted(other))}")
        with calor.no_grad():
            for name, held in own[0].items():
                assign(held, self._mean(held, given[0][name].detach()))
            for name, held in own[1].items():
                now = given[1][name].detach()
                averaged = self.use_buffers and held.dtype.is_inexact
                assign(held, self._mean(held, now) if averaged else now.astype(held.dtype))
            assign(self.n_averaged, self.n_averaged + 1)

    def _mean(self, held: Tensor, now: Tensor) -> Tensor:
        """Return the mean of a weight with one more."""
        dtype = working_dtype(held.dtype)
        before, now = held.detach().astype(dtype), now.astype(dtype)
        moved = before + (now - before) / (self.n_averaged + 1).astype(dtype)
        made: Tensor = calor.where(self.n_averaged == 0, now, moved).astype(held.dtype)
        return made


def update_bn(batches: Iterable[Any], model: Module) -> None:
    """Give the batch norms of a model the mean statistics of batches.

    Parameters
    ----------
    batches : iterable
        What the model is called with: tensors or arrays, or tuples and lists of which that is the
        first item, as a loader yields them.
    model : Module
        The model. Afterwards its modules are in training or evaluation as before.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> from calor_train import update_bn
    >>> norm = nn.BatchNorm1d(1)
    >>> update_bn([calor.asarray([[1.0], [3.0]]), calor.asarray([[5.0], [7.0]])], norm)
    >>> norm.running_mean.tolist(), norm.running_var.tolist()
    ([4.0], [2.0])
    """
    norms = [
        m
        for m in model.modules()
        if isinstance(m, BatchNorm1d | BatchNorm2d | BatchNorm3d) and m.running_mean is not None
    ]
    if not norms:
        return
    momenta = [m.momentum for m in norms]
    for norm in norms:
        for held in (norm.running_mean, norm.running_var, norm.num_batches_tracked):
            assert held is not None
            one = held is norm.running_var
            assign(held, calor.ones_like(held) if one else calor.zeros_like(held))
        # Every batch counts the same.
        norm.momentum = None
    try:
        with kept_modes(model), calor.no_grad():
            model.train()
            for batch in batches:
                x = batch[0] if isinstance(batch, list | tuple) else batch
                model(x if isinstance(x, Tensor) else calor.asarray(x))
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
