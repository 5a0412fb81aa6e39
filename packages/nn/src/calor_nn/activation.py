"""Activations as layers; each calls the function of its name in ``functional``."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import calor
from calor import Tensor
from calor_nn import functional
from calor_nn.module import Module, Parameter


class _Plain(Module):
    """An activation without arguments."""

    function: ClassVar[str]

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of x."""
        made: Tensor = getattr(functional, self.function)(x)
        return made


class ReLU(_Plain):
    """x where it is positive, else 0.

    >>> import calor
    >>> from calor import nn
    >>> nn.ReLU()(calor.asarray([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    function = "relu"


class ReLU6(_Plain):
    """x held between 0 and 6."""

    function = "relu6"


class SELU(_Plain):
    """The self-normalizing exponential unit; see :func:`functional.selu`."""

    function = "selu"


class SiLU(_Plain):
    """x · sigmoid(x); see :func:`calor.silu`."""

    function = "silu"


class Mish(_Plain):
    """x · tanh(softplus(x)); see :func:`functional.mish`."""

    function = "mish"


class Sigmoid(_Plain):
    """1 / (1 + exp(−x)); see :func:`calor.sigmoid`."""

    function = "sigmoid"


class LogSigmoid(_Plain):
    """log(sigmoid(x)); see :func:`functional.log_sigmoid`."""

    function = "log_sigmoid"


class Tanh(_Plain):
    """tanh(x); see :func:`calor.tanh`."""

    function = "tanh"


class Softsign(_Plain):
    """x / (1 + |x|); see :func:`functional.softsign`."""

    function = "softsign"


class Hardsigmoid(_Plain):
    """(x + 3) / 6 held between 0 and 1; see :func:`functional.hard_sigmoid`."""

    function = "hard_sigmoid"


class Hardswish(_Plain):
    """x · hardsigmoid(x); see :func:`functional.hard_swish`."""

    function = "hard_swish"


class LeakyReLU(Module):
    """x where it is positive, ``negative_slope`` · x elsewhere.

    >>> import calor
    >>> from calor import nn
    >>> nn.LeakyReLU(0.5)(calor.asarray([-2.0, 2.0])).tolist()
    [-1.0, 2.0]
    """

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of x."""
        return calor.leaky_relu(x, self.negative_slope)

    def extra_repr(self) -> str:
        """Return the slope."""
        return f"negative_slope={self.negative_slope}"


class PReLU(Module):
    """x where it is positive, a learned slope times x elsewhere; one slope, or one per channel.

    >>> import calor
    >>> from calor import nn
    >>> nn.PReLU()(calor.asarray([-2.0, 2.0])).tolist()
    [-0.5, 2.0]
    """

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        *,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        known = calor.float32 if dtype is None else dtype
        self.weight = Parameter(calor.full((num_parameters,), init, dtype=known, device=device))

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of x."""
        return functional.prelu(x, self.weight)

    def extra_repr(self) -> str:
        """Return the number of slopes."""
        return f"num_parameters={self.weight.size}"


class ELU(Module):
    """x where it is positive, ``alpha`` · (exp(x) − 1) elsewhere; see :func:`calor.elu`."""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of x."""
        return calor.elu(x, self.alpha)

    def extra_repr(self) -> str:
        """Return alpha."""
        return f"alpha={self.alpha}"


class CELU(ELU):
    """x where positive, ``alpha`` · (exp(x / alpha) − 1) elsewhere; see :func:`functional.celu`."""

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of x."""
        return functional.celu(x, self.alpha)


class GELU(Module):
    """x times the normal distribution's probability below x; see :func:`calor.gelu`.

    >>> import calor
    >>> from calor import nn
    >>> nn.GELU("tanh")(calor.zeros(1)).tolist()
    [0.0]
    """

    def __init__(self, approximate: Literal["none", "tanh"] = "none") -> None:
        self.approximate: Literal["none", "tanh"] = approximate

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of x."""
        return calor.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        """Return the approximation."""
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """log(1 + exp(beta · x)) / beta; see :func:`calor.softplus`."""

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = beta

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of x."""
        return calor.softplus(x, self.beta)

    def extra_repr(self) -> str:
        """Return beta."""
        return f"beta={self.beta}"


class Hardtanh(Module):
    """x held between two numbers; see :func:`functional.hard_tanh`."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0) -> None:
        self.min_val = min_val
        self.max_val = max_val

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of x."""
        return functional.hard_tanh(x, self.min_val, self.max_val)

    def extra_repr(self) -> str:
        """Return the bounds."""
        return f"{self.min_val}, {self.max_val}"


class _AlongAxis(Module):
    """A function along one axis."""

    function: ClassVar[str]

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        """Return the function along the axis."""
        made: Tensor = getattr(functional, self.function)(x, axis=self.axis)
        return made

    def extra_repr(self) -> str:
        """Return the axis."""
        return f"axis={self.axis}"


class Softmax(_AlongAxis):
    """exp(x) divided by its sum along an axis; see :func:`calor.softmax`.

    >>> import calor
    >>> from calor import nn
    >>> nn.Softmax()(calor.zeros(2)).tolist()
    [0.5, 0.5]
    """

    function = "softmax"


class LogSoftmax(_AlongAxis):
    """log(softmax(x)) along an axis; see :func:`calor.log_softmax`."""

    function = "log_softmax"


class GLU(_AlongAxis):
    """The first half along an axis times the sigmoid of the second; see :func:`functional.glu`."""

    function = "glu"
