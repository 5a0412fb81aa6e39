"""Pytrees: nested containers of tensors, taken apart into leaves and put together again.

Lists, tuples, named tuples, dictionaries, None and Stateful objects (modules, optimizers) are
containers; everything else is a leaf. A TreeDef is hashable, so structure can be a key.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from calor.errors import ArgumentError
from calor.graph.attributes import exact

Flatten = Callable[[Any], tuple[Sequence[Any], Any]]
Unflatten = Callable[[Any, Sequence[Any]], Any]


@dataclass(frozen=True, slots=True)
class TreeDef:
    """The structure of a pytree. It is hashable, and equal for equal structures.

    Parameters
    ----------
    kind : type or None
        The container's type; None for a leaf.
    aux : Hashable
        What the container needs besides its children, such as the keys of a dict.
    children : tuple of TreeDef
        The structures of the children.
    count : int
        The number of leaves.

    Examples
    --------
    >>> import calor
    >>> calor.tree.flatten({"a": 1, "b": [2, 3]})[1]
    dict('a': *, 'b': list(*, *))
    """

    kind: type | None
    aux: Hashable
    children: tuple[TreeDef, ...]
    count: int

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TreeDef) or self.kind is not other.kind:
            return False
        if self.count != other.count or self.children != other.children:
            return False
        return _same(self.aux, other.aux)

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        inside = [*map(repr, self.children)]
        if self.kind in (dict, OrderedDict):
            keys: Any = self.aux
            inside = [f"{key!r}: {text}" for key, text in zip(keys, inside, strict=True)]
        return f"{self.kind.__name__}({', '.join(inside)})"


class Compared(tuple[Any, ...]):
    """An ``aux`` whose parts are equal only where they are the same.

    Examples
    --------
    >>> from calor.tree import Compared
    >>> Compared(("a", "b")) == ("a", "b")
    True
    """

    __slots__ = ()


def _compared(aux: Any) -> bool:
    """Return whether an ``aux`` is compared by ``==``, such as the keys of most dictionaries."""
    if aux is None or type(aux) is Compared:
        return True
    return type(aux) is tuple and all(type(key) is str for key in aux)


def _same(aux: Any, other: Any) -> bool:
    if _compared(aux):
        return bool(aux == other)
    # 1 and True are equal, and other keys.
    return bool(exact(aux) == exact(other))


LEAF: Final = TreeDef(None, None, (), 1)

_NODES: dict[type, tuple[Flatten, Unflatten]] = {}


def register(kind: type, flatten_one: Flatten, unflatten_one: Unflatten) -> None:
    """Make a type a container of pytrees.

    Parameters
    ----------
    kind : type
        The type. Subclasses are registered separately.
    flatten_one : callable
        ``flatten_one(x)`` returns the children, a sequence, and ``aux``, a hashable value that is
        compared.
    unflatten_one : callable
        ``unflatten_one(aux, children)`` returns the container.

    Raises
    ------
    ArgumentError
        If the type is registered already.

    Examples
    --------
    >>> import calor
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> calor.tree.register(Pair, lambda p: ((p.a, p.b), None), lambda _, children: Pair(*children))
    >>> calor.tree.leaves([Pair(1, 2), 3])
    [1, 2, 3]
    """
    if kind in _NODES:
        raise ArgumentError(f"{kind.__name__} is already registered as a pytree container")
    _NODES[kind] = (flatten_one, unflatten_one)


def _functions(kind: type) -> tuple[Flatten, Unflatten] | None:
    found = _NODES.get(kind)
    if found is None:
        for base in kind.__mro__[1:]:
            if base in _INHERITED:
                return _INHERITED[base]
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return _NAMED_TUPLE
    return found


# Containers whose subclasses are containers too, filled by the module of each.
_INHERITED: dict[type, tuple[Flatten, Unflatten]] = {}


def _named(kind: Any, children: Sequence[Any]) -> Any:
    return kind(*children)


_NAMED_TUPLE: tuple[Flatten, Unflatten] = (lambda x: (list(x), type(x)), _named)


def register_base(kind: type, flatten_one: Flatten, unflatten_one: Unflatten) -> None:
    """Make a type and all its subclasses containers of pytrees.

    Parameters
    ----------
    kind : type
        The base class.
    flatten_one : callable
        As for `register`.
    unflatten_one : callable
        As for `register`. The type of the object is not passed on, so ``aux`` has to contain it.

    Examples
    --------
    >>> import calor
    >>> class Box:
    ...     def __init__(self, inside):
    ...         self.inside = inside
    >>> calor.tree.register_base(
    ...     Box, lambda b: ((b.inside,), type(b)), lambda kind, children: kind(*children)
    ... )
    >>> class Crate(Box):
    ...     pass
    >>> type(calor.tree.map(lambda x: x + 1, Crate(1))).__name__
    'Crate'
    """
    _INHERITED[kind] = (flatten_one, unflatten_one)
    _NODES[kind] = (flatten_one, unflatten_one)


def _keyed(keys: Any, children: Sequence[Any]) -> dict[Any, Any]:
    return dict(zip(keys, children, strict=True))


def _ordered(keys: Any, children: Sequence[Any]) -> OrderedDict[Any, Any]:
    return OrderedDict(zip(keys, children, strict=True))


register(list, lambda x: (x, None), lambda _, children: list(children))
register(tuple, lambda x: (x, None), lambda _, children: tuple(children))
register(dict, lambda x: (list(x.values()), tuple(x)), _keyed)
register(OrderedDict, lambda x: (list(x.values()), tuple(x)), _ordered)
register(type(None), lambda _: ((), None), lambda _, __: None)


def flatten(tree: Any) -> tuple[list[Any], TreeDef]:
    """Return the leaves of a pytree, and its structure.

    Parameters
    ----------
    tree : Any
        Nested lists, tuples, named tuples, dictionaries, None, modules and registered types;
        everything else is a leaf.

    Returns
    -------
    tuple
        The list of leaves in order, and the TreeDef.

    Examples
    --------
    >>> import calor
    >>> calor.tree.flatten({"a": 1, "b": [2, 3]})[0]
    [1, 2, 3]
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree: Any, leaves: list[Any]) -> TreeDef:
    functions = _functions(type(tree))
    if functions is None:
        leaves.append(tree)
        return LEAF
    children, aux = functions[0](tree)
    start = len(leaves)
    parts = tuple([_flatten(child, leaves) for child in children])
    return TreeDef(type(tree), aux, parts, len(leaves) - start)


def unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """Return the pytree of a structure with the given leaves; the inverse of `flatten`.

    Parameters
    ----------
    treedef : TreeDef
        The structure.
    leaves : iterable
        As many leaves as the structure has.

    Returns
    -------
    Any
        The pytree.

    Raises
    ------
    ArgumentError
        If the number of leaves differs.

    Examples
    --------
    >>> import calor
    >>> leaves, structure = calor.tree.flatten({"a": 1, "b": [2, 3]})
    >>> calor.tree.unflatten(structure, [10 * leaf for leaf in leaves])
    {'a': 10, 'b': [20, 30]}
    """
    given = list(leaves)
    if len(given) != treedef.count:
        raise ArgumentError(f"the structure has {treedef.count} leaves, not {len(given)}")
    return _unflatten(treedef, iter(given))


def _unflatten(treedef: TreeDef, leaves: Any) -> Any:
    if treedef.kind is None:
        return next(leaves)
    functions = _functions(treedef.kind)
    assert functions is not None
    return functions[1](treedef.aux, [_unflatten(child, leaves) for child in treedef.children])


def map(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply a function to the leaves of pytrees.

    Parameters
    ----------
    function : callable
        Called with a leaf of ``tree`` and the corresponding leaves of ``rest``.
    tree : Any
        The pytree whose structure the result has.
    *rest : Any
        Pytrees with as many leaves; their dictionaries are read by the keys of those of ``tree``.

    Returns
    -------
    Any
        The structure of ``tree`` with the results as leaves.

    Raises
    ------
    ArgumentError
        If the numbers of leaves differ, or the keys of dictionaries.

    Examples
    --------
    >>> import calor
    >>> calor.tree.map(lambda x: x + 1, {"a": 1, "b": (2,)})
    {'a': 2, 'b': (3,)}
    """
    leaves, treedef = flatten(tree)
    others = []
    for other in rest:
        more = aligned(other, treedef)
        if more is None:
            raise ArgumentError(f"trees differ in structure: {treedef} and {flatten(other)[1]}")
        others.append(more)
    return unflatten(treedef, [function(*x) for x in zip(leaves, *others, strict=True)])


def aligned(tree: Any, structure: TreeDef, *, absent: bool = False) -> list[Any] | None:
    """Return the leaves of a pytree in the order of those of a structure.

    Parameters
    ----------
    tree : Any
        The pytree. Its dictionaries may have their keys in another order than the structure's.
    structure : TreeDef
        The structure.
    absent : bool, optional
        Whether None may stand for any part, with a None for each leaf. By default False.

    Returns
    -------
    list or None
        The leaves; None if their number or the keys of dictionaries differ.

    Examples
    --------
    >>> import calor
    >>> structure = calor.tree.flatten({"a": 1, "b": 2})[1]
    >>> calor.tree.aligned({"b": 20, "a": 10}, structure)
    [10, 20]
    """
    if absent and tree is None:
        return [None] * structure.count
    flat, found = flatten(tree)
    if found == structure:
        return flat
    parts: list[Any] | None = None
    if structure.kind in (dict, OrderedDict) and isinstance(tree, dict):
        keys: Any = structure.aux
        if tree.keys() != set(keys):
            return None
        parts = [tree[key] for key in keys]
    elif structure.kind is not None and isinstance(tree, list | tuple):
        parts = list(tree)
    if parts is None or len(parts) != len(structure.children):
        return flat if found.count == structure.count else None
    made: list[Any] = []
    for part, child in zip(parts, structure.children, strict=True):
        more = aligned(part, child, absent=absent)
        if more is None:
            return None
        made += more
    return made


def ordered(tree: Any, structure: TreeDef) -> Any:
    """Return a pytree with the keys of its dictionaries in the order of a structure's.

    Parameters
    ----------
    tree : Any
        The pytree.
    structure : TreeDef
        The structure.

    Returns
    -------
    Any
        The pytree of the structure; ``tree`` itself if they differ in more than that order.

    Examples
    --------
    >>> import calor
    >>> structure = calor.tree.flatten({"a": 1, "b": 2})[1]
    >>> calor.tree.ordered({"b": 20, "a": 10}, structure)
    {'a': 10, 'b': 20}
    """
    flat, found = flatten(tree)
    places = None if found == structure else _places(found, structure)
    return tree if places is None else unflatten(structure, [flat[i] for i in places])


def _places(found: TreeDef, wanted: TreeDef) -> list[int] | None:
    """Return the place among the leaves of a structure of each leaf of another one."""
    if found == wanted:
        return [*range(wanted.count)]
    if found.kind is not wanted.kind or len(found.children) != len(wanted.children):
        return None
    order = [*range(len(wanted.children))]
    if wanted.kind in (dict, OrderedDict):
        keys: Any = exact(found.aux)
        sought: Any = exact(wanted.aux)
        if {*keys} != {*sought}:
            return None
        order = [keys.index(key) for key in sought]
    elif not _same(found.aux, wanted.aux):
        return None
    starts = [0, *accumulate(child.count for child in found.children)]
    made: list[int] = []
    for i, child in zip(order, wanted.children, strict=True):
        inside = _places(found.children[i], child)
        if inside is None:
            return None
        made += [starts[i] + place for place in inside]
    return made


def leaves(tree: Any) -> list[Any]:
    """Return the leaves of a pytree in order.

    Parameters
    ----------
    tree : Any
        The pytree; see `flatten`.

    Returns
    -------
    list
        The leaves.

    Examples
    --------
    >>> import calor
    >>> calor.tree.leaves({"a": 1, "b": (2, None)})
    [1, 2]
    """
    return flatten(tree)[0]
