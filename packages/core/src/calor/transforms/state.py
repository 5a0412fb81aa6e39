"""Stateful objects: modules, optimizers, generators; containers whose tensors are attributes.

Requirements: a jitted function must see that an object's structure is unchanged without walking it.
So every attribute assignment on any Stateful object increments one epoch; while the epoch is the
same, the results of the last walk hold.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, ClassVar, Final, Self

import numpy as np

from calor import tree
from calor.graph.attributes import PLAIN, exact
from calor.local import local
from calor.recording.journal import note_object
from calor.tensor.values import Handle

# Where an object keeps its jitted methods; they are no part of its state.
JITTED_METHODS: Final = "__jitted__"


class Epoch:
    """The count of attribute assignments on Stateful objects in this process."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


epoch = Epoch()


# Values of attributes that are compared without a look at their parts.
_AS_THEY_ARE: Final = (*PLAIN, np.ndarray)


class Static:
    """An attribute that is no tensor, hashable by force: equal by types and bits (`exact`)."""

    __slots__ = ("known", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        # What is in a container now; it may be changed in place. Arrays may be large.
        self.known = value if type(value) in _AS_THEY_ARE else exact(value)

    def __hash__(self) -> int:
        try:
            return hash(self.value)
        except TypeError:
            return hash(type(self.value))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Static) or type(self.value) is not type(other.value):
            return False
        if self.known is other.known:
            return True
        if type(self.value) is np.ndarray:
            return bool(exact(self.value) == exact(other.value))
        return bool(self.known == other.known)


class Number:
    """An attribute that a class names in ``dynamic``: a number that may change between calls.

    A trace hears when it is read, for it must not be built in.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, obj: Any, owner: type | None = None) -> Any:
        if obj is None:
            return self
        held = vars(obj)
        if self.name not in held:
            raise AttributeError(
                f"{type(obj).__name__!r} object has no attribute {self.name!r}",
                name=self.name,
                obj=obj,
            )
        value = held[self.name]
        if local.jit and isinstance(value, int | float | complex):
            for trace in local.jit:
                if trace.on_number is not None:
                    trace.on_number(obj)
        return value

    def __set__(self, obj: Any, value: Any) -> None:
        vars(obj)[self.name] = value.item() if isinstance(value, np.number) else value

    def __delete__(self, obj: Any) -> None:
        del vars(obj)[self.name]


class Stateful:
    """An object whose attributes are tensors, Stateful objects, containers of these, or static.

    It is a pytree: its tensors are the leaves, in the order of assignment. Subclasses name in
    ``dynamic`` the number attributes that are leaves too (a learning rate): they may change
    without making a new graph.
    """

    __slots__ = ("__dict__", "__weakref__", "_exchanged", "_version")

    dynamic: ClassVar[tuple[str, ...]] = ()
    # Grows with each assignment; equal versions of an object have equal attributes.
    _version: int
    _exchanged: tuple[int, int]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make the object and start counting its assignments."""
        if (args or kwargs) and cls.__init__ is object.__init__:
            # Python itself refuses arguments that nobody takes only for a class without __new__.
            from calor.migration import arguments_of_none

            raise arguments_of_none(cls, kwargs)
        made = object.__new__(cls)
        object.__setattr__(made, "_version", 0)
        object.__setattr__(made, "_exchanged", (-1, -1))
        for trace in local.jit:
            trace.made.append(made)
        return made

    def __init_subclass__(cls, **options: Any) -> None:
        """Watch the attributes that the class names in ``dynamic``."""
        super().__init_subclass__(**options)
        for name in vars(cls).get("dynamic", ()):
            setattr(cls, name, Number(name))

    def __setattr__(self, name: str, value: Any) -> None:
        note_object(self)
        if name not in self.dynamic:
            epoch.count += 1
            object.__setattr__(self, "_version", epoch.count)
        object.__setattr__(self, name, value)

    def _restore(self, attributes: dict[str, Any]) -> None:
        """Give the object all the attributes that it had at another time."""
        vars(self).clear()
        vars(self).update(attributes)
        epoch.count += 1
        object.__setattr__(self, "_version", epoch.count)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes; jitted methods are made again where they are called."""
        return {k: v for k, v in vars(self).items() if k != JITTED_METHODS}

    def __delattr__(self, name: str) -> None:
        note_object(self)
        epoch.count += 1
        object.__setattr__(self, "_version", epoch.count)
        object.__delattr__(self, name)


def versions(objects: Sequence[Stateful]) -> list[int]:
    """Return the version of each object; they are what they were while nothing is assigned."""
    return [obj._version for obj in objects]


def exchange(obj: Stateful, change: Callable[[], None]) -> None:
    """Change the one attribute of a kind of object that goes back and forth between two values.

    Where nothing else was assigned since the last change, which this one takes back, the object has
    the version of before: what was found out about it then holds again.
    """
    before = obj._version
    change()
    first, second = obj._exchanged
    if before not in (first, second):
        object.__setattr__(obj, "_exchanged", (before, obj._version))
    else:
        object.__setattr__(obj, "_version", second if before == first else first)


def members(objects: Sequence[Stateful]) -> list[Stateful]:
    """Return the objects and every Stateful object below them, once each."""
    found: dict[int, Stateful] = {}

    def visit(value: Any) -> None:
        if isinstance(value, Stateful):
            if id(value) in found:
                return
            found[id(value)] = value
            for child in vars(value).values():
                visit(child)
        elif isinstance(value, dict):
            for child in value.values():
                visit(child)
        elif isinstance(value, list | tuple):
            for child in value:
                visit(child)

    for obj in objects:
        visit(obj)
    return list(found.values())


class Snapshot:
    """What objects hold at a time, and what the lists and dictionaries below them hold."""

    def __init__(self, objects: Sequence[Stateful]) -> None:
        self.objects = [(obj, dict(vars(obj))) for obj in objects]
        self.lists: dict[int, tuple[list[Any], list[Any]]] = {}
        self.dicts: dict[int, tuple[dict[Any, Any], dict[Any, Any]]] = {}
        for _, held in self.objects:
            for name, value in held.items():
                if name != JITTED_METHODS:
                    self._note(value)

    def _note(self, value: Any) -> None:
        if isinstance(value, list):
            if id(value) in self.lists:
                return
            self.lists[id(value)] = value, [*value]
        elif isinstance(value, dict):
            if id(value) in self.dicts:
                return
            self.dicts[id(value)] = value, {**value}
        elif not isinstance(value, tuple):
            return
        for child in value.values() if isinstance(value, dict) else value:
            self._note(child)

    def take_back(self) -> None:
        """Give all attributes and containers what they held."""
        self.put_back()
        for obj, held in self.objects:
            obj._restore(held)

    def put_back(self) -> None:
        """Take back changes of containers, and assignments of containers and of objects.

        They are not counted as assignments.
        """
        for items, kept in self.lists.values():
            if list(map(id, items)) != list(map(id, kept)):
                items[:] = kept
        for table, held in self.dicts.values():
            if [(k, id(v)) for k, v in table.items()] != [(k, id(v)) for k, v in held.items()]:
                table.clear()
                table.update(held)
        for obj, held in self.objects:
            now = vars(obj)
            for name, value in held.items():
                whole = isinstance(value, Stateful | dict | list | tuple)
                if whole and name != JITTED_METHODS and now.get(name) is not value:
                    now[name] = value


def holds_tensors(value: Any) -> bool:
    """Return whether a value is a tensor or a container that has one inside."""
    if isinstance(value, Handle | Stateful):
        return True
    if isinstance(value, dict):
        return any(holds_tensors(v) for v in value.values())
    if isinstance(value, list | tuple):
        return any(holds_tensors(v) for v in value)
    return False


def attributes(obj: Stateful) -> Iterator[tuple[str, Any, bool]]:
    """Yield (name, value, is it a child) of a Stateful object's attributes."""
    for name, value in vars(obj).items():
        if name == JITTED_METHODS:
            continue
        yield name, value, name in obj.dynamic or holds_tensors(value)


def named_leaves(obj: Any, prefix: str = "") -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield (path, owner, key, leaf) of every leaf below an object, in flatten's order.

    ``owner`` and ``key`` say where the leaf is held: an attribute of a Stateful object, or a place
    in a list or dictionary.
    """
    if isinstance(obj, Stateful):
        items: Any = [(n, n, v) for n, v, child in attributes(obj) if child]
    elif isinstance(obj, dict):
        items = [(str(k), k, v) for k, v in obj.items()]
    elif isinstance(obj, list | tuple):
        items = [(str(i), i, v) for i, v in enumerate(obj)]
    else:
        return
    for name, key, value in items:
        path = f"{prefix}{name}"
        if isinstance(value, Stateful | dict | list | tuple):
            yield from named_leaves(value, f"{path}.")
        elif value is not None:
            yield path, obj, key, value


def _flatten(obj: Any) -> tuple[Sequence[Any], Hashable]:
    children, names, static = [], [], []
    for name, value, child in attributes(obj):
        if child:
            names.append(name)
            children.append(value)
        else:
            static.append((name, Static(value)))
    return children, tree.Compared((type(obj), tuple(names), tuple(static)))


def _unflatten(aux: Any, children: Sequence[Any]) -> Any:
    kind, names, static = aux
    made = kind.__new__(kind)
    vars(made).update({name: held.value for name, held in static})
    vars(made).update(zip(names, children, strict=True))
    return made


tree.register_base(Stateful, _flatten, _unflatten)
