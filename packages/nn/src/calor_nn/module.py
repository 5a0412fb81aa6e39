"""Module: an object whose attributes are parameters, buffers, other modules, or static.

Requirements: a module is a plain pytree, so every transform takes it; a parameter is a tensor that
required gradients when it was assigned, and stays one while it is frozen; a tensor that is held
twice (tied weights) is one parameter; state changes in place on the handles that optimizers and
jitted functions hold.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

import calor
from calor import Tensor
from calor.transforms.state import Stateful, exchange
from calor_nn import summary as tables
from calor_nn.hooks import Hooked
from calor_nn.loading import LoadReport, convert_, load_into
from calor_nn.parameters import held_tensors


def Parameter(data: Any, *, requires_grad: bool = True) -> Tensor:
    """Return a new tensor that requires gradients.

    As an attribute of a module it is a parameter of the module.

    Parameters
    ----------
    data : Tensor, ndarray, number or sequence
        The value, which is copied.
    requires_grad : bool
        False gives a tensor that a module holds as a buffer.

    Returns
    -------
    Tensor
        A leaf of the shape and dtype of `data`.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.Parameter(calor.zeros(2)).requires_grad
    True
    """
    made: Tensor = calor.asarray(data).detach()
    return made.requires_grad_(requires_grad)


class Module(Hooked):
    """The base of layers and models: assign tensors and modules to it, and define `forward`.

    Tensors that require gradients are parameters; :meth:`register_buffer` adds tensors that are
    state but are not trained. Lists, tuples and dictionaries of modules or tensors are searched.
    Any other attribute is static: a change of it makes a jitted function trace again.

    Examples
    --------
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

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._parameter_names and _wants_gradients(value):
            super().__setattr__("_parameter_names", (*self._parameter_names, name))
        super().__setattr__(name, value)

    # What is inside.

    def register_buffer(self, name: str, value: Tensor | None, *, persistent: bool = True) -> None:
        """Add a tensor that is state but not a parameter.

        Parameters
        ----------
        name : str
            The attribute's name.
        value : Tensor or None
            The tensor; it must not require gradients.
        persistent : bool
            Whether :meth:`state_dict` contains it.

        Raises
        ------
        ArgumentError
            If the tensor requires gradients.
        DTypeError
            If it is no tensor.
        """
        if value is not None and not isinstance(value, Tensor):
            raise calor.errors.DTypeError(
                f"buffer {name!r} is a {type(value).__name__}; make a tensor of it: "
                f"calor.asarray(...)"
            )
        if value is not None and value.requires_grad:
            raise calor.errors.ArgumentError(
                f"buffer {name!r} requires gradients; assign it as an attribute to make it a "
                f"parameter, or give a detached tensor"
            )
        if not persistent and name not in self._transient_names:
            self._transient_names = (*self._transient_names, name)
        setattr(self, name, value)

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Return an iterator over the parameters with their paths, each tensor once.

        Returns
        -------
        iterator of tuple
            (path, parameter), such as ("layers.0.weight", tensor); frozen ones too.
        """
        return self._distinct(parameters=True)

    def parameters(self) -> Iterator[Tensor]:
        """Return an iterator over the parameters, each once.

        Returns
        -------
        iterator of Tensor
            The parameters in the order of assignment, frozen ones too.
        """
        return (tensor for _, tensor in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Return an iterator over the buffers with their paths, each tensor once.

        Returns
        -------
        iterator of tuple
            (path, tensor) of what is state but not a parameter.
        """
        return self._distinct(parameters=False)

    def buffers(self) -> Iterator[Tensor]:
        """Return an iterator over the buffers, each once.

        Returns
        -------
        iterator of Tensor
            The buffers in the order of assignment.
        """
        return (tensor for _, tensor in self.named_buffers())

    def _distinct(self, parameters: bool) -> Iterator[tuple[str, Tensor]]:
        seen: set[int] = set()
        for held in held_tensors(self):
            if id(held.tensor) not in seen:
                seen.add(id(held.tensor))
                if held.is_parameter is parameters:
                    yield held.path, held.tensor

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the name and the module of those held directly, or in a container attribute.

        Yields
        ------
        tuple of str and Module
            The attribute's name, with the key or index in a container, and the module.
        """
        for name, value in vars(self).items():
            yield from _modules_in(value, name)

    def children(self) -> Iterator[Module]:
        """Return an iterator over the modules held directly, or in a container attribute.

        Returns
        -------
        iterator of Module
            The modules in the order of assignment.
        """
        return (module for _, module in self.named_children())

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
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
        return _walk(self, prefix, set())

    def modules(self) -> Iterator[Module]:
        """Return an iterator over this module and all below it, each once.

        Returns
        -------
        iterator of Module
            The modules, this one first.
        """
        return (module for _, module in self.named_modules())

    def num_parameters(self, *, trainable: bool = False) -> int:
        """Return the number of elements of all parameters.

        Parameters
        ----------
        trainable : bool
            Count only the parameters that are not frozen.

        Returns
        -------
        int
            The number of elements; tied parameters count once.

        Examples
        --------
        >>> from calor import nn
        >>> nn.Linear(3, 2).num_parameters()
        8
        """
        return sum(p.size for p in self.parameters() if p.requires_grad or not trainable)

    # Changing all of it.

    def apply(self, function: Callable[[Module], Any]) -> Self:
        """Call a function on every module below and on this one, children first.

        Parameters
        ----------
        function : callable
            Called with a module; its result is not used.

        Returns
        -------
        Module
            This module.
        """
        for module in reversed(list(self.modules())):
            function(module)
        return self

    def train(self, mode: bool = True) -> Self:
        """Switch this module and all below it to training or evaluation.

        Parameters
        ----------
        mode : bool
            True for training, False for evaluation.

        Returns
        -------
        Module
            This module.
        """
        for module in self.modules():
            module._switch(mode)
        return self

    def _switch(self, mode: bool) -> None:
        """Switch this module alone."""
        # An assignment would make jitted functions check the structure again.
        if self.training is not mode:
            exchange(self, self._leave_evaluation if mode else self._evaluate)

    def _leave_evaluation(self) -> None:
        # Back to the class's value, so that the structure is what it was before.
        del self.training

    def _evaluate(self) -> None:
        self.training = False

    def eval(self) -> Self:
        """Switch to evaluation: no dropout, and norms by their running moments.

        Returns
        -------
        Module
            This module.
        """
        return self.train(False)

    def requires_grad_(self, wanted: bool = True) -> Self:
        """Unfreeze or freeze all parameters.

        Parameters
        ----------
        wanted : bool
            True unfreezes them, False freezes them.

        Returns
        -------
        Module
            This module.
        """
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

        Parameters
        ----------
        target : Device, DType or str, optional
            The device or the dtype, by position.
        device : Device or str, optional
            The device; the present one if left out.
        dtype : DType or str, optional
            The dtype of floating and complex tensors; the present one if left out.

        Returns
        -------
        Module
            This module.

        Examples
        --------
        >>> from calor import nn
        >>> nn.Linear(1, 1).to(calor.float16).weight.dtype
        calor.float16
        """
        convert_(self, target, device, dtype)
        return self

    if not TYPE_CHECKING:
        # Hidden from type checkers, for which a class with __getattr__ has every attribute.
        def __getattr__(self, name: str) -> Any:
            from calor_nn.migration import missing_method

            raise missing_method(self, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy the module with tensors of its own; tied tensors stay tied."""
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        vars(made).update({k: _copied(v, memo) for k, v in self.__getstate__().items()})
        return made

    # State.

    def state_dict(self) -> dict[str, Tensor]:
        """Return copies of parameters and persistent buffers by path.

        Returns
        -------
        dict of str to Tensor
            The tensors, without gradients; tied ones under each of their paths.

        Examples
        --------
        >>> from calor import nn
        >>> list(nn.Linear(1, 1).state_dict())
        ['weight', 'bias']
        """
        return {h.path: h.tensor.detach() for h in held_tensors(self) if not h.is_transient}

    def load_state_dict(self, state: Any, *, strict: bool = True) -> LoadReport:
        """Set parameters and buffers from a state dict.

        Values are cast to the dtype, and moved to the device, of the tensors that they replace.

        Parameters
        ----------
        state : mapping of str to Tensor or ndarray
            The values by path.
        strict : bool
            Load everything or nothing; otherwise load what fits.

        Returns
        -------
        LoadReport
            What was loaded and what did not fit.

        Raises
        ------
        LoadError
            If `strict` and a value is missing, unexpected or misshaped; the module is unchanged.
        """
        return load_into(self, state, strict=strict)

    # Reading.

    def extra_repr(self) -> str:
        """Return what the module's line of ``repr`` says besides its name."""
        return ""

    def __repr__(self) -> str:
        children = list(self.named_children())
        name, said = type(self).__name__, self.extra_repr()
        if not children:
            return f"{name}({said})"
        lines = [said] if said else []
        lines += [f"({key}): {child!r}" for key, child in children]
        inside = "\n".join(lines).replace("\n", "\n  ")
        return f"{name}(\n  {inside}\n)"

    def summary(self, *inputs: Any) -> str:
        """Return a table of the modules with output shapes, parameters and bytes.

        Nothing is computed and no state changes.

        Parameters
        ----------
        *inputs : Tensor or tuple of int
            What the module is called with: tensors, or shapes of float32 tensors. Without inputs
            the table has no output shapes.

        Returns
        -------
        str
            One line for each module, and the totals.
        """
        return tables.summary(self, *inputs)


def _wants_gradients(value: Any) -> bool:
    """Return whether a value is a tensor that requires gradients, or a container with one."""
    if isinstance(value, Tensor):
        return value.requires_grad
    if isinstance(value, list | tuple):
        return any(map(_wants_gradients, value))
    if isinstance(value, Stateful) and not isinstance(value, Module):
        value = vars(value)
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
            if value.grad is not None:
                found.grad = copy.deepcopy(value.grad, memo)
        return found
    if type(value) in (list, tuple):
        return type(value)([_copied(v, memo) for v in value])
    if type(value) is dict:
        return {k: _copied(v, memo) for k, v in value.items()}
    return copy.deepcopy(value, memo)
