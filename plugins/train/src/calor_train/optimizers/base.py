"""What all optimizers share: parameter groups, gradients in, state out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import calor
from calor import Tensor
from calor.errors import ArgumentError, ArgumentTypeError, DTypeError, GradientError
from calor.recording.records import Leaf
from calor.transforms.state import Stateful, named_leaves
from calor_nn.module import Module
from calor_train.optimizers.group import ParameterGroup, assign

Parameters = Any
"""A module, an iterable of tensors, or an iterable of dictionaries (one for each group)."""


class Optimizer(Stateful):
    """The base of optimizers, which change parameters by their gradients.

    A subclass sets `group_type` and passes its hyper-parameters to this constructor. `step()` reads
    `.grad`; `update(model, grads)` takes gradients as `calor.grad` returns them. Both may run
    inside `calor.jit` if the optimizer is an argument of the function.

    Parameters
    ----------
    params : Module, iterable of Tensor or iterable of dict
        The parameters. Dictionaries make groups with hyper-parameters of their own: `[{"params":
        body, "lr": 1e-4}, {"params": head}]`.
    defaults : mapping of str to Any
        The hyper-parameters by name, for groups that do not set them.

    Raises
    ------
    ArgumentError
        If there are no parameters.

    Examples
    --------
    >>> import calor
    >>> from calor_train import SGD
    >>> w = calor.asarray([1.0], requires_grad=True)
    >>> optimizer = SGD([{"params": [w], "lr": 0.5}])
    >>> optimizer.update([w], [calor.asarray([1.0])])
    >>> w.tolist()
    [0.5]
    """

    group_type: ClassVar[type[ParameterGroup]]

    def __init__(self, params: Parameters, defaults: Mapping[str, Any]) -> None:
        self.defaults = dict(defaults)
        self.param_groups: list[ParameterGroup] = []
        for options in _groups(params):
            self.add_param_group(options)
        if not any(group.params for group in self.param_groups):
            raise ArgumentError(
                "the optimizer was given no parameters; pass a module or its parameters, "
                "and note that an iterator can be read only once"
            )

    def add_param_group(self, options: Mapping[str, Any]) -> None:
        """Add parameters with hyper-parameters of their own.

        Parameters
        ----------
        options : mapping of str to Any
            The parameters under "params", and hyper-parameters by name.

        Raises
        ------
        ArgumentError
            If "params" is missing, an option is unknown, or a parameter is in a group already.
        DTypeError
            If a parameter is not floating or complex.
        GradientError
            If a parameter is computed from other tensors.
        """
        options = dict(options)
        if "params" not in options:
            raise ArgumentError('a parameter group must be a dictionary with the key "params"')
        named = named_parameters(options.pop("params"))
        unknown = sorted(set(options) - set(self.defaults))
        if unknown:
            raise ArgumentError(
                f"{type(self).__name__} has no option {', '.join(map(repr, unknown))}; "
                f"it has {', '.join(self.defaults)}"
            )
        taken = {id(p): i for i, g in enumerate(self.param_groups) for p in g.params}
        for name, p in named:
            _check(name, p)
            if id(p) in taken:
                raise ArgumentError(f"parameter {name!r} is in group {taken[id(p)]} already")
        group = self.group_type(
            [p for _, p in named], [n for n, _ in named], **(self.defaults | options)
        )
        self.param_groups = [*self.param_groups, group]

    @property
    def lr(self) -> Any:
        """The learning rate of the first group; setting it sets that of every group."""
        return self.param_groups[0].lr

    @lr.setter
    def lr(self, value: Any) -> None:
        for group in self.param_groups:
            group.lr = value

    @property
    def params(self) -> list[Tensor]:
        """All parameters, group after group."""
        return [p for group in self.param_groups for p in group.params]

    def step(self) -> None:
        """Change the parameters by their `.grad`; those without one stay as they are."""
        for group in self.param_groups:
            group.step([p.grad for p in group.params])

    def update(self, model: Any, grads: Any) -> None:
        """Change the parameters of a model by gradients in a tree of the same structure.

        Parameters
        ----------
        model : Any
            The model, or the tree of parameters.
        grads : Any
            What `calor.grad(loss)(model, ...)` returns; None for parameters without a gradient.

        Raises
        ------
        ArgumentError
            If the trees differ, or the model lacks one of the optimizer's parameters.
        """
        found = {id(p): g for p, g in _pairs(model, grads)}
        for group in self.param_groups:
            for name, p in zip(group.names, group.params, strict=True):
                if id(p) not in found:
                    raise ArgumentError(f"the model does not hold parameter {name!r}")
            group.step([found[id(p)] for p in group.params])

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or fill them with zeros.

        Parameters
        ----------
        set_to_none : bool
            Drop them; False fills them with zeros.
        """
        for p in self.params:
            if set_to_none or p.grad is None:
                p.grad = None
            else:
                p.grad = calor.zeros_like(p.grad)

    def state_dict(self) -> dict[str, Any]:
        """Return copies of state and hyper-parameters, laid out as in PyTorch.

        Returns
        -------
        dict of str to Any
            `{"state": {"0": {"step": ..., ...}, ...}, "param_groups": [{"lr": ..., "params": [0,
            ...]}, ...]}`.
        """
        state: dict[str, Any] = {}
        groups = []
        for group in self.param_groups:
            first = len(state)
            for entry in group.entries():
                state[str(len(state))] = entry
            numbers: dict[str, Any] = {
                name: _plain(group[name]) for name in group.hyperparameters()
            }
            groups.append(numbers | {"params": list(range(first, len(state)))})
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a state, for the same parameters in the same order.

        Parameters
        ----------
        state_dict : mapping of str to Any
            What `state_dict` returned.

        Raises
        ------
        ArgumentError
            If groups, hyper-parameters or state differ; nothing is changed.
        ShapeError
            If a state tensor has another shape; nothing is changed.
        """
        groups = state_dict["param_groups"]
        state = {str(k): v for k, v in state_dict["state"].items()}
        counts = [len(g["params"]) for g in groups]
        own = [len(g.params) for g in self.param_groups]
        if counts != own:
            raise ArgumentError(
                f"the saved optimizer has groups of {counts} parameters, this one of {own}"
            )
        entries = [[state[str(i)] for i in g["params"]] for g in groups]
        found = []
        for group, saved, held in zip(self.param_groups, groups, entries, strict=True):
            if set(saved) - {"params"} != set(group.hyperparameters()):
                raise ArgumentError(
                    f"the saved hyper-parameters are {sorted(set(saved) - {'params'})}, "
                    f"{type(self).__name__} has {sorted(group.hyperparameters())}"
                )
            found += group.assignments(held)
        for tensor, value in found:
            assign(tensor, calor.asarray(value, dtype=tensor.dtype, device=tensor.device))
        for group, saved in zip(self.param_groups, groups, strict=True):
            for name in group.hyperparameters():
                setattr(group, name, saved[name])

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for group in self.param_groups:
            numbers = ", ".join(f"{n}={group[n]}" for n in group.hyperparameters())
            lines.append(f"  {len(group.params)} parameters: {numbers}")
        return "\n".join([*lines, ")"])


def named_parameters(given: Any) -> list[tuple[str, Tensor]]:
    """Return (name, tensor) of the trainable tensors of a module, a tree, or an iterable."""
    if isinstance(given, Tensor):
        return [("0", given)]
    if isinstance(given, Module):
        found = list(given.named_parameters())
    elif isinstance(given, Stateful):
        leaves = [(path, leaf) for path, _, _, leaf in named_leaves(given)]
        found = [(n, x) for n, x in leaves if isinstance(x, Tensor) and x.requires_grad]
    else:
        if not isinstance(given, Iterable):
            raise ArgumentTypeError(
                f"params must be a module or an iterable of tensors, not {given!r}"
            )
        found = []
        for index, item in enumerate(given):
            name, tensor = item if isinstance(item, tuple) and len(item) == 2 else (index, item)
            if isinstance(tensor, Stateful):
                found += [(f"{name}.{n}", p) for n, p in named_parameters(tensor)]
            else:
                found.append((str(name), tensor))
    # A tensor that the module uses in two places is one parameter.
    unique = {id(p): (n, p) for n, p in reversed(found)}
    return list(reversed(unique.values()))


def _groups(params: Any) -> Sequence[Mapping[str, Any]]:
    if isinstance(params, Tensor):
        raise ArgumentError("params must be a module or an iterable of tensors; write [tensor]")
    if isinstance(params, Stateful):
        return [{"params": params}]
    if isinstance(params, Mapping):
        raise ArgumentError(
            "params must be a module, an iterable of tensors, or a list of dictionaries"
        )
    if not isinstance(params, Iterable):
        raise ArgumentError(f"params must be a module or an iterable of tensors, not {params!r}")
    items = list(params)
    if items and all(isinstance(item, Mapping) for item in items):
        return items
    return [{"params": items}]


def require_tensor(name: str, p: Any) -> None:
    """Raise ArgumentTypeError if a parameter is no tensor."""
    if not isinstance(p, Tensor):
        raise ArgumentTypeError(f"parameter {name!r} is a {type(p).__name__}, not a tensor")


def _check(name: str, p: Any) -> None:
    require_tensor(name, p)
    if not p.dtype.is_inexact:
        raise DTypeError(
            f"parameter {name!r} is {p.dtype.name}; only floating and complex ones are trained"
        )
    if p._record is not None and type(p._record) is not Leaf:
        raise GradientError(
            f"parameter {name!r} is computed from other tensors; train what it is computed from"
        )


def _pairs(model: Any, grads: Any) -> list[tuple[Tensor, Tensor | None]]:
    """Return the tensors of a tree beside the leaves of another, paired by their paths."""
    tensors = _by_path(model)
    given = _by_path(grads)
    foreign = [path for path in given if path not in tensors]
    if foreign:
        raise ArgumentError(
            f"grads holds {foreign[0]!r}, which the model does not; pass what calor.grad returned "
            f"for this model"
        )
    return [(p, given.get(path)) for path, p in tensors.items()]


def _by_path(obj: Any) -> dict[str, Tensor]:
    if isinstance(obj, Tensor):
        return {"": obj}
    leaves = named_leaves(obj)
    return {path: leaf for path, _, _, leaf in leaves if isinstance(leaf, Tensor)}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) else value
