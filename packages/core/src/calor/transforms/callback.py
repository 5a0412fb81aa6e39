"""Functions of the host within programs: ``calor.callback``.

Requirements: the function is called on the host with arrays, also within jit and control flow, and
on every device. A pure one may be called again, or not at all; an ordered one is called once each
time that the program passes it, in the program's order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from calor import tree
from calor.device_selection import current_device
from calor.errors import ArgumentError, GradientError, ShapeError
from calor.functions.creation import asarray
from calor.functions.ordering import token_of
from calor.graph.host_call import HostCall
from calor.local import local, nowhere
from calor.ops import host_calls as rows
from calor.recording.records import Custom, Projection
from calor.recording.tracing import outside
from calor.specs import Spec, spec
from calor.tensor.tensor import Tensor
from calor.tensor.values import Handle


def callback(
    function: Callable[..., Any], results: Any, /, *args: Any, ordered: bool = False
) -> Any:
    """Call a function of the host, also within `calor.jit` and control flow.

    Values move to the host and back, and the device waits, so a call takes time. Outside of a
    program the function is called at once.

    Parameters
    ----------
    function : callable
        Takes `args` with a read-only NumPy array in the place of each tensor. It returns what
        `results` declares: arrays of these shapes and dtypes, or numbers. What it raises leaves the
        call of the program.
    results : pytree of Tensor or Spec
        What the function returns: a tensor stands for its shape and dtype, and
        ``calor.specs.spec(shape, dtype)`` is one without a tensor. None for a function that is
        called for what it does.
    *args : pytree
        The arguments. Leaves that are no tensors are passed as they are.
    ordered : bool, optional
        Whether the function does more than to return something, such as printing. It is then called
        each time that the program passes here, in the program's order; on a group of devices each
        member passes, one after another. By default it must be pure: it may be called more than
        once, and is not called if nothing needs its results.

    Returns
    -------
    pytree of Tensor
        As `results`.

    Raises
    ------
    ArgumentError
        If `results` has a leaf of another kind, or is None for a pure function.
    ShapeError
        If the function returns another shape, when it is called.
    DTypeError
        If the function returns another dtype, when it is called.
    GradientError
        If a gradient is asked for through the results; `calor.custom_vjp` gives one.

    Examples
    --------
    >>> import calor
    >>> import numpy as np
    >>> x = calor.asarray([3.0, 1.0, 2.0])
    >>> @calor.jit
    ... def spectrum(x):
    ...     return calor.callback(lambda a: np.sort(a), x, x) * 2
    >>> spectrum(x)
    tensor([2., 4., 6.])
    >>> @calor.jit
    ... def doubled(x):
    ...     calor.callback(lambda a: print("the sum is", a), None, x.sum(), ordered=True)
    ...     return x * 2
    >>> made = doubled(x)
    the sum is 6.0
    """
    declared, structure = tree.flatten(results)
    specs = [_spec(function, leaf) for leaf in declared]
    if not specs and not ordered:
        raise ArgumentError(
            f"callback: {_name(function)} has no results, so it is called for what it does: add "
            f"ordered=True"
        )
    leaves, form = tree.flatten(args)
    places = tuple(i for i, x in enumerate(leaves) if isinstance(x, Handle))
    tensors = [leaves[i] for i in places]

    def call(*arrays: Any) -> Sequence[Any]:
        given = list(leaves)
        for place, array in zip(places, arrays, strict=True):
            given[place] = array
        with _apart():
            made = function(*tree.unflatten(form, given))
            return _arrays(made, structure, specs, _name(function))

    others = tuple(_identity(x) for i, x in enumerate(leaves) if i not in places)
    for place in places:
        # The function keeps no tensor alive.
        leaves[place] = None
    identity = (_identity(function), form, structure, places, others)
    host = HostCall(call, identity, _name(function), specs)
    made = _traced(host, tensors, ordered) if local.jit else _at_once(host, tensors)
    return tree.unflatten(structure, made)


def _traced(host: HostCall, tensors: list[Any], ordered: bool) -> list[Any]:
    if not ordered:
        return _all(rows.callback(*tensors, call=host))
    token = token_of(local.jit[-1].device)
    after, *made = _all(rows.ordered_callback(token, *tensors, call=host))
    token._rebind(after)
    return made


def _all(made: Any) -> list[Any]:
    return list(made) if isinstance(made, tuple) else [made]


def _at_once(host: HostCall, tensors: list[Any]) -> list[Any]:
    device = tensors[0].device if tensors else current_device()
    made = [asarray(array, device=device) for array in host(*[t.numpy() for t in tensors])]
    parents = tuple(t._record for t in tensors if t._record is not None)
    if local.grad_enabled and parents:

        def pull(gradients: list[Any]) -> list[Any]:
            raise GradientError(f"callback of {host.name}: {rows.callback.no_gradient}")

        record = Custom(parents, pull, len(made))
        for slot, tensor in enumerate(made):
            if tensor.dtype.is_inexact:
                tensor._record = Projection(record, slot)
    return made


@contextmanager
def _apart() -> Iterator[None]:
    """Give the function pending traces of its own: another one may be in the midst of a flush."""
    trace, traces = local.trace, local.traces
    local.trace, local.traces = nowhere, {}
    try:
        with outside():
            yield
    finally:
        local.trace, local.traces = trace, traces


def _spec(function: Callable[..., Any], leaf: Any) -> Spec:
    if isinstance(leaf, Handle):
        known = leaf._value.spec
        return spec(known.shape, known.dtype)
    if isinstance(leaf, Spec):
        return leaf
    raise ArgumentError(
        f"callback: results of {_name(function)} hold a {type(leaf).__name__}; give a tensor of "
        f"the shape and dtype, or calor.specs.spec(shape, dtype)"
    )


def _arrays(made: Any, structure: tree.TreeDef, specs: Sequence[Spec], name: str) -> list[Any]:
    if not specs:
        return []
    # A list may be one array, where one is declared.
    if len(specs) == 1 and structure == tree.LEAF:
        return [made.numpy() if isinstance(made, Tensor) else made]
    leaves = tree.aligned(made, structure)
    if leaves is None:
        raise ShapeError(
            f"callback: {name} returned the structure {tree.flatten(made)[1]} where {structure} is "
            f"declared; change the function or its results="
        )
    return [x.numpy() if isinstance(x, Tensor) else np.asarray(x) for x in leaves]


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", None) or type(function).__name__


def _identity(value: Any) -> object:
    """Return what stands for a value in comparisons: itself, or its place where it has no hash."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value
