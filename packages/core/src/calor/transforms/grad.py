"""Gradients of functions and of tensors, in reverse and forward mode."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calor import tree
from calor.dtypes import as_dtype, names_dtype
from calor.errors import ArgumentError, DTypeError, GradientError, ShapeError
from calor.functions.creation import asarray, ones, zeros
from calor.local import local
from calor.ops.backpropagation import backpropagate
from calor.recording.records import Leaf, enable_grad, reachable, reaches_outside
from calor.recording.tracing import gradients_on, note_gradients
from calor.tensor.tensor import Tensor, wrap
from calor.tensor.values import Handle, is_weak
from calor.transforms.state import Stateful


def backward(output: Tensor, gradient: Tensor | None, create_graph: bool) -> None:
    """Add the gradients of ``output`` to ``.grad`` of the leaves that it was computed from.

    Parameters
    ----------
    output : Tensor
        The tensor to start from.
    gradient : Tensor or None
        The gradient with respect to ``output``; None for 1.
    create_graph : bool
        Whether the gradients can be differentiated again.

    Raises
    ------
    GradientError
        If ``output`` depends on no tensor that requires gradients.
    """
    note_gradients()
    if output._record is None:
        raise GradientError(
            "this tensor depends on no tensor that requires gradients; make one with "
            "calor.asarray(..., requires_grad=True) or x.requires_grad_()"
        )
    accumulate([(output._record, seed_for(output, gradient))], create_graph)


def accumulate(outputs: Sequence[tuple[Any, Any]], create_graph: bool) -> None:
    """Add the gradients of pairs of record and gradient to ``.grad`` of the leaves below them."""
    found = backpropagate(outputs, None, create_graph)
    for record in reachable(record for record, _ in outputs):
        g = found.get(id(record))
        leaf = None if g is None else record.tensor()
        if leaf is not None:
            if local.jit:
                local.jit[-1].note_grad(leaf)
            before = leaf._grad
            leaf._grad = g if before is None else before + g


def seed_for(output: Any, gradient: Any) -> Any:
    """Return the gradient to start from: the one given, or 1 for a scalar."""
    if gradient is None:
        if output.size != 1:
            raise GradientError(
                f"the gradient of a tensor of shape {output.shape} needs a gradient to start "
                f"from; reduce it first (x.sum()), or pass one of the same shape"
            )
        return ones(output.shape, dtype=output.dtype, device=output.device)
    if not isinstance(gradient, Handle) or is_weak(gradient):
        gradient = asarray(gradient, dtype=output.dtype, device=output.device)
    if gradient.shape != output.shape:
        raise ShapeError(f"the gradient has shape {gradient.shape}, the tensor {output.shape}")
    if gradient.dtype is not output.dtype:
        raise DTypeError(
            f"the gradient is {gradient.dtype.name}, the tensor {output.dtype.name}; cast it"
        )
    return gradient


def from_number(leaf: Any) -> Any:
    """Return a floating or complex number, or array of NumPy, as a tensor, others as they are."""
    if type(leaf) in (float, complex):
        return asarray(leaf)
    if isinstance(leaf, Handle):
        known = leaf._value.spec
        # An integer that a trace stands in for remains a number.
        return asarray(leaf) if known.weak and known.dtype.is_inexact else leaf
    if isinstance(leaf, np.ndarray | np.generic) and names_dtype(leaf.dtype.name):
        return asarray(leaf) if as_dtype(leaf.dtype.name).is_inexact else leaf
    return leaf


class Differentiating:
    """Arguments prepared for a transform: each differentiable tensor ends in a leaf of its own.

    Tensors of plain containers are replaced by new handles; tensors of Stateful objects keep their
    handle, whose record is exchanged until ``restore``, so that changes of state still reach them.
    """

    def __init__(self, arguments: Sequence[Any]) -> None:
        self.leaves: list[Any] = []
        self._handles: list[tuple[Any, Any]] = []
        self._by_id: dict[int, Any] = {}
        self.slots: list[list[Any]] = []
        self.structures: list[tree.TreeDef] = []
        self.primals: list[list[Any]] = []
        self.arguments = [self._prepare(argument) for argument in arguments]

    def _prepare(self, argument: Any) -> Any:
        flat, structure = tree.flatten(argument)
        owned = _stateful_leaves(argument)
        slots, made = [], []
        for leaf in flat:
            slot, new = self._leaf(leaf, id(leaf) in owned)
            slots.append(slot)
            made.append(new)
        self.slots.append(slots)
        self.structures.append(structure)
        self.primals.append(made)
        return with_leaves(argument, iter(made))

    def _leaf(self, leaf: Any, owned: bool) -> tuple[Any, Any]:
        leaf = from_number(leaf)
        if not isinstance(leaf, Handle) or not leaf._value.spec.dtype.is_inexact:
            return None, leaf
        if owned and leaf._record is None:
            # A tensor of a module that does not require gradients is a buffer.
            return None, leaf
        if local.jit:
            # Before its record is exchanged: a trace gives back what a tensor held when touched.
            local.jit[-1].touch(leaf)
        if owned:
            found = self._by_id.get(id(leaf))
            if found is None:
                before = leaf._record
                interactive = type(before) is Leaf and before.tensor is not None
                found = self._by_id[id(leaf)] = Leaf(None if interactive else before)
                found.owner = weakref.ref(leaf)
                self._handles.append((leaf, before))
                leaf._record = found
                self.leaves.append(found)
            return found, leaf
        slot = Leaf(leaf._record)
        self.leaves.append(slot)
        return slot, wrap(leaf._value, slot)

    def restore(self) -> None:
        """Give Stateful tensors their own records back."""
        for handle, before in self._handles:
            if type(handle._record) is Leaf and handle._record in self.leaves:
                handle._record = before

    def gradients(self, found: dict[int, Any]) -> list[Any]:
        """Return one tree per argument: gradients, zeros where none arrived, None for others."""
        trees = []
        for slots, structure, primals in zip(
            self.slots, self.structures, self.primals, strict=True
        ):
            values = []
            for slot, x in zip(slots, primals, strict=True):
                g = None if slot is None else found.get(id(slot))
                if g is None and slot is not None:
                    g = zeros(x.shape, dtype=x.dtype, device=x.device)
                values.append(g)
            trees.append(tree.unflatten(structure, values))
        return trees


def _stateful_leaves(argument: Any) -> set[int]:
    if isinstance(argument, Stateful):
        return {id(leaf) for leaf in tree.leaves(argument)}
    if isinstance(argument, list | tuple):
        return set().union(*(_stateful_leaves(a) for a in argument)) if argument else set()
    if isinstance(argument, dict):
        return set().union(*(_stateful_leaves(a) for a in argument.values())) if argument else set()
    return set()


def with_leaves(argument: Any, leaves: Any) -> Any:
    """Return the argument with new leaves; Stateful objects stay the same objects."""
    if isinstance(argument, Stateful):
        for _ in tree.leaves(argument):
            next(leaves)
        return argument
    if type(argument) in (list, tuple):
        return type(argument)(with_leaves(a, leaves) for a in argument)
    if type(argument) is dict:
        return {k: with_leaves(v, leaves) for k, v in argument.items()}
    flat, structure = tree.flatten(argument)
    return tree.unflatten(structure, [next(leaves) for _ in flat])


def picked(args: tuple[Any, ...], argnums: int | Sequence[int]) -> tuple[list[int], bool]:
    """Return the numbers of the chosen arguments, and whether it is one alone."""
    one = isinstance(argnums, int)
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    for n in numbers:
        if not -len(args) <= n < len(args):
            raise ArgumentError(
                f"argnums {argnums} names argument {n}, the call has {len(args)} positional ones"
            )
    return [n % len(args) for n in numbers], one


def value_and_grad(
    function: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes the value of ``function`` and its gradient.

    Parameters
    ----------
    function : callable
        It returns a tensor of one real floating element, or with ``has_aux`` a pair of such a
        tensor and anything.
    argnums : int or sequence of int, optional
        The positional arguments to differentiate: tensors, Python floats, pytrees of them, or
        modules. By default the first.
    has_aux : bool, optional
        Whether ``function`` returns a pair. By default False.

    Returns
    -------
    callable
        It takes the arguments of ``function`` and returns ``(value, gradient)``, or ``((value,
        aux), gradient)`` with ``has_aux``. The gradient has the structure of the argument; it is a
        tuple of them if ``argnums`` is a sequence. It is None for tensors of a module that do not
        require gradients, and for everything that is not floating or complex.

    Raises
    ------
    ArgumentError
        At the call, if ``argnums`` names an argument that is not given.
    GradientError
        At the call, if ``function`` does not return a real floating scalar.
    ShapeError
        At the call, from the gradient of a `calor.custom_vjp` that has another shape.
    DTypeError
        At the call, from the gradient of a `calor.custom_vjp` that has another dtype.

    Notes
    -----
    Nested calls give higher derivatives. For complex arguments the gradient is the conjugate
    Wirtinger derivative, as in PyTorch.

    Examples
    --------
    >>> import calor
    >>> value, g = calor.value_and_grad(lambda x: (x ** 2).sum())(calor.asarray([1.0, 3.0]))
    >>> value.item(), g.tolist()
    (10.0, [2.0, 6.0])
    """

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        numbers, one = picked(args, argnums)
        again = _again()
        prepared = Differentiating([args[n] for n in numbers])
        given = list(args)
        for n, argument in zip(numbers, prepared.arguments, strict=True):
            given[n] = argument
        try:
            with enable_grad():
                result = function(*given, **kwargs)
                value, aux = result if has_aux else (result, None)
                _check_scalar(value)
                found: dict[int, Any] = {}
                if value._record is not None:
                    seed = seed_for(value, None)
                    found = backpropagate([(value._record, seed)], prepared.leaves, again)
        finally:
            prepared.restore()
            for leaf in prepared.leaves:
                leaf.active = False
        gradients = prepared.gradients(found)
        if not gradients_on():
            # A trace says it: its graph may be differentiated.
            gradients = [_detached(g) for g in gradients]
        gradient = gradients[0] if one else tuple(gradients)
        value = strip(value, prepared.leaves)
        if has_aux:
            aux = tree.map(lambda t: strip(t, prepared.leaves), aux)
            return (value, aux), gradient
        return value, gradient

    return wrapped


def grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the gradient of ``function``.

    Parameters
    ----------
    function : callable
        It returns a tensor of one real floating element, or with ``has_aux`` a pair of such a
        tensor and anything.
    argnums : int or sequence of int, optional
        The positional arguments to differentiate, as in `value_and_grad`. By default the first.
    has_aux : bool, optional
        Whether ``function`` returns a pair. By default False.

    Returns
    -------
    callable
        It takes the arguments of ``function`` and returns the gradient, or ``(gradient, aux)`` with
        ``has_aux``; see `value_and_grad`.

    Raises
    ------
    ArgumentError
        At the call, if ``argnums`` names an argument that is not given.
    GradientError
        At the call, if ``function`` does not return a real floating scalar.

    Examples
    --------
    >>> import calor
    >>> calor.grad(calor.grad(lambda x: x ** 3))(2.0).item()
    12.0
    """
    both = value_and_grad(function, argnums, has_aux=has_aux)

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapped


def kind_of(value: Any) -> str:
    """Return what errors call the type of a value; a number that a trace stands in for is one."""
    return value._value.spec.dtype.kind if is_weak(value) else type(value).__name__


def _check_scalar(value: Any) -> None:
    if not isinstance(value, Handle) or is_weak(value):
        raise GradientError(
            f"the function returned {kind_of(value)}, a gradient needs a scalar tensor "
            f"(with has_aux=True a pair of a scalar and anything)"
        )
    spec = value._value.spec
    if spec.size != 1 or spec.dtype.kind != "float":
        raise GradientError(
            f"the function returned {spec}; a gradient needs a real floating scalar: reduce it "
            f"(x.sum()), or use calor.vjp"
        )


def _again() -> bool | None:
    """Return whether gradients are differentiated again: None where it depends on their leaves."""
    return None if local.grad_enabled else False


def strip(value: Any, leaves: Sequence[Any]) -> Any:
    """Return a tensor without its record, unless something besides the leaves is differentiable.

    Where gradients are off around the transform, nothing is.
    """
    if not isinstance(value, Handle):
        return value
    if not gradients_on():
        return _detached(value)
    if value._record is None:
        return value
    if not local.grad_enabled:
        return wrap(value._value)
    inner = frozenset(id(leaf) for leaf in leaves)
    outer = reaches_outside(reachable([value._record]), inner)
    return value if outer else wrap(value._value)


def vjp(
    function: Callable[..., Any], *primals: Any, has_aux: bool = False
) -> tuple[Any, ...]:  # numpydoc ignore=RS01
    """Return the value of a function, and the function that takes its gradients backwards.

    Parameters
    ----------
    function : callable
        It returns a tensor, or a pytree of tensors; with ``has_aux`` a pair of that and anything.
    *primals : Any
        The arguments: tensors, Python floats, pytrees of them, or modules.
    has_aux : bool, optional
        Whether ``function`` returns a pair. By default False.

    Returns
    -------
    tuple
        The value, and a function from a cotangent to a tuple of gradients, one for each of
        ``primals``. The cotangent has the structure, shapes and dtypes of the value; None in it
        stands for zero. It may be called more than once. With ``has_aux`` the other part of the
        pair comes third.

    Raises
    ------
    ShapeError
        When the second function is called, if the cotangent has another structure or shape.
    DTypeError
        When the second function is called, if the cotangent has another dtype.
    GradientError
        When the second function is called, if an op of ``function`` has no gradient.

    Examples
    --------
    >>> import calor
    >>> y, pull = calor.vjp(lambda x: x * x, calor.asarray([1.0, 2.0]))
    >>> pull(calor.asarray([1.0, 10.0]))[0].tolist()
    [2.0, 40.0]
    """
    made = Differentiated(function, primals, has_aux)

    def pull(cotangents: Any) -> tuple[Any, ...]:
        given = tree.aligned(cotangents, made.structure, absent=True)
        if given is None:
            found = tree.flatten(cotangents)[1]
            raise ShapeError(f"the cotangent has structure {found}, the value {made.structure}")
        return made.back(given)

    return (made.value, pull, made.aux) if has_aux else (made.value, pull)


class Differentiated:
    """A function that ran once at its arguments: its value, and the gradients of these."""

    def __init__(
        self, function: Callable[..., Any], primals: Sequence[Any], has_aux: bool = False
    ) -> None:
        prepared = self.prepared = Differentiating(primals)
        try:
            with enable_grad():
                result = function(*prepared.arguments)
        finally:
            prepared.restore()
        for leaf in prepared.leaves:
            leaf.active = False
        result, aux = result if has_aux else (result, None)
        self.flat, self.structure = tree.flatten(result)
        values = [strip(y, prepared.leaves) for y in self.flat]
        self.value = tree.unflatten(self.structure, values)
        self.aux = tree.map(lambda t: strip(t, prepared.leaves), aux)

    def back(self, cotangents: Sequence[Any]) -> tuple[Any, ...]:
        """Return the gradients of the arguments for one cotangent or None for each output."""
        pairs = [
            (y._record, seed_for(y, g))
            for y, g in zip(self.flat, cotangents, strict=True)
            if isinstance(y, Handle) and y._record is not None and g is not None
        ]
        found = backpropagate(pairs, self.prepared.leaves, _again()) if pairs else {}
        return tuple(self.prepared.gradients(found))


def stop_gradient(x: Any) -> Any:  # numpydoc ignore=RS01
    """Return the tensors of a pytree with no gradient flowing through them.

    Parameters
    ----------
    x : Any
        A tensor, or a pytree of tensors.

    Returns
    -------
    Any
        The structure and values of ``x``.

    Examples
    --------
    >>> import calor
    >>> calor.grad(lambda x: x * calor.stop_gradient(x))(3.0).item()
    3.0
    """
    return tree.map(lambda t: _detached(t) if isinstance(t, Handle) else t, x)


def _detached(tensor: Any) -> Any:
    return tensor.detach()
