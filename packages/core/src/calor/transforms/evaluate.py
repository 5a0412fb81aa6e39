"""Computing pending values on request, and looking at what a function records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from calor import tree
from calor.device_selection import current_device
from calor.graph.graph import Graph
from calor.local import local
from calor.recording.trace import materialize
from calor.tensor.values import Handle
from calor.transforms.arguments import Arguments
from calor.transforms.hidden import hidden
from calor.transforms.traced import traced


def eval(*trees: Any) -> None:
    """Compute every pending tensor of the given pytrees now.

    Parameters
    ----------
    *trees : Any
        Tensors, or pytrees of tensors; other leaves are ignored.

    Raises
    ------
    DeviceError
        If a device fails to compute a tensor, such as OutOfMemoryError.
    TraceError
        If `calor.jit` traces the call and a tensor is of the trace.

    Examples
    --------
    >>> import calor
    >>> x = calor.ones(3) * 2
    >>> calor.eval(x)
    """
    tensors: Iterable[Any] = trees
    # A tensor alone, or several, need no walk.
    if not all(isinstance(x, Handle) for x in trees):
        tensors = [leaf for leaf in tree.leaves(trees) if isinstance(leaf, Handle)]
    for tensor in tensors:
        if local.jit:
            local.jit[-1].look_at(tensor)
        materialize(tensor._value)


def trace(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Graph:
    """Return the graph that a function records, without computing anything.

    Parameters
    ----------
    function : callable
        Any function of tensors, pytrees and modules.
    *args : Any
        Its arguments, as for `calor.jit`.
    **kwargs : Any
        Its keyword arguments.

    Returns
    -------
    Graph
        The graph; ``print(graph.text())`` shows it. Its inputs are the tensors of the arguments and
        then those that the function captures.

    Raises
    ------
    TraceError
        If the function reads the value of a traced tensor.

    Examples
    --------
    >>> import calor
    >>> print(calor.trace(lambda x: x + x, calor.ones(2)).text())
    graph(%0: float32[2]) {
      %1: float32[2] = add(%0, %0)
      return %1
    }
    """
    arguments = Arguments(args, kwargs, frozenset())
    device = next(
        (t._value.device for t in arguments.tensors if isinstance(t, Handle)), current_device()
    )
    name = getattr(function, "__name__", "function")
    return traced(function, name, arguments, hidden(function)[0], device).graph
