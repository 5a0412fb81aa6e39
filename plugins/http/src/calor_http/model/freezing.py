"""A function of tensors as a graph that holds its weights, to be served from a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import calor
from calor import Tensor
from calor.errors import ArgumentError
from calor.graph.attributes import HostArray
from calor.graph.graph import Builder, Graph
from calor.recording.rows import constant
from calor.tensor.tensor import wrap
from calor.transforms.traced import Traced


def frozen(function: Callable[..., Any], *examples: Tensor) -> Graph:
    """Return the graph of a function, with the tensors that it captures as constants.

    Parameters
    ----------
    function : callable
        A function or module of tensors that returns tensors and changes nothing.
    *examples : Tensor
        An argument for each of its parameters; their shapes and dtypes are those of the graph.

    Returns
    -------
    Graph
        The graph; :func:`calor.graph.file.save` makes bytes of it, which
        ``python -m calor_http model`` serves.

    Raises
    ------
    ArgumentError
        If the function changes a tensor, or takes or returns anything but tensors.

    Examples
    --------
    >>> import calor
    >>> from calor_http.model.freezing import frozen
    >>> weight = calor.asarray([1.0, 2.0])
    >>> frozen(lambda x: x * weight, calor.ones(2)).input_specs
    (float32[2],)
    """
    jitted = calor.jit(function)
    with calor.no_grad():
        jitted(*examples)
    traced = jitted.programs[0].traced
    graph = traced.graph
    if graph.host or len(graph.inputs) != len(examples) + len(traced.sources):
        raise ArgumentError("a served function takes tensors alone; make constants of the others")
    if traced.state_writes or traced.argument_writes or traced.grad_writes:
        raise ArgumentError(
            "a served function changes nothing, and this one writes to tensors; for a module call "
            "eval() first"
        )
    if not all(is_tensor for is_tensor, _ in traced.leaves):
        raise ArgumentError("a served function returns tensors alone")
    builder = Builder()
    numbers = [builder.input(spec) for spec in graph.input_specs[: len(examples)]]
    for source in traced.sources:
        array = HostArray.of(_array_of(traced, source))
        numbers.extend(builder.add(constant, [], {"array": array, "weak": False}))
    made = builder.inline(graph, numbers)
    return builder.build([made[place] for _, place in traced.leaves])


def _array_of(traced: Traced, source: Any) -> Any:
    """Return what a captured tensor, or a constant, holds."""
    handle: Any = traced.captures[source] if isinstance(source, int) else wrap(source)
    return handle.numpy()
