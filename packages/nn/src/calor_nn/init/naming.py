"""Initial values by the name of their function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calor import Tensor
from calor.errors import ArgumentError, ShapeError
from calor_nn.init.distributions import normal, ones, truncated_normal, uniform, zeros
from calor_nn.init.scaling import kaiming_normal, kaiming_uniform, xavier_normal, xavier_uniform
from calor_nn.init.structured import dirac, orthogonal

Init = str | Callable[..., Tensor] | None

_FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    function.__name__: function
    for function in (
        *(zeros, ones, uniform, normal, truncated_normal, orthogonal, dirac),
        *(xavier_uniform, xavier_normal, kaiming_uniform, kaiming_normal),
    )
}


def drawn(
    init: Init, default: Callable[..., Tensor], shape: Sequence[int], **options: Any
) -> Tensor:
    """Return initial values as a layer was asked for them.

    Parameters
    ----------
    init : str or callable, optional
        A name such as "kaiming_uniform", or a function of a shape, `dtype` and `device`; None for
        the default.
    default : callable
        The function that draws if nothing is asked for.
    shape : sequence of int
        The shape.
    **options : Any
        `dtype` and `device`.

    Returns
    -------
    Tensor
        The values.

    Raises
    ------
    ArgumentError
        If the name is unknown.
    ShapeError
        If a function of the user makes another shape.

    Examples
    --------
    >>> from calor import nn
    >>> nn.init.drawn("ones", nn.init.zeros, (2,)).tolist()
    [1.0, 1.0]
    """
    if isinstance(init, str):
        if init not in _FUNCTIONS:
            raise ArgumentError(
                f"init {init!r} is unknown; choose one of {', '.join(sorted(_FUNCTIONS))}, or pass "
                f"a function of a shape"
            )
        return _FUNCTIONS[init](shape, **options)
    made = (default if init is None else init)(shape, **options)
    if tuple(made.shape) != tuple(shape):
        raise ShapeError(f"init made values of shape {made.shape}, the weight is {tuple(shape)}")
    return made
