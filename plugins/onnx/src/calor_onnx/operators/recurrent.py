"""Recurrent layers: RNN, GRU and LSTM, in each direction and layout.

Requirements: the products with the input are one matrix product for all steps; the recurrence is a
scan. Steps beyond the length of a sample keep its state and output zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import calor
import calor_nn.functional as nn
from calor_onnx.call import Call
from calor_onnx.errors import ModelError
from calor_onnx.registry import operator

Function = Callable[[Any], Any]

# Activations: number of parameters (alpha, beta), their defaults, and the function.
ACTIVATIONS: dict[str, tuple[tuple[float, ...], Callable[..., Any]]] = {
    "relu": ((), calor.relu),
    "tanh": ((), calor.tanh),
    "sigmoid": ((), calor.sigmoid),
    "softsign": ((), nn.softsign),
    "softplus": ((), calor.softplus),
    "affine": ((1.0, 0.0), lambda x, a, b: x * a + b),
    "scaledtanh": ((1.0, 1.0), lambda x, a, b: calor.tanh(x * b) * a),
    "hardsigmoid": ((0.2, 0.5), lambda x, a, b: calor.clip(x * a + b, 0, 1)),
    "leakyrelu": ((0.01,), calor.leaky_relu),
    "thresholdedrelu": ((1.0,), lambda x, a: calor.where(x > a, x, 0)),
    "elu": ((1.0,), calor.elu),
}


def functions_of(
    names: list[str] | None, default: list[str], alpha: Any, beta: Any, directions: int
) -> list[Function]:
    """Return the activations of all directions, with alpha and beta where they take them."""
    alphas, betas = iter(alpha or ()), iter(beta or ())
    found = []
    for name in names or default * directions:
        if name.lower() not in ACTIVATIONS:
            raise ModelError(
                f"the activation is {name!r}; it must be one of {', '.join(ACTIVATIONS)}"
            )
        numbers, function = ACTIVATIONS[name.lower()]
        given = [next(source, n) for source, n in zip((alphas, betas), numbers, strict=False)]
        found.append(_closed(function, given))
    return found


def _closed(function: Callable[..., Any], given: list[float]) -> Function:
    return lambda x: function(x, *given)


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's operands, brought to layout 0, and its attributes."""

    x: Any
    lengths: Any
    hidden: int
    directions: list[bool]
    clip: float | None

    def limited(self, x: Any) -> Any:
        """Return the operand of an activation, clipped."""
        return x if not self.clip else calor.clip(x, -self.clip, self.clip)


def layer_of(
    x: Any, hidden: int, lengths: Any, direction: str, layout: int, clip: float | None
) -> Layer:
    """Return a layer; ``directions`` has for each whether it runs backwards."""
    walks = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
    if direction not in walks:
        raise ModelError(f"direction is {direction!r}; it must be one of {', '.join(walks)}")
    if layout:
        x = calor.swapaxes(x, 0, 1)
    return Layer(x, lengths, hidden, walks[direction], clip)


def biases(b: Any, number: int) -> tuple[Any, Any]:
    """Return the biases of W and of R for a direction; None without any."""
    if b is None:
        return None, None
    half = b.shape[1] // 2
    return b[number, :half], b[number, half:]


def run(
    layer: Layer, cell: Callable[..., Any], project: Callable[[int], Any],
    bias: Callable[[int], Any], states: list[Any], layout: int,
) -> tuple[Any, ...]:  # fmt: skip
    """Return (Y, last states) of all directions.

    ``cell(number)`` creates a direction's step, ``project(number)`` its products with the input.
    """
    x, batch = layer.x, layer.x.shape[1]
    outputs: list[Any] = []
    ends: list[list[Any]] = []
    for number, reverse in enumerate(layer.directions):
        first = []
        for state in states:
            if state is None:
                first.append(calor.zeros((batch, layer.hidden), dtype=x.dtype, device=x.device))
            else:
                first.append(state[:, number] if layout else state[number])
        inputs = project(number)
        added = bias(number)
        if added is not None:
            inputs = inputs + added
        made, last = walked(layer, cell(number), inputs, tuple(first), reverse)
        outputs.append(made)
        ends.append([*last])
    y = calor.stack(outputs, axis=1)
    if layout:
        y = calor.permute_dims(y, (2, 0, 1, 3))
    axis = 1 if layout else 0
    return y, *(calor.stack([end[i] for end in ends], axis=axis) for i in range(len(states)))


def walked(
    layer: Layer, cell: Callable[..., Any], inputs: Any, first: tuple[Any, ...], reverse: bool
) -> tuple[Any, tuple[Any, ...]]:
    """Return the outputs (T, N, H) of one direction and its last states."""
    if layer.lengths is not None:
        return _walked_within(layer, cell, inputs, first, reverse)

    def step(states: Any, row: Any) -> tuple[Any, Any]:
        new = cell(row, states)
        return new, new[0]

    last, made = _scanned(step, first, inputs, reverse)
    return made, last


def _walked_within(
    layer: Layer, cell: Callable[..., Any], inputs: Any, first: tuple[Any, ...], reverse: bool
) -> tuple[Any, tuple[Any, ...]]:
    """Return the same for samples with lengths; the step's number is carried along."""
    lengths = calor.astype(calor.reshape(layer.lengths, (-1, 1)), calor.int32)
    begin = inputs.shape[0] - 1 if reverse else 0
    start = calor.full((1, 1), begin, dtype=calor.int32, device=inputs.device)

    def step(carried: Any, row: Any) -> tuple[Any, Any]:
        *states, number = carried
        new = cell(row, tuple(states))
        live = number < lengths
        kept = tuple(calor.where(live, a, b) for a, b in zip(new, states, strict=True))
        after = number - 1 if reverse else number + 1
        return (*kept, after), calor.where(live, new[0], 0)

    (*last, _), made = _scanned(step, (*first, start), inputs, reverse)
    return made, tuple(last)


def _scanned(step: Callable[..., Any], first: Any, rows: Any, reverse: bool) -> Any:
    """Return the result of a scan; a single step is computed without a loop."""
    if rows.shape[0] != 1:
        return calor.scan(step, first, rows, reverse=reverse)
    last, made = step(first, rows[0])
    return last, made[None]


def times(x: Any, weight: Any) -> Any:
    """Return x · weightᵀ by naming axes, which is faster for few rows than a transposed view.

    The last axes of both are contracted.
    """
    return calor.tensordot(x, weight, axes=([x.ndim - 1], [1]))


def _parts(x: Any, hidden: int) -> Iterator[Any]:
    return (x[..., i : i + hidden] for i in range(0, x.shape[-1], hidden))


def _summed(a: Any, b: Any) -> Any:
    return a if b is None else b if a is None else a + b


@operator("RNN")
def rnn(
    call: Call, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None, *,
    activation_alpha: Any = None, activation_beta: Any = None,
    activations: list[str] | None = None, clip: float | None = None, direction: str = "forward",
    hidden_size: int | None = None, layout: int = 0, output_sequence: int = 0,
) -> Any:  # fmt: skip
    """h = f(W · x + R · h + b) (Elman, 1990)."""
    layer = layer_of(x, r.shape[-1], lengths, direction, layout, clip)
    functions = functions_of(
        activations, ["Tanh"], activation_alpha, activation_beta, len(layer.directions)
    )

    def cell(number: int) -> Callable[..., Any]:
        weight = r[number]
        return lambda row, states: (
            functions[number](layer.limited(row + times(states[0], weight))),
        )

    return run(
        layer, cell, lambda n: times(layer.x, w[n]), lambda n: _summed(*biases(b, n)), [h], layout
    )


@operator("GRU")
def gru(
    call: Call, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None, *,
    activation_alpha: Any = None, activation_beta: Any = None,
    activations: list[str] | None = None, clip: float | None = None, direction: str = "forward",
    hidden_size: int | None = None, layout: int = 0, linear_before_reset: int = 0,
    output_sequence: int = 0,
) -> Any:  # fmt: skip
    """Gates update, reset and a new state (Cho et al., 2014)."""
    layer = layer_of(x, r.shape[-1], lengths, direction, layout, clip)
    functions = functions_of(
        activations, ["Sigmoid", "Tanh"], activation_alpha, activation_beta, len(layer.directions)
    )
    size, limited = layer.hidden, layer.limited

    def cell(number: int) -> Callable[..., Any]:
        f, g = functions[2 * number : 2 * number + 2]
        weight = r[number]
        gates, last = weight[: 2 * size], weight[2 * size :]
        inner = biases(b, number)[1]

        def step(row: Any, states: Any) -> Any:
            (state,) = states
            if linear_before_reset:
                product = _summed(times(state, weight), inner)
                z, reset = _parts(f(limited(row[:, : 2 * size] + product[:, : 2 * size])), size)
                new = g(limited(row[:, 2 * size :] + reset * product[:, 2 * size :]))
            else:
                product = times(state, gates)
                if inner is not None:
                    product = product + inner[: 2 * size]
                z, reset = _parts(f(limited(row[:, : 2 * size] + product)), size)
                product = times(reset * state, last)
                if inner is not None:
                    product = product + inner[2 * size :]
                new = g(limited(row[:, 2 * size :] + product))
            return ((1 - z) * new + z * state,)

        return step

    return run(layer, cell, lambda n: times(layer.x, w[n]), lambda n: biases(b, n)[0], [h], layout)


@operator("LSTM")
def lstm(
    call: Call, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None,
    c: Any = None, p: Any = None, *, layout: int = 0, direction: str = "forward",
    clip: float | None = None, **attributes: Any,
) -> Any:  # fmt: skip
    """Gates input, output, forget and cell, with peepholes (Gers and Schmidhuber, 2000)."""
    layer = layer_of(x, r.shape[-1], lengths, direction, layout, clip)
    return lstm_layer(
        layer, lambda n: times(layer.x, w[n]), lambda n: partial(times, weight=r[n]), b,
        [h, c], p, layout, **attributes,
    )  # fmt: skip


def lstm_layer(
    layer: Layer, project: Callable[[int], Any], recur: Callable[[int], Callable[[Any], Any]],
    b: Any, states: list[Any], p: Any, layout: int, *, activation_alpha: Any = None,
    activation_beta: Any = None, activations: list[str] | None = None,
    hidden_size: int | None = None, input_forget: int = 0, output_sequence: int = 0,
) -> Any:  # fmt: skip
    """Return the results of LSTM, whatever computes its products.

    ``project(number)`` is a direction's product with the input of all steps; ``recur(number)``
    multiplies a state.
    """
    functions = functions_of(
        activations, ["Sigmoid", "Tanh", "Tanh"], activation_alpha, activation_beta,
        len(layer.directions),
    )  # fmt: skip
    size, limited = layer.hidden, layer.limited

    def cell(number: int) -> Callable[..., Any]:
        f, g, out = functions[3 * number : 3 * number + 3]
        product = recur(number)
        peep = None if p is None else [*_parts(p[number], size)]

        def step(row: Any, states: Any) -> Any:
            state, held = states
            i, o, forget, new = _parts(row + product(state), size)
            if peep is not None:
                i, forget = i + peep[0] * held, forget + peep[2] * held
            i = f(limited(i))
            forget = 1 - i if input_forget else f(limited(forget))
            held = forget * held + i * g(limited(new))
            if peep is not None:
                o = o + peep[1] * held
            return f(limited(o)) * out(held), held

        return step

    return run(layer, cell, project, lambda n: _summed(*biases(b, n)), states, layout)
