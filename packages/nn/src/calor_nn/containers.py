"""Containers: modules that hold other modules by number or by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, overload

from calor.errors import ArgumentError
from calor_nn.module import Module


class _Numbered(Module):
    """Modules as attributes named 0, 1, 2 …, as in PyTorch's state dicts, or as they were given."""

    def _list(self) -> list[Module]:
        return [value for value in vars(self).values() if isinstance(value, Module)]

    def _given(self) -> list[str]:
        """Return the names that the modules were given, empty for those that are numbered."""
        names = [name for name, value in vars(self).items() if isinstance(value, Module)]
        return ["" if name.isdecimal() else name for name in names]

    def _set(self, modules: Iterable[Module], given: Iterable[str] = ()) -> None:
        """Hold these modules by the names that they were given, or by number."""
        names = [*given]
        for name in [n for n, value in vars(self).items() if isinstance(value, Module)]:
            delattr(self, name)
        for number, module in enumerate(modules):
            if not isinstance(module, Module):
                raise ArgumentError(
                    f"{type(self).__name__} holds modules, not a {type(module).__name__}; "
                    f"derive a class from nn.Module"
                )
            name = names[number] if number < len(names) else ""
            setattr(self, name or str(number), module)

    def __len__(self) -> int:
        return len(self._list())

    def __iter__(self) -> Iterator[Module]:
        return iter(self._list())

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> _Numbered: ...
    def __getitem__(self, index: int | slice) -> Any:
        """Return a module, or for a slice a container of the same kind."""
        found = self._list()[index]
        if not isinstance(index, slice):
            return found
        made = type(self).__new__(type(self))
        made._set(found, self._given()[index])  # type: ignore[arg-type]
        return made

    def __setitem__(self, index: int, module: Module) -> None:
        held = self._list()
        held[index] = module
        self._set(held, self._given())

    def __delitem__(self, index: int | slice) -> None:
        held, given = self._list(), self._given()
        del held[index], given[index]
        self._set(held, given)

    def append(self, module: Module) -> None:
        """Add a module at the end.

        Parameters
        ----------
        module : Module
            The module.

        Raises
        ------
        ArgumentError
            If it is not a module.
        """
        self._set([*self._list(), module], self._given())

    def extend(self, modules: Iterable[Module]) -> None:
        """Add modules at the end.

        Parameters
        ----------
        modules : iterable of Module
            The modules.

        Raises
        ------
        ArgumentError
            If one is not a module.
        """
        self._set([*self._list(), *modules], self._given())

    def insert(self, index: int, module: Module) -> None:
        """Add a module before a position.

        Parameters
        ----------
        index : int
            The position, as for `list.insert`.
        module : Module
            The module.

        Raises
        ------
        ArgumentError
            If it is not a module.
        """
        held, given = self._list(), self._given()
        held.insert(index, module)
        given.insert(index, "")
        self._set(held, given)


class Sequential(_Numbered):
    """Modules that are called one after another, each with the output of the one before.

    Parameters
    ----------
    *modules : Module
        The modules, or one dictionary whose keys become their names.

    Raises
    ------
    ArgumentError
        If something is not a module, or a key cannot be a name.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> model(calor.ones((1, 4))).shape
    (1, 2)
    """

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                setattr(self, _name(self, name), module)
        else:
            self._set(modules)  # type: ignore[arg-type]

    def forward(self, x: Any) -> Any:
        """Return the output of the last module.

        Parameters
        ----------
        x : Any
            The input of the first module.

        Returns
        -------
        Any
            The output of the last one; `x` if there are no modules.
        """
        for module in self._list():
            x = module(x)
        return x


class ModuleList(_Numbered):
    """A list of modules.

    Parameters
    ----------
    modules : iterable of Module
        The modules.

    Raises
    ------
    ArgumentError
        If something is not a module.

    Examples
    --------
    >>> from calor import nn
    >>> layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self._set(modules)


class ModuleDict(Module):
    """A dictionary of modules.

    Parameters
    ----------
    modules : mapping of str to Module, optional
        The modules by name.

    Raises
    ------
    ArgumentError
        If a value is not a module, or a key cannot be a name.

    Examples
    --------
    >>> from calor import nn
    >>> heads = nn.ModuleDict({"box": nn.Linear(2, 4), "score": nn.Linear(2, 1)})
    >>> sorted(heads.keys())
    ['box', 'score']
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        self.update(modules or {})

    def _dict(self) -> dict[str, Module]:
        return {k: v for k, v in vars(self).items() if isinstance(v, Module)}

    def __getitem__(self, name: str) -> Any:
        return self._dict()[name]

    def __setitem__(self, name: str, module: Module) -> None:
        if not isinstance(module, Module):
            raise ArgumentError(
                f"ModuleDict holds modules, not a {type(module).__name__}; "
                f"derive a class from nn.Module"
            )
        setattr(self, _name(self, name), module)

    def __delitem__(self, name: str) -> None:
        delattr(self, name)

    def __contains__(self, name: object) -> bool:
        return name in self._dict()

    def __len__(self) -> int:
        return len(self._dict())

    def __iter__(self) -> Iterator[str]:
        return iter(self._dict())

    def keys(self) -> Iterable[str]:
        """Return the names.

        Returns
        -------
        iterable of str
            The names in the order of assignment.
        """
        return self._dict().keys()

    def values(self) -> Iterable[Module]:
        """Return the modules.

        Returns
        -------
        iterable of Module
            The modules in the order of assignment.
        """
        return self._dict().values()

    def items(self) -> Iterable[tuple[str, Module]]:
        """Return pairs of name and module.

        Returns
        -------
        iterable of tuple
            (name, module) in the order of assignment.
        """
        return self._dict().items()

    def update(self, modules: Mapping[str, Module]) -> None:
        """Add modules by name, and replace those that have these names.

        Parameters
        ----------
        modules : mapping of str to Module
            The modules by name.

        Raises
        ------
        ArgumentError
            If a value is not a module, or a key cannot be a name.
        """
        for name, module in modules.items():
            self[name] = module


def _name(owner: Module, name: str) -> str:
    """Return a name that can be an attribute of a module; raise ArgumentError for any other."""
    if not name or "." in name or hasattr(type(owner), name):
        raise ArgumentError(
            f"{name!r} cannot name a module in a {type(owner).__name__}; choose a name without "
            f"dots that is not a method of the container"
        )
    return name
