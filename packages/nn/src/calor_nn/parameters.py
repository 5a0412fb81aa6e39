"""The tensors that modules hold, with their paths, owners and kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from calor import Tensor
from calor.transforms.state import Stateful

# Called with (module, inputs, output) after each call; ``summary`` puts itself here for a moment.
observers: list[Callable[[Holder, tuple[Any, ...], Any], None]] = []


class Holder(Stateful):
    """What a module is to the functions that walk, load and list its tensors."""

    _parameter_names: tuple[str, ...] = ()
    _transient_names: tuple[str, ...] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the output of the module."""
        raise NotImplementedError

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """Return an iterator over this module and all below it, each once, with their paths.

        Parameters
        ----------
        prefix : str
            The path of this module.

        Returns
        -------
        iterator of tuple
            (path, module), this module first.
        """
        raise NotImplementedError

    def parameters(self) -> Iterator[Tensor]:
        """Return an iterator over the parameters, each once.

        Returns
        -------
        iterator of Tensor
            The parameters.
        """
        raise NotImplementedError

    def buffers(self) -> Iterator[Tensor]:
        """Return an iterator over the buffers, each once.

        Returns
        -------
        iterator of Tensor
            The buffers.
        """
        raise NotImplementedError

    def extra_repr(self) -> str:
        """Return what the module's line of ``repr`` says besides its name."""
        return ""


class Held(NamedTuple):
    """A tensor below a module: its path, the tensor, and the module and attribute that hold it."""

    path: str
    tensor: Tensor
    owner: Holder
    attribute: str

    @property
    def is_parameter(self) -> bool:
        """Whether the tensor is a parameter, frozen or not."""
        return self.tensor.requires_grad or self.attribute in self.owner._parameter_names

    @property
    def is_transient(self) -> bool:
        """Whether the tensor is left out of state dicts."""
        return self.attribute in self.owner._transient_names


def held_tensors(module: Holder, prefix: str = "") -> Iterator[Held]:
    """Yield every tensor below a module in the order of assignment, tied ones under each path."""
    for name, value in module.__getstate__().items():
        yield from _held(value, f"{prefix}{name}", module, name)


def own_tensors(module: Holder) -> Iterator[Held]:
    """Yield the tensors that a module holds itself, not those of modules in it."""
    return (held for held in held_tensors(module) if held.owner is module)


def _held(value: Any, path: str, owner: Holder, attribute: str) -> Iterator[Held]:
    if isinstance(value, Tensor):
        yield Held(path, value, owner, attribute)
    elif isinstance(value, Holder):
        yield from held_tensors(value, f"{path}.")
    elif isinstance(value, dict | list | tuple | Stateful):
        for name, inside in _items(value):
            yield from _held(inside, f"{path}.{name}", owner, attribute)


def _items(container: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(container, list | tuple):
        return iter(enumerate(container))
    return iter((vars(container) if isinstance(container, Stateful) else container).items())
