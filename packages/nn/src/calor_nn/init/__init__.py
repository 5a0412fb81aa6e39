"""Initial values of parameters.

Each function takes a shape and returns a tensor. Where fans matter, the shape is that of `Linear`
and `Conv2d` weights, (O, I, kernel). Random ones draw from the global generator, or from `key`.

>>> from calor import nn
>>> layer = nn.Linear(4, 3)
>>> layer.weight = nn.Parameter(nn.init.orthogonal(layer.weight.shape))
"""

from typing import TYPE_CHECKING

from calor.keywords import explain as _explain
from calor_nn.init.distributions import constant, normal, ones, truncated_normal, uniform, zeros
from calor_nn.init.naming import Init, drawn
from calor_nn.init.scaling import (
    fans,
    gain,
    kaiming_normal,
    kaiming_uniform,
    xavier_normal,
    xavier_uniform,
)
from calor_nn.init.structured import dirac, orthogonal

__all__ = [
    "Init",
    "constant",
    "dirac",
    "drawn",
    "fans",
    "gain",
    "kaiming_normal",
    "kaiming_uniform",
    "normal",
    "ones",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]

_explain(globals(), "calor_nn.init.")

if not TYPE_CHECKING:
    # Hidden from type checkers, for which a module with __getattr__ has every attribute.
    def __getattr__(name: str) -> object:
        from calor_nn.migration import missing

        raise missing(__name__, name)
