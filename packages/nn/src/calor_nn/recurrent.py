"""Recurrent layers, by PyTorch's gate order and parameter names.

Requirements: the products with the input are one matrix product for all times; what depends on the
state is a scan, so a long sequence makes a small graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal

import calor
from calor import Tensor
from calor.errors import ShapeError
from calor_nn import functional, init
from calor_nn.module import Module, Parameter


def rnn_step(x: Tensor, states: Any, weight: Tensor, bias: Tensor | None, function: str) -> Any:
    """Return the state of an RNN after a step, from the input's part of the sums."""
    activation: Callable[[Tensor], Tensor] = calor.tanh if function == "tanh" else calor.relu
    return (activation(x + functional.linear(states[0], weight, bias)),)


def lstm_step(x: Tensor, states: Any, weight: Tensor, bias: Tensor | None) -> Any:
    """Return h and c of an LSTM after a step, from the input's part of the gates."""
    h, c = states
    i, f, g, o = calor.chunk(x + functional.linear(h, weight, bias), 4, axis=-1)
    c = calor.sigmoid(f) * c + calor.sigmoid(i) * calor.tanh(g)
    return calor.sigmoid(o) * calor.tanh(c), c


def gru_step(x: Tensor, states: Any, weight: Tensor, bias: Tensor | None) -> Any:
    """Return the state of a GRU after a step, from the input's part of the gates."""
    (h,) = states
    r_x, z_x, n_x = calor.chunk(x, 3, axis=-1)
    r_h, z_h, n_h = calor.chunk(functional.linear(h, weight, bias), 3, axis=-1)
    z = calor.sigmoid(z_x + z_h)
    n = calor.tanh(n_x + calor.sigmoid(r_x + r_h) * n_h)
    return (n + z * (h - n),)


class _Recurrent(Module):
    """Layers and directions, weights ``weight_ih_l0``, ``weight_hh_l0_reverse`` and so on.

    ``sums_biases``: whether the cell adds both biases to the same sums.
    """

    weight_hh_l0: Tensor
    gates: ClassVar[int]
    state_count: ClassVar[int] = 1
    sums_biases: ClassVar[bool] = True

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        self.has_bias = bias
        bound = 1 / math.sqrt(hidden_size)
        for layer, suffix in self._suffixes():
            width = input_size if layer == 0 else hidden_size * (1 + bidirectional)
            rows = self.gates * hidden_size
            shapes: dict[str, tuple[int, ...]] = {
                "weight_ih": (rows, width),
                "weight_hh": (rows, hidden_size),
            }
            if bias:
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
            for name, shape in shapes.items():
                drawn = init.uniform(shape, -bound, bound, dtype=dtype, device=device)
                setattr(self, f"{name}_l{suffix}", Parameter(drawn))

    def _suffixes(self) -> Iterator[tuple[int, str]]:
        """Yield (layer, suffix of the parameters' names) in the order of the states."""
        for layer in range(self.num_layers):
            yield layer, str(layer)
            if self.bidirectional:
                yield layer, f"{layer}_reverse"

    def _cell(self, x: Tensor, states: Any, weight: Tensor, bias: Tensor | None) -> Any:
        """Return the new states from the input's part of the gates and the states."""
        raise NotImplementedError

    def _run(self, x: Tensor, states: Any) -> tuple[Tensor, Any]:
        """Return outputs (T, N, D · H) and last states, each (D · layers, N, H)."""
        last: list[Any] = []
        directions = 1 + self.bidirectional
        for number, (layer, suffix) in enumerate(self._suffixes()):
            if number % directions == 0:
                source, outputs = x, []
                if layer and self.dropout:
                    source = functional.dropout(x, self.dropout, training=self.training)
            first = tuple(s[number] for s in states)
            output, end = self._direction(source, first, suffix, suffix.endswith("reverse"))
            outputs.append(output)
            last.append(end)
            if len(outputs) == directions:
                x = outputs[0] if directions == 1 else calor.concat(outputs, axis=-1)
        return x, tuple(calor.stack([end[i] for end in last]) for i in range(self.state_count))

    def _direction(self, x: Tensor, states: Any, suffix: str, reverse: bool) -> tuple[Tensor, Any]:
        weight: Tensor = getattr(self, f"weight_hh_l{suffix}")
        bias: dict[str, Any] = dict.fromkeys(_KINDS)
        if self.has_bias:
            bias = {kind: getattr(self, f"bias_{kind}_l{suffix}") for kind in _KINDS}
        if self.has_bias and self.sums_biases:
            # Both are added to the same sums: once for all steps, and not at each of them.
            bias = {"ih": bias["ih"] + bias["hh"], "hh": None}
        inputs = functional.linear(x, getattr(self, f"weight_ih_l{suffix}"), bias["ih"])

        def step(carry: Any, row: Tensor) -> tuple[Any, Tensor]:
            new = self._cell(row, carry, weight, bias["hh"])
            return new, new[0]

        end, outputs = calor.scan(step, states, inputs, reverse=reverse)
        return outputs, end

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """Return the outputs at all times, and the last state.

        Parameters
        ----------
        x : Tensor
            Shape (T, N, input_size), (N, T, input_size) with `batch_first`, or (T, input_size); T
            at least 1.
        state : Tensor or tuple of Tensor, optional
            The first state, shape (D · layers, N, hidden_size) with D = 2 directions if
            bidirectional, else 1; for :class:`LSTM` the pair (h, c). Zeros if left out.

        Returns
        -------
        outputs : Tensor
            Shape (T, N, D · hidden_size), with the axes of `x`.
        state : Tensor or tuple of Tensor
            The last state, of the shape of the first one.

        Raises
        ------
        ShapeError
            If `x` has another shape or no steps, or the state does not fit it.
        """
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{type(self).__name__} takes (T, N, {self.input_size}), with batch_first "
                f"(N, T, {self.input_size}), or (T, {self.input_size}), not {x.shape}"
            )
        single = x.ndim == 2
        if single:
            x = calor.expand_dims(x, 1)
        elif self.batch_first:
            x = calor.swapaxes(x, 0, 1)
        if not x.shape[0]:
            raise ShapeError(f"{type(self).__name__}: the sequence has no steps; pass at least one")
        outputs, last = self._run(x, self._states(state, x, single))
        if single:
            outputs = calor.squeeze(outputs, axis=1)
            last = tuple(calor.squeeze(s, axis=1) for s in last)
        elif self.batch_first:
            outputs = calor.swapaxes(outputs, 0, 1)
        return outputs, (last if self.state_count > 1 else last[0])

    def _states(self, given: Any, x: Tensor, single: bool) -> tuple[Tensor, ...]:
        shape = (self.num_layers * (1 + self.bidirectional), x.shape[1], self.hidden_size)
        if given is None:
            kind = calor.result_type(x, self.weight_hh_l0)
            zeros = calor.zeros(shape, dtype=kind, device=x.device)
            return (zeros,) * self.state_count
        states = tuple(given) if self.state_count > 1 else (given,)
        if single:
            states = tuple(calor.expand_dims(s, 1) for s in states)
        if len(states) != self.state_count or any(s.shape != shape for s in states):
            raise ShapeError(
                f"{type(self).__name__}: state must have shape "
                f"{shape if not single else (shape[0], shape[2])}, not "
                f"{[s.shape for s in states]}"
            )
        return states

    def extra_repr(self) -> str:
        """Return the sizes and every argument that is not the default."""
        parts = [f"{self.input_size}, {self.hidden_size}"]
        plain = {"num_layers": 1, "batch_first": False, "dropout": 0.0, "bidirectional": False}
        parts += [f"{k}={getattr(self, k)}" for k, v in plain.items() if getattr(self, k) != v]
        return ", ".join(parts + ([] if self.has_bias else ["bias=False"]))


_KINDS = ("ih", "hh")


class RNN(_Recurrent):
    """A recurrent layer h = tanh(W_ih · x + b_ih + W_hh · h + b_hh).

    Parameters
    ----------
    input_size : int
        The size of the last axis of the input.
    hidden_size : int
        The size H of a state.
    num_layers : int
        The number of layers; each reads the outputs of the one before.
    nonlinearity : {"tanh", "relu"}
        The function of the sum.
    bias : bool
        Whether there are biases.
    batch_first : bool
        Inputs and outputs are (N, T, ·) in place of (T, N, ·).
    dropout : float
        Probability with which an element between layers is set to 0 in training, in [0, 1].
    bidirectional : bool
        Run a second cell backwards, and concatenate the outputs.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    Raises
    ------
    ArgumentError
        If a size is below 1, `dropout` is outside [0, 1], or `nonlinearity` is unknown.

    References
    ----------
    Elman, "Finding Structure in Time", 1990.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> outputs, last = nn.RNN(3, 4)(calor.ones((5, 2, 3)))
    >>> outputs.shape, last.shape
    ((5, 2, 4), (1, 2, 4))
    """

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: Literal["tanh", "relu"] = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        self.nonlinearity = nonlinearity
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            dtype=dtype,
            device=device,
        )

    def _cell(self, x: Tensor, states: Any, weight: Tensor, bias: Tensor | None) -> Any:
        return rnn_step(x, states, weight, bias, self.nonlinearity)


class LSTM(_Recurrent):
    """A long short-term memory, with the gates input i, forget f, cell g and output o.

    It computes c = σ(f) · c + σ(i) · tanh(g) and h = σ(o) · tanh(c). Its state is the pair (h, c).

    Parameters
    ----------
    input_size : int
        The size of the last axis of the input.
    hidden_size : int
        The size H of a state.
    num_layers : int
        The number of layers; each reads the outputs of the one before.
    bias : bool
        Whether there are biases.
    batch_first : bool
        Inputs and outputs are (N, T, ·) in place of (T, N, ·).
    dropout : float
        Probability with which an element between layers is set to 0 in training, in [0, 1].
    bidirectional : bool
        Run a second cell backwards, and concatenate the outputs.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    Raises
    ------
    ArgumentError
        If a size is below 1, or `dropout` is outside [0, 1].

    References
    ----------
    Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> outputs, (h, c) = nn.LSTM(3, 4, bidirectional=True)(calor.ones((5, 2, 3)))
    >>> outputs.shape, c.shape
    ((5, 2, 8), (2, 2, 4))
    """

    gates = 4
    state_count = 2

    def _cell(self, x: Tensor, states: Any, weight: Tensor, bias: Tensor | None) -> Any:
        return lstm_step(x, states, weight, bias)


class GRU(_Recurrent):
    """A layer of gated recurrent units, with the gates reset r, update z and new n.

    It computes n = tanh(n_x + σ(r) · n_h) and h = (1 − σ(z)) · n + σ(z) · h, as cuDNN does.

    Parameters
    ----------
    input_size : int
        The size of the last axis of the input.
    hidden_size : int
        The size H of a state.
    num_layers : int
        The number of layers; each reads the outputs of the one before.
    bias : bool
        Whether there are biases.
    batch_first : bool
        Inputs and outputs are (N, T, ·) in place of (T, N, ·).
    dropout : float
        Probability with which an element between layers is set to 0 in training, in [0, 1].
    bidirectional : bool
        Run a second cell backwards, and concatenate the outputs.
    dtype : DType or str, optional
        The dtype of the parameters; float32 by default.
    device : Device or str, optional
        Where the parameters live; the default device if left out.

    Raises
    ------
    ArgumentError
        If a size is below 1, or `dropout` is outside [0, 1].

    References
    ----------
    Cho et al., "Learning Phrase Representations Using RNN Encoder–Decoder", 2014.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> outputs, h = nn.GRU(3, 4, num_layers=2, batch_first=True)(calor.ones((2, 5, 3)))
    >>> outputs.shape, h.shape
    ((2, 5, 4), (2, 2, 4))
    """

    sums_biases = False
    gates = 3

    def _cell(self, x: Tensor, states: Any, weight: Tensor, bias: Tensor | None) -> Any:
        return gru_step(x, states, weight, bias)
