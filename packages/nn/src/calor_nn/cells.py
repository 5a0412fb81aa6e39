"""One step of a recurrent layer, by PyTorch's gate order and parameter names.

Requirements: a cell computes what its layer computes at each time, with the same function.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import calor
from calor import Tensor
from calor.errors import ShapeError
from calor_nn import functional, init
from calor_nn.module import Module, Parameter
from calor_nn.recurrent import gru_step, lstm_step, rnn_step


class _Cell(Module):
    """Weights ``weight_ih`` and ``weight_hh``, and both biases."""

    gates: ClassVar[int]
    state_count: ClassVar[int] = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        self.input_size = input_size
        self.hidden_size = hidden_size
        bound, rows = 1 / math.sqrt(hidden_size), self.gates * hidden_size
        options: dict[str, Any] = {"dtype": dtype, "device": device}

        def drawn(*shape: int) -> Tensor:
            return Parameter(init.uniform(shape, -bound, bound, **options))

        self.weight_ih = drawn(rows, input_size)
        self.weight_hh = drawn(rows, hidden_size)
        self.bias_ih = drawn(rows) if bias else None
        self.bias_hh = drawn(rows) if bias else None

    def _step(self, x: Tensor, states: Any) -> Any:
        """Return the new states from the input's part of the gates and the states."""
        raise NotImplementedError

    def forward(self, x: Tensor, state: Any = None) -> Any:
        """Return the state after a step.

        Parameters
        ----------
        x : Tensor
            Shape (N, input_size) or (input_size,).
        state : Tensor or tuple of Tensor, optional
            The state before, shape (N, hidden_size) or (hidden_size,); for :class:`LSTMCell` the
            pair (h, c). Zeros if left out.

        Returns
        -------
        Tensor or tuple of Tensor
            The new state, of the shape of the one before.

        Raises
        ------
        ShapeError
            If `x` has another shape, or the state does not fit it.
        """
        if x.ndim not in (1, 2) or x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{type(self).__name__} takes (N, {self.input_size}) or ({self.input_size},), "
                f"not {x.shape}"
            )
        shape = (*x.shape[:-1], self.hidden_size)
        if state is None:
            kind = calor.result_type(x, self.weight_hh)
            states: Any = (calor.zeros(shape, dtype=kind, device=x.device),) * self.state_count
        else:
            states = tuple(state) if self.state_count > 1 else (state,)
        if len(states) != self.state_count or any(s.shape != shape for s in states):
            raise ShapeError(
                f"{type(self).__name__}: state must have shape {shape}, not "
                f"{[s.shape for s in states]}"
            )
        made = self._step(functional.linear(x, self.weight_ih, self.bias_ih), states)
        return made if self.state_count > 1 else made[0]

    def extra_repr(self) -> str:
        """Return the sizes."""
        said = f"{self.input_size}, {self.hidden_size}"
        return said if self.bias_ih is not None else f"{said}, bias=False"


class RNNCell(_Cell):
    """A step of :class:`RNN`: h = tanh(W_ih · x + b_ih + W_hh · h + b_hh).

    Parameters
    ----------
    input_size : int
        The size of the last axis of the input.
    hidden_size : int
        The size H of a state.
    bias : bool
        Whether there are biases.
    nonlinearity : {"tanh", "relu"}
        The function of the sum.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    Raises
    ------
    ArgumentError
        If `hidden_size` is below 1, or `nonlinearity` is unknown.

    References
    ----------
    Elman, "Finding Structure in Time", 1990.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.RNNCell(3, 4)(calor.ones((2, 3))).shape
    (2, 4)
    """

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: Literal["tanh", "relu"] = "tanh",
        *,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        self.nonlinearity = nonlinearity
        super().__init__(input_size, hidden_size, bias, dtype=dtype, device=device)

    def _step(self, x: Tensor, states: Any) -> Any:
        return rnn_step(x, states, self.weight_hh, self.bias_hh, self.nonlinearity)


class LSTMCell(_Cell):
    """A step of :class:`LSTM`, whose state is the pair (h, c).

    Parameters
    ----------
    input_size : int
        The size of the last axis of the input.
    hidden_size : int
        The size H of a state.
    bias : bool
        Whether there are biases.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    Raises
    ------
    ArgumentError
        If `hidden_size` is below 1.

    References
    ----------
    Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> h, c = nn.LSTMCell(3, 4)(calor.ones((2, 3)))
    >>> h.shape, c.shape
    ((2, 4), (2, 4))
    """

    gates = 4
    state_count = 2

    def _step(self, x: Tensor, states: Any) -> Any:
        return lstm_step(x, states, self.weight_hh, self.bias_hh)


class GRUCell(_Cell):
    """A step of :class:`GRU`.

    Parameters
    ----------
    input_size : int
        The size of the last axis of the input.
    hidden_size : int
        The size H of a state.
    bias : bool
        Whether there are biases.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    Raises
    ------
    ArgumentError
        If `hidden_size` is below 1.

    References
    ----------
    Cho et al., "Learning Phrase Representations Using RNN Encoder–Decoder", 2014.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.GRUCell(3, 4)(calor.ones((2, 3))).shape
    (2, 4)
    """

    gates = 3

    def _step(self, x: Tensor, states: Any) -> Any:
        return gru_step(x, states, self.weight_hh, self.bias_hh)
