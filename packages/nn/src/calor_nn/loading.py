"""Putting values into the tensors of a module: state dicts, devices and dtypes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import calor
from calor import Tensor
from calor.dtypes import names_dtype
from calor.errors import CalorError
from calor_nn.parameters import Holder, held_tensors


class LoadError(CalorError, KeyError):
    """A state dict does not fit a module; the message is the whole report.

    Parameters
    ----------
    message : str
        The report.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class LoadReport:
    """What a state dict and a module have in common, and what they do not.

    It is true if everything fitted; `str` gives one line a weight.

    Parameters
    ----------
    loaded : tuple of str
        Paths of the module that were set.
    missing : tuple of str
        Paths of the module that the state dict does not have.
    unexpected : tuple of str
        Names of the state dict that the module does not have.
    misshaped : mapping of str to tuple
        Path to (shape in the module, shape in the state dict).

    Examples
    --------
    >>> from calor import nn
    >>> report = nn.Linear(2, 1).load_state_dict({}, strict=False)
    >>> bool(report), report.missing
    (False, ('weight', 'bias'))
    """

    loaded: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    misshaped: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Return whether everything fitted."""
        return not (self.missing or self.unexpected or self.misshaped)

    def __str__(self) -> str:
        """Return the report as text, one line a weight."""
        lines = [f"{len(self.loaded)} loaded"]
        if self.missing:
            lines.append(f"{len(self.missing)} missing (in the module, not in the weights):")
            lines += [f"  {name}" for name in self.missing]
        if self.unexpected:
            lines.append(f"{len(self.unexpected)} unexpected (in the weights, not in the module):")
            lines += [f"  {name}" for name in self.unexpected]
        if self.misshaped:
            lines.append(f"{len(self.misshaped)} misshaped:")
            lines += [
                f"  {name}: the module has {list(ours)}, the weights have {list(theirs)}"
                for name, (ours, theirs) in self.misshaped.items()
            ]
        return "\n".join(lines)


def load_into(module: Holder, state: Mapping[str, Any], *, strict: bool) -> LoadReport:
    """Set a module's tensors from a mapping of paths to values; see ``Module.load_state_dict``."""
    held = {h.path: h.tensor for h in held_tensors(module) if not h.is_transient}
    given = {id(held[name]) for name in state if name in held}
    fitting, misshaped = {}, {}
    for name, tensor in held.items():
        if name in state:
            value = state[name]
            theirs = tuple(value.shape)
            if tensor.shape == theirs:
                fitting[name] = value
            else:
                misshaped[name] = (tensor.shape, theirs)
    report = LoadReport(
        loaded=tuple(fitting),
        # A tied weight is present if it came under another of its names.
        missing=tuple(n for n, t in held.items() if n not in state and id(t) not in given),
        unexpected=tuple(name for name in state if name not in held),
        misshaped=misshaped,
    )
    if strict and not report:
        raise LoadError(
            f"the weights do not fit {type(module).__name__}; pass strict=False to load what fits\n"
            f"{report}"
        )
    for name, value in fitting.items():
        _assign(held[name], value)
    return report


def _assign(tensor: Tensor, value: Any) -> None:
    """Set the value of a tensor, in its dtype and on its device."""
    source = value if isinstance(value, Tensor) else np.asarray(value)
    with calor.no_grad():
        made = calor.asarray(source, device=tensor.device).detach()
        tensor._rebind(calor.astype(made, tensor.dtype, copy=False))


def convert_(module: Holder, target: Any, device: Any, dtype: Any) -> None:
    """Move a module's tensors and cast the floating ones, keeping their handles."""
    if target is not None:
        if names_dtype(target):
            dtype = target
        else:
            device = target
    for tensor in {id(held.tensor): held.tensor for held in held_tensors(module)}.values():
        _convert(tensor, device, dtype)


def _convert(leaf: Tensor, device: Any, dtype: Any) -> None:
    wanted = dtype if leaf.dtype.is_inexact else None
    with calor.no_grad():
        made = leaf.detach().to(device=device, dtype=wanted)
        gradient = None if leaf.grad is None else leaf.grad.to(device=device, dtype=wanted)
    # An in-place operation may not change dtype or device, so the handle receives a new value.
    leaf._value = made._value
    leaf._grad = gradient
