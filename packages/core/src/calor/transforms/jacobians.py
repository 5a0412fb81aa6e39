"""Jacobians and Hessians of functions: products with all unit vectors, mapped by ``calor.vmap``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from calor import tree
from calor.errors import GradientError
from calor.functions.ranges import eye
from calor.ops.movement import reshape
from calor.tensor.values import Handle, is_weak
from calor.transforms.batching.movement import moved
from calor.transforms.forward import Linearized
from calor.transforms.grad import Differentiated, from_number, kind_of, picked, with_leaves
from calor.transforms.vmap import vmap


def jacrev(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of ``function``, row by row in reverse mode.

    Parameters
    ----------
    function : callable
        It returns a real floating tensor, or a pytree of them; with ``has_aux`` a pair of that and
        anything.
    argnums : int or sequence of int, optional
        The positional arguments to differentiate: tensors, Python floats, pytrees of them, or
        modules. By default the first.
    has_aux : bool, optional
        Whether ``function`` returns a pair. By default False.

    Returns
    -------
    callable
        It takes the arguments of ``function`` and returns the structure of its value, with a
        Jacobian in the structure of the argument in place of each tensor (a tuple of them if
        ``argnums`` is a sequence). That of an output of shape S by a leaf of shape T has shape
        (*S, *T). It returns ``(jacobian, aux)`` with ``has_aux``.

    Raises
    ------
    ArgumentError
        At the call, if ``argnums`` names an argument that is not given.
    GradientError
        At the call, if an output is not real floating, or an op has no gradient.

    See Also
    --------
    jacfwd : The same column by column, for functions with more outputs than inputs.

    Examples
    --------
    >>> import calor
    >>> calor.jacrev(lambda x: x * x.sum())(calor.asarray([1.0, 2.0])).tolist()
    [[4.0, 1.0], [2.0, 5.0]]
    """

    @functools.wraps(function, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        run, chosen, one = _of_chosen(function, argnums, args, kwargs)
        made = Differentiated(run, chosen, has_aux)
        flat, structure = tree.flatten(made.value)
        for y in flat:
            _check(y, "jacrev", "output", "jacfwd")

        def rows(place: int) -> Any:
            shape = flat[place].shape

            def row(g: Any) -> Any:
                found = made.back([g if i == place else None for i in range(len(flat))])
                return found[0] if one else found

            each = _over_units(row, flat[place])
            return tree.map(lambda t: reshape(t, shape=(*shape, *t.shape[1:])), each)

        found = tree.unflatten(structure, [rows(i) for i in range(len(flat))])
        return (found, made.aux) if has_aux else found

    return wrapped


def jacfwd(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of ``function``, by columns in forward mode.

    Parameters
    ----------
    function : callable
        It returns a floating tensor, or a pytree of them; with ``has_aux`` a pair of that and
        anything.
    argnums : int or sequence of int, optional
        The positional arguments to differentiate: real floating tensors, Python floats, pytrees of
        them, or modules. By default the first.
    has_aux : bool, optional
        Whether ``function`` returns a pair. By default False.

    Returns
    -------
    callable
        It takes the arguments of ``function`` and returns what `jacrev` returns.

    Raises
    ------
    ArgumentError
        At the call, if ``argnums`` names an argument that is not given.
    GradientError
        At the call, if an argument is complex, or an op has no derivative.

    See Also
    --------
    jacrev : The same row by row, for functions with more inputs than outputs.

    Examples
    --------
    >>> import calor
    >>> calor.jacfwd(lambda x: x * x.sum())(calor.asarray([1.0, 2.0])).tolist()
    [[4.0, 1.0], [2.0, 5.0]]
    """

    @functools.wraps(function, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        run, chosen, one = _of_chosen(function, argnums, args, kwargs)
        linear = Linearized(run, chosen, has_aux)
        outputs, structure = tree.flatten(linear.value)
        flat, given = tree.flatten(chosen)

        def columns(place: int) -> list[Any]:
            x = flat[place]
            if not _moves(x):
                return [None] * len(outputs)
            _check(x, "jacfwd", "argument", "jacrev")

            def column(t: Any) -> Any:
                return linear.along([t if i == place else None for i in range(len(flat))])

            return [_columns(t, x.shape) for t in tree.leaves(_over_units(column, x))]

        found = [columns(i) for i in range(len(flat))]
        parts = []
        for k in range(len(outputs)):
            by_argument = tree.unflatten(given, [f[k] for f in found])
            parts.append(by_argument[0] if one else tuple(by_argument))
        jacobian = tree.unflatten(structure, parts)
        return (jacobian, linear.aux) if has_aux else jacobian

    return wrapped


def hessian(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the second derivatives of ``function``.

    Parameters
    ----------
    function : callable
        It returns a real floating tensor, or a pytree of them; with ``has_aux`` a pair of that and
        anything.
    argnums : int or sequence of int, optional
        The positional arguments to differentiate, as in `jacrev`. By default the first.
    has_aux : bool, optional
        Whether ``function`` returns a pair. By default False.

    Returns
    -------
    callable
        It takes the arguments of ``function`` and returns the Jacobian by `jacfwd` of the Jacobian
        by `jacrev`: for a scalar of a tensor of shape S a tensor of shape (*S, *S), for pytrees a
        tree of trees. It returns ``(hessian, aux)`` with ``has_aux``.

    Raises
    ------
    ArgumentError
        At the call, if ``argnums`` names an argument that is not given.
    GradientError
        At the call, if an output is not real floating, an argument is complex, or an op has no
        second derivative.

    Examples
    --------
    >>> import calor
    >>> calor.hessian(lambda x: (x ** 3).sum())(calor.asarray([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    first = jacrev(function, argnums, has_aux=has_aux)
    return jacfwd(first, argnums, has_aux=has_aux)


def _of_chosen(
    function: Callable[..., Any],
    argnums: int | Sequence[int],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Callable[..., Any], list[Any], bool]:
    """Return the function of the chosen arguments, these, and whether it is one alone."""
    numbers, one = picked(args, argnums)

    def run(*chosen: Any) -> Any:
        given = list(args)
        for n, x in zip(numbers, chosen, strict=True):
            given[n] = x
        return function(*given, **kwargs)

    chosen = [with_leaves(args[n], map(from_number, tree.leaves(args[n]))) for n in numbers]
    return run, chosen, one


def _moves(x: Any) -> bool:
    return isinstance(x, Handle) and x._value.spec.dtype.is_inexact


def _check(x: Any, name: str, what: str, other: str) -> None:
    tensor = isinstance(x, Handle) and not is_weak(x)
    if tensor and x._value.spec.dtype.kind == "float":
        return
    told = f"{x._value.spec}" if tensor else f"a {kind_of(x)}"
    raise GradientError(
        f"calor.{name} needs real floating {what}s, not {told}; use calor.{other}, or take real "
        f"and imaginary parts"
    )


def _over_units(function: Callable[[Any], Any], like: Any) -> Any:
    """Return a linear function at each unit vector of the shape of a tensor, along a first axis."""
    shape, size = like.shape, prod(like.shape)
    with like.device:
        units = reshape(eye(size, dtype=like.dtype), shape=(size, *shape))
    return vmap(function)(units)


def _columns(t: Any, shape: tuple[int, ...]) -> Any:
    """Return a tensor (size, *) as (*, *shape)."""
    t = moved(t, 0, t.ndim - 1)
    return reshape(t, shape=(*t.shape[:-1], *shape))
