"""If, Loop and Scan.

Requirements: decisions on host values are made on the host, so a compiled graph has one branch, or
an unrolled loop. A long loop whose values keep their shapes becomes one ``calor.scan``. A choice
that depends on device data reads it when the graph is interpreted. During compilation, the inputs
that decide it move to the host; without such inputs it becomes ``calor.cond`` or
``calor.while_loop``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import calor
from calor import Tensor
from calor.errors import CalorError
from calor_onnx.call import Call
from calor_onnx.errors import ModelError
from calor_onnx.graph import Graph
from calor_onnx.registry import operator
from calor_onnx.values import is_host

# A loop with at least this many turns becomes one op if possible.
LONG = 8
# Limit of the nodes of an unrolled loop in a compiled graph.
UNROLLED = 20_000
_NO_LOOP = "turn after turn, not one loop on the device"


@operator("If", raw=True)
def if_(call: Call, condition: Any, *, then_branch: Graph, else_branch: Graph) -> Any:
    """The outputs of one of two graphs."""
    if call.run.choices and call.traced and isinstance(condition, Tensor):
        try:
            return chosen(call, condition, then_branch, else_branch)
        except CalorError as error:
            call.refuse("not one choice on the device", error)
    holds = bool(call.host(condition).reshape(-1)[0])
    return tuple(call.apply(then_branch if holds else else_branch, []))


def chosen(call: Call, condition: Tensor, then: Graph, otherwise: Graph) -> tuple[Any, ...]:
    """Return the branch as one cond.

    Raises
    ------
    Exception
        If the branches differ in types or shapes.
    """

    def branch(graph: Graph) -> Any:
        return lambda: [call.tensor(value) for value in call.apply(graph, [])]

    with calor.device(call.device):
        condition = calor.reshape(condition, ())
        return tuple(calor.cond(condition, branch(then), branch(otherwise)))


@operator("Loop", raw=True)
def loop(call: Call, trips: Any, condition: Any, *carried: Any, body: Graph) -> Any:
    """The values that a graph carries from turn to turn, and its outputs of each turn, stacked.

    The loop ends after ``trips`` turns, or when the graph's first output is false.
    """
    carry = list(carried)
    stacks = len(body.outputs) - 1 - len(carry)
    if stacks < 0:
        raise ModelError(
            f"Loop: the body has {len(body.outputs)} outputs, too few for {len(carry)} carried "
            f"values"
        )
    free = call.run.choices and call.traced and not stacks
    if free and (_unknown(trips) or _unknown(condition)):
        try:
            return while_loop(call, trips, condition, carry, body)
        except CalorError as error:
            call.refuse(_NO_LOOP, error)
    count = None if trips is None else call.integers(trips)[0]
    on = condition is None or bool(call.host(condition).reshape(-1)[0])
    if count is not None and count >= LONG and on and _on_device(carry):
        try:
            return counted(call, count, carry, body)
        except CalorError as error:
            call.refuse(_NO_LOOP, error)
    if call.traced and (count or 0) * len(body.nodes) > UNROLLED:
        raise call.cannot(f"{count} iterations are too many for a compiled graph")
    collected: list[list[Any]] = [[] for _ in range(stacks)]
    first, turn = carry, 0
    holds: Any = np.array(on)
    while (count is None or turn < count) and bool(call.host(holds).reshape(-1)[0]):
        if call.traced and turn * len(body.nodes) > UNROLLED:
            raise call.cannot(f"more than {turn} iterations are too many for a compiled graph")
        made = call.apply(body, [np.array(turn, np.int64), holds, *carry])
        holds, carry = made[0], made[1 : 1 + len(carry)]
        for stack, value in zip(collected, made[1 + len(carry) :], strict=True):
            stack.append(value)
        turn += 1
        if free and _unknown(holds):
            # The turns decide when the loop ends, so they run one after another on the device.
            try:
                return while_loop(call, trips, condition, first, body)
            except CalorError as error:
                raise call.cannot(f"its iterations decide when it ends, and {error}") from None
    infos = body.outputs[1 + len(carry) :]
    stacked = [stacked_values(call, s, i) for s, i in zip(collected, infos, strict=True)]
    return (*carry, *stacked)


def _unknown(value: Any) -> bool:
    return isinstance(value, Tensor)


def _on_device(values: list[Any]) -> bool:
    """Return whether the values are tensors and at least one is on the device."""
    plain = all(isinstance(v, Tensor | np.ndarray) for v in values)
    return plain and any(isinstance(v, Tensor) for v in values)


def counted(call: Call, count: int, carry: list[Any], body: Graph) -> tuple[Any, ...]:
    """Return the loop as one scan; raises where a shape changes or the condition is data."""

    def step(held: list[Tensor], turn: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        made = call.apply(body, [turn, np.array(True), *held])
        if not is_host(made[0]) or not bool(call.host(made[0]).reshape(-1)[0]):
            raise call.cannot("its iterations decide the loop's condition")
        values = [call.tensor(v) for v in made[1:]]
        return values[: len(held)], values[len(held) :]

    with calor.device(call.device):
        turns = calor.arange(count, dtype=calor.int64)
        last, stacked = calor.scan(step, [call.tensor(v) for v in carry], turns)
    return (*last, *stacked)


def while_loop(call: Call, trips: Any, condition: Any, carry: list[Any], body: Graph) -> Any:
    """Return the loop as a while_loop; raises where a shape changes."""
    limit = None if trips is None else calor.reshape(call.tensor(trips), ())
    with calor.device(call.device):
        first = np.array(True) if condition is None else condition
        on = calor.reshape(call.tensor(first), ())
        turn = calor.zeros((), dtype=calor.int64)
        held = [call.tensor(v) for v in carry]

        def holds(state: Any) -> Tensor:
            return state[1] if limit is None else calor.logical_and(state[1], state[0] < limit)

        def step(state: Any) -> Any:
            made = [call.tensor(v) for v in call.apply(body, [state[0], state[1], *state[2]])]
            return state[0] + 1, calor.reshape(made[0], ()), made[1:]

        return tuple(calor.while_loop(holds, step, (turn, on, held))[2])


def stacked_values(call: Call, values: list[Any], info: Any, axis: int = 0) -> Any:
    """Return values of all turns along a new axis; without turns, empty ones as declared."""
    if not values:
        sizes = [n if isinstance(n, int) else 0 for n in info.shape or ()]
        sizes.insert(axis, 0)
        return np.zeros(sizes, np.float32 if info.dtype is None else info.dtype)
    if all(isinstance(v, np.ndarray) for v in values):
        return np.stack(values, axis=axis)
    return calor.stack([call.tensor(v) for v in values], axis=axis)


@operator("Scan", since=9, raw=True)
def scan(
    call: Call,
    *values: Any,
    body: Graph,
    num_scan_inputs: int,
    scan_input_axes: list[int] | None = None,
    scan_input_directions: list[int] | None = None,
    scan_output_axes: list[int] | None = None,
    scan_output_directions: list[int] | None = None,
) -> Any:
    """The values that a graph carries along slices of others, and those that it gives for each."""
    kept = len(values) - num_scan_inputs
    carry = list(values[:kept])
    outputs = len(body.outputs) - kept
    if kept < 0 or outputs < 0:
        raise ModelError(
            f"Scan: num_scan_inputs is {num_scan_inputs}, and the node has {len(values)} inputs"
        )
    rows = []
    for i, value in enumerate(values[kept:]):
        axis = scan_input_axes[i] if scan_input_axes else 0
        rows.append(_walked(value, axis, bool(scan_input_directions and scan_input_directions[i])))
    lengths = {row.shape[0] for row in rows}
    if len(lengths) != 1:
        raise ModelError(f"Scan: the scan inputs differ in length: {sorted(lengths)}")
    made = _scanned(call, lengths.pop(), carry, rows, body)
    stacked = []
    for i, value in enumerate(made[kept:]):
        axis = scan_output_axes[i] if scan_output_axes else 0
        backward = bool(scan_output_directions and scan_output_directions[i])
        stacked.append(_laid(value, axis, backward))
    return (*made[:kept], *stacked)


def _walked(value: Any, axis: int, backward: bool) -> Any:
    """Return a value with the axis first, from its end where it is walked backward."""
    moved = (np if isinstance(value, np.ndarray) else calor).moveaxis(value, axis, 0)
    return moved[::-1] if backward else moved


def _laid(value: Any, axis: int, backward: bool) -> Any:
    """Return stacked values with their first axis where it is wanted."""
    turned = value[::-1] if backward else value
    return (np if isinstance(value, np.ndarray) else calor).moveaxis(turned, 0, axis)


def _scanned(
    call: Call, length: int, carry: list[Any], rows: list[Any], body: Graph
) -> list[Any]:  # fmt: skip
    """Return the last carried values and the stacked outputs over rows of the inputs."""
    kept = len(carry)
    if length >= LONG and _on_device([*carry, *rows]):
        try:
            return scanned(call, carry, rows, body)
        except CalorError as error:
            call.refuse(_NO_LOOP, error)
    infos = body.outputs[kept:]
    collected: list[list[Any]] = [[] for _ in infos]
    for turn in range(length):
        # An element of a NumPy vector is a scalar, not an array.
        given = (np.asarray(row[turn]) if is_host(row) else row[turn] for row in rows)
        made = call.apply(body, [*carry, *given])
        carry = made[:kept]
        for stack, value in zip(collected, made[kept:], strict=True):
            stack.append(value)
    return [*carry, *(stacked_values(call, s, i) for s, i in zip(collected, infos, strict=True))]


def scanned(call: Call, carry: list[Any], rows: list[Any], body: Graph) -> list[Any]:
    """Return what turns over the rows give, as one scan; raises where a shape changes."""
    kept = len(carry)

    def step(held: list[Tensor], row: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        made = [call.tensor(v) for v in call.apply(body, [*held, *row])]
        return made[:kept], made[kept:]

    with calor.device(call.device):
        last, stacked = calor.scan(
            step, [call.tensor(v) for v in carry], [call.tensor(v) for v in rows]
        )
    return [*last, *stacked]


@operator("Scan", since=8, raw=True)
def scan_8(
    call: Call,
    lengths: Any,
    *values: Any,
    body: Graph,
    num_scan_inputs: int,
    directions: list[int] | None = None,
) -> Any:
    """The scan of each sample of a batch, up to its length; the first axis is the batch."""
    kept = len(values) - num_scan_inputs
    batch, longest = values[kept].shape[:2]
    counts = [longest] * batch if lengths is None else call.integers(lengths)
    results = []
    for row, count in enumerate(counts):
        walked = []
        for i, value in enumerate(values[kept:]):
            part = value[row][:count]
            walked.append(part[::-1] if directions and directions[i] else part)
        results.append(_scanned(call, count, [v[row] for v in values[:kept]], walked, body))
    made = []
    for i, parts in enumerate(zip(*results, strict=True)):
        full = [p if i < kept else _filled(call, p, longest) for p in parts]
        made.append(stacked_values(call, full, body.outputs[i]))
    return tuple(made)


def _filled(call: Call, value: Any, length: int) -> Any:
    more = length - value.shape[0]
    if not more:
        return value
    widths = [(0, more), *[(0, 0)] * (len(value.shape) - 1)]
    return np.pad(value, widths) if is_host(value) else calor.pad(value, widths)
