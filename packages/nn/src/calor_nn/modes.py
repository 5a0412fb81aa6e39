"""Modes of modules that something switches for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from calor_nn.module import Module


@contextmanager
def kept_modes(module: Module) -> Iterator[None]:
    """Give a module and all below it their own modes back after a `with` block.

    Modules of one model differ, such as norms that a user froze.

    >>> from calor import nn
    >>> from calor_nn.modes import kept_modes
    >>> model = nn.Sequential(nn.Linear(1, 1), nn.Dropout())
    >>> _ = model[1].eval()
    >>> with kept_modes(model):
    ...     _ = model.train()
    >>> [m.training for m in model.modules()]
    [True, True, False]
    """
    before = [(m, m.training) for m in module.modules()]
    try:
        yield
    finally:
        for m, training in before:
            m._switch(training)
