"""What the tables call: the namespaces of calor, in which a missing name is a missing counterpart.

Requirements: a table is lambdas with PyTorch's parameters, so Python binds the arguments of a
sample, and a name is looked up when a sample runs.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

Table = Mapping[str, Callable[..., Any]]


class Missing(Exception):
    """A table names something that calor does not have."""


class Names:
    """The attributes of a module; one that it lacks raises `Missing`."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(importlib.import_module(self._module), name)
        except (AttributeError, ImportError):
            raise Missing(f"{self._module}.{name}") from None


c = Names("calor")
linalg = Names("calor.linalg")
fft = Names("calor.fft")
random = Names("calor.random")
nn = Names("calor.nn.functional")


def same(*names: str) -> dict[str, Callable[..., Any]]:
    """Return entries whose name and operands calor has too; the arguments are positional."""
    return {name: (lambda *a, _name=name: getattr(c, _name)(*a)) for name in names}


def renamed(names: Mapping[str, str]) -> dict[str, Callable[..., Any]]:
    """Return entries that differ in the name alone."""
    return {theirs: (lambda *a, _n=ours: getattr(c, _n)(*a)) for theirs, ours in names.items()}


def scaled(x: Any, alpha: Any) -> Any:
    """Return alpha times x; x itself for 1."""
    return x if isinstance(alpha, int) and alpha == 1 else x * alpha


def order(names: str, *axes: int) -> str:
    """Return subscripts of an einsum in another order."""
    return "".join(names[a] for a in axes)
