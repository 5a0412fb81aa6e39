"""Module: an object whose attributes are parameters, buffers, other modules, or static.

Requirements: a module is a plain pytree, so every transform takes it; a parameter is a tensor that
required gradients when it was assigned, and stays one while it is frozen; a tensor that is held
twice (tied weights) is one parameter; state changes in place on the handles that optimizers and
jitted functions hold.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import calor
from calor import Tensor
from calor.transforms.state import JITTED_METHODS, Stateful, exchange

if TYPE_CHECKING:
    from calor_nn.loading import LoadReport

# Called with (module, inputs, output) after each call; ``summary`` puts itself here for a moment.
observers: list[Callable[[Module, tuple[Any, ...], Any], None]] = []


def Parameter(data: Any, *, requires_grad: bool = True) -> Tensor:
    """Return a new tensor with the value of ``data`` that gradients end at.

    A module that is given it as an attribute has it as a parameter.

    >>> import calor
    >>> from calor import nn
    >>> nn.Parameter(calor.zeros(2)).requires_grad
    True
    """
    made: Tensor = calor.asarray(data).detach()
    return made.requires_grad_(requires_grad)


class Module(Stateful):
    """Base of layers and models: give it tensors and modules as attributes and define ``forward``.

    Tensors that require gradients are parameters; :meth:`register_buffer` adds tensors that are
    state but not trained. Lists, tuples and dictionaries of modules or tensors are looked into.
    Anything else is static: changing it makes a jitted function trace again.

    >>> import calor
    >>> from calor import nn
    >>> class Scale(nn.Module):
    ...     def __init__(self):
    ...         self.factor = nn.Parameter(calor.ones(1))
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> Scale()(calor.asarray([3.0])).tolist()
    [3.0]
    """

    training: bool = True
    _parameter_names: tuple[str, ...] = ()
    _transient_names: tuple[str, ...] = ()

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._parameter_names and _wants_gradients(value):
            super().__setattr__("_parameter_names", (*self._parameter_names, name))
        super().__setattr__(name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return ``forward`` of the arguments."""
        output = self.forward(*args, **kwargs)
        if observers:
            for observe in observers:
                observe(self, args, output)
        return output

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output; every module defines its own."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward(self, ...)")

    # What is inside.

    def register_buffer(self, name: str, value: Tensor | None, *, persistent: bool = True) -> None:
        """Add a tensor that is state but no parameter, as an attribute of that name.

        One that is not ``persistent`` is left out of :meth:`state_dict`.
        """
        if value is not None and value.requires_grad:
            raise calor.errors.ArgumentError(
                f"buffer {name!r} requires gradients; assign it as an attribute to make it a "
                f"parameter, or give a detached tensor"
            )
        if not persistent and name not in self._transient_names:
            self._transient_names = (*self._transient_names, name)
        setattr(self, name, value)

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Yield (path, tensor) of every parameter, each tensor once, frozen ones included."""
        return self._distinct(parameters=True)

    def parameters(self) -> Iterator[Tensor]:
        """Yield every parameter once."""
        return (tensor for _, tensor in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Yield (path, tensor) of every tensor that is state but no parameter, each once."""
        return self._distinct(parameters=False)

    def buffers(self) -> Iterator[Tensor]:
        """Yield every buffer once."""
        return (tensor for _, tensor in self.named_buffers())

    def _distinct(self, parameters: bool) -> Iterator[tuple[str, Tensor]]:
        seen: set[int] = set()
        for held in held_tensors(self):
            if id(held.tensor) not in seen:
                seen.add(id(held.tensor))
                if held.is_parameter is parameters:
                    yield held.path, held.tensor

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield (name, module) of the modules held directly, or in a container attribute."""
        for name, value in vars(self).items():
            yield from _modules_in(value, name)

    def children(self) -> Iterator[Module]:
        """Yield the modules held directly, or in a container attribute."""
        return (module for _, module in self.named_children())

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Yield (path, module) of this module and all below it, each module once."""
        return _walk(self, prefix, set())

    def modules(self) -> Iterator[Module]:
        """Yield this module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def num_parameters(self, *, trainable: bool = False) -> int:
        """Return the number of elements of the parameters, or of those that are not frozen.

        >>> from calor import nn
        >>> nn.Linear(3, 2).num_parameters()
        8
        """
        return sum(p.size for p in self.parameters() if p.requires_grad or not trainable)

    # Changing all of it.

    def apply(self, function: Callable[[Module], Any]) -> Self:
        """Call a function on every module below and on this one, children first; return self."""
        for module in reversed(list(self.modules())):
            function(module)
        return self

    def train(self, mode: bool = True) -> Self:
        """Switch this module and all below to training (or, with False, to evaluation)."""
        for module in self.modules():
            # An assignment would make jitted functions look at the structure again.
            if module.training is not mode:
                exchange(module, module._leave_evaluation if mode else module._evaluate)
        return self

    def _leave_evaluation(self) -> None:
        # Back to the class's value, so that the structure is what it was before.
        del self.training

    def _evaluate(self) -> None:
        self.training = False

    def eval(self) -> Self:
        """Switch to evaluation: no dropout, norms by running statistics."""
        return self.train(False)

    def requires_grad_(self, wanted: bool = True) -> Self:
        """Unfreeze (or, with False, freeze) all parameters; return self."""
        for parameter in self.parameters():
            parameter.requires_grad_(wanted)
        return self

    def zero_grad(self) -> None:
        """Drop the gradients that ``backward`` has added up in the parameters."""
        for parameter in self.parameters():
            parameter.grad = None

    def to(self, target: Any = None, *, device: Any = None, dtype: Any = None) -> Self:
        """Move all tensors to a device and cast the floating ones to a dtype, in place.

        The tensors keep their identity, so optimizers and tied weights stay connected.

        >>> from calor import nn
        >>> nn.Linear(1, 1).to(calor.float16).weight.dtype
        calor.float16
        """
        from calor_nn.loading import convert_

        convert_(self, target, device, dtype)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy the module with tensors of its own; what is tied inside stays tied."""
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        vars(made).update({k: _copied(v, memo) for k, v in self.__getstate__().items()})
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes; jitted methods are made again where they are called."""
        return {k: v for k, v in vars(self).items() if k != JITTED_METHODS}

    # State.

    def state_dict(self) -> dict[str, Tensor]:
        """Return path to tensor of parameters and persistent buffers, as copies.

        >>> from calor import nn
        >>> list(nn.Linear(1, 1).state_dict())
        ['weight', 'bias']
        """
        return {h.path: h.tensor.detach() for h in held_tensors(self) if not h.is_transient}

    def load_state_dict(self, state: Any, *, strict: bool = True) -> LoadReport:
        """Set parameters and buffers from path → tensor (or host array); return what did not fit.

        With ``strict`` anything missing, unexpected or misshaped raises LoadError with the whole
        report, and the module is left as it was; otherwise what fits is loaded. Values are cast to
        the dtype and moved to the device of the tensor that they replace.
        """
        from calor_nn.loading import load_into

        return load_into(self, state, strict=strict)

    # Reading.

    def extra_repr(self) -> str:
        """Return what the module's line of ``repr`` says besides its name."""
        return ""

    def __repr__(self) -> str:
        children = list(self.named_children())
        head = f"{type(self).__name__}({self.extra_repr()}"
        if not children:
            return f"{head})"
        lines = [f"  ({name}): {child!r}".replace("\n", "\n  ") for name, child in children]
        return "\n".join([head, *lines, ")"])

    def summary(self, *inputs: Any) -> str:
        """Return a table of the modules with output shapes, parameters and bytes.

        ``inputs`` are what the module is called with: tensors, or shapes of float32 tensors.
        Nothing is computed and no state changes. Without inputs the shapes are left out.
        """
        from calor_nn.summary import summary

        return summary(self, *inputs)


class Held(NamedTuple):
    """A tensor below a module: its path, the tensor, and the module and attribute that hold it."""

    path: str
    tensor: Tensor
    owner: Module
    attribute: str

    @property
    def is_parameter(self) -> bool:
        """Whether the tensor is a parameter, frozen or not."""
        return self.tensor.requires_grad or self.attribute in self.owner._parameter_names

    @property
    def is_transient(self) -> bool:
        """Whether the tensor is left out of state dicts."""
        return self.attribute in self.owner._transient_names


def held_tensors(module: Module, prefix: str = "") -> Iterator[Held]:
    """Yield every tensor below a module in the order of assignment, tied ones under each path."""
    for name, value in module.__getstate__().items():
        yield from _held(value, f"{prefix}{name}", module, name)


def own_tensors(module: Module) -> Iterator[Held]:
    """Yield the tensors that a module holds itself, not those of modules in it."""
    return (held for held in held_tensors(module) if held.owner is module)


def _held(value: Any, path: str, owner: Module, attribute: str) -> Iterator[Held]:
    if isinstance(value, Tensor):
        yield Held(path, value, owner, attribute)
    elif isinstance(value, Module):
        yield from held_tensors(value, f"{path}.")
    elif isinstance(value, dict | list | tuple | Stateful):
        for name, inside in _items(value):
            yield from _held(inside, f"{path}.{name}", owner, attribute)


def _items(container: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(container, list | tuple):
        return iter(enumerate(container))
    return iter((vars(container) if isinstance(container, Stateful) else container).items())


def _wants_gradients(value: Any) -> bool:
    """Return whether a value is a tensor that requires gradients, or a container with one."""
    if isinstance(value, Tensor):
        return value.requires_grad
    if isinstance(value, list | tuple):
        return any(map(_wants_gradients, value))
    return isinstance(value, dict) and any(map(_wants_gradients, value.values()))


def _modules_in(value: Any, name: str) -> Iterator[tuple[str, Module]]:
    if isinstance(value, Module):
        yield name, value
    elif isinstance(value, dict):
        for key, inside in value.items():
            yield from _modules_in(inside, f"{name}.{key}")
    elif isinstance(value, list | tuple):
        for number, inside in enumerate(value):
            yield from _modules_in(inside, f"{name}.{number}")


def _walk(module: Module, path: str, seen: set[int]) -> Iterator[tuple[str, Module]]:
    if id(module) in seen:
        return
    seen.add(id(module))
    yield path, module
    for name, child in module.named_children():
        yield from _walk(child, f"{path}.{name}" if path else name, seen)


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    if isinstance(value, Tensor):
        found = memo.get(id(value))
        if found is None:
            found = memo[id(value)] = value.detach().requires_grad_(value.requires_grad)
        return found
    if type(value) in (list, tuple):
        return type(value)([_copied(v, memo) for v in value])
    if type(value) is dict:
        return {k: _copied(v, memo) for k, v in value.items()}
    return copy.deepcopy(value, memo)
