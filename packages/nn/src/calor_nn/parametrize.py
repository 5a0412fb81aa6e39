"""Parameters that modules compute from others: reparametrization, weight norm, spectral norm.

Requirements: a parametrized attribute reads as before and is computed anew at each reading, so
gradients and optimizers meet the originals. The names in state dicts are PyTorch's
(``parametrizations.weight.original``). A module whose attributes are parametrized has a class of
its own, made once for its class and names, so plain modules pay nothing.

>>> import calor
>>> from calor import nn
>>> layer = nn.parametrize.weight_norm(nn.Linear(2, 3))
>>> sorted(layer.state_dict())[1:]
['parametrizations.weight.original0', 'parametrizations.weight.original1']
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import calor
from calor import Tensor
from calor.errors import ArgumentError, ShapeError
from calor.functions.arguments import one_axis
from calor_nn.containers import ModuleDict
from calor_nn.module import Module, Parameter

_NAME = "parametrizations"


class ParametrizationList(Module):
    """The modules that compute an attribute, one after another, and the tensors it begins with.

    Parameters
    ----------
    modules : list of Module
        The modules; the first takes the originals.
    original : Tensor
        The value that the attribute has now.
    frozen : bool
        Whether it is a parameter that does not learn now. So are the tensors that it is computed
        from.

    Examples
    --------
    >>> from calor import nn
    >>> layer = nn.parametrize.weight_norm(nn.Linear(2, 3))
    >>> layer.parametrizations.weight().shape
    (3, 2)
    """

    def __init__(self, modules: list[Module], original: Tensor, *, frozen: bool = False) -> None:
        self.count = 0
        self.single = True
        for module in modules:
            self.append(module)
        self.assign(original.detach().requires_grad_() if frozen else original)
        if frozen:
            # A module takes a tensor that requires gradients for a parameter, and keeps it as one.
            for held in self.originals():
                held.requires_grad_(False)

    def append(self, module: Module) -> None:
        """Add a module at the end.

        Parameters
        ----------
        module : Module
            The module.
        """
        setattr(self, str(self.count), module)
        self.count += 1

    def steps(self) -> list[Module]:
        """Return the modules in order.

        Returns
        -------
        list of Module
            The modules.
        """
        return [getattr(self, str(i)) for i in range(self.count)]

    def assign(self, value: Tensor) -> None:
        """Set the originals so that the attribute has a value.

        Parameters
        ----------
        value : Tensor
            The value.

        Raises
        ------
        ArgumentError
            If a module has no ``right_inverse``.
        """
        wanted: Any = value.detach()
        for module in reversed(self.steps()):
            inverse = getattr(module, "right_inverse", None)
            if inverse is not None:
                wanted = inverse(wanted)
        several = isinstance(wanted, tuple | list)
        for i, tensor in enumerate(wanted if several else (wanted,)):
            name = f"original{i}" if several else "original"
            held = vars(self).get(name)
            if held is None:
                keeps = value.requires_grad
                setattr(self, name, Parameter(tensor) if keeps else tensor.detach())
            else:
                with calor.no_grad():
                    held[...] = tensor
        self.single = not several

    def originals(self) -> Iterator[Tensor]:
        """Yield the tensors that the attribute is computed from.

        Yields
        ------
        Tensor
            The originals in order.
        """
        for name, value in vars(self).items():
            if name.startswith("original"):
                yield value

    def forward(self) -> Tensor:
        """Return the value of the attribute.

        Returns
        -------
        Tensor
            What the modules compute from the originals.
        """
        first, *rest = self.steps()
        value: Tensor = first(*self.originals())
        for module in rest:
            value = module(value)
        return value


def register_parametrization(module: Module, name: str, parametrization: Module) -> Module:
    """Have an attribute of a module computed by another module.

    Parameters
    ----------
    module : Module
        The module.
    name : str
        The attribute, a tensor. Parametrized again, the new module takes the value so far.
    parametrization : Module
        Its `forward` takes the original tensor and returns the value. A method ``right_inverse``,
        if there is one, takes a value and returns the original tensor, or a tuple of them.

    Returns
    -------
    Module
        `module` itself.

    Raises
    ------
    ArgumentError
        If the module has no such tensor, or if one that takes several originals is not the first.
    ShapeError
        If the parametrization changes the shape.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> class Symmetric(nn.Module):
    ...     def forward(self, x):
    ...         return calor.triu(x) + calor.triu(x, k=1).T
    >>> layer = nn.Linear(2, 2)
    >>> _ = nn.parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> (layer.weight == layer.weight.T).all().item()
    True
    """
    if is_parametrized(module, name):
        _require_next(parametrization, name, getattr(module, name).detach())
        getattr(module, _NAME)[name].append(parametrization)
        return module
    held = vars(module).get(name)
    if not isinstance(held, Tensor):
        raise ArgumentError(
            f"{type(module).__name__} has no tensor {name!r} to parametrize; it has "
            f"{', '.join(k for k, v in vars(module).items() if isinstance(v, Tensor))}"
        )
    frozen = name in module._parameter_names and not held.requires_grad
    made = ParametrizationList([parametrization], held, frozen=frozen)
    _require_shape(made(), name, held)
    base, names = _parts(type(module))
    if not names:
        setattr(module, _NAME, ModuleDict())
    getattr(module, _NAME)[name] = made
    delattr(module, name)
    module.__class__ = _parametrized(base, (*names, name))
    return module


def _require_shape(found: Tensor, name: str, held: Tensor) -> None:
    if found.shape != held.shape:
        raise ShapeError(
            f"the parametrization of {name!r} makes {found.shape} of {held.shape}; it must keep "
            f"the shape"
        )


def _require_next(parametrization: Module, name: str, value: Tensor) -> None:
    """Raise an error, before anything is changed, if a module cannot take the value so far."""
    inverse = getattr(parametrization, "right_inverse", None)
    if inverse is not None and isinstance(inverse(value), tuple | list):
        raise ArgumentError(
            f"{type(parametrization).__name__} makes {name!r} of several originals, and {name!r} "
            f"is computed by others already; register it first"
        )
    _require_shape(parametrization(value), name, value)


def remove_parametrizations(
    module: Module, name: str, *, leave_parametrized: bool = True
) -> Module:
    """Make a computed attribute a tensor again.

    Parameters
    ----------
    module : Module
        The module.
    name : str
        The attribute.
    leave_parametrized : bool
        Keep the value that the attribute has now; False takes the original, of which there must be
        one.

    Returns
    -------
    Module
        `module` itself.

    Raises
    ------
    ArgumentError
        If the attribute is not parametrized, or there are several originals to choose from.

    Examples
    --------
    >>> from calor import nn
    >>> layer = nn.parametrize.weight_norm(nn.Linear(2, 3))
    >>> sorted(nn.parametrize.remove_parametrizations(layer, "weight").state_dict())
    ['bias', 'weight']
    """
    if not is_parametrized(module, name):
        raise ArgumentError(f"{type(module).__name__}: {name!r} is not parametrized")
    made = getattr(module, _NAME)[name]
    first = next(made.originals())
    if not leave_parametrized and not made.single:
        raise ArgumentError(f"{name!r} has several originals; pass leave_parametrized=True")
    value = made() if leave_parametrized else first
    base, names = _parts(type(module))
    left = tuple(n for n in names if n != name)
    module.__class__ = _parametrized(base, left) if left else base
    del getattr(module, _NAME)[name]
    if not left:
        delattr(module, _NAME)
    setattr(module, name, Parameter(value) if first.requires_grad else value.detach())
    return module


def is_parametrized(module: Module, name: str | None = None) -> bool:
    """Return whether an attribute of a module is computed by others.

    Parameters
    ----------
    module : Module
        The module.
    name : str, optional
        The attribute; any if left out.

    Returns
    -------
    bool
        Whether it is parametrized.

    Examples
    --------
    >>> from calor import nn
    >>> nn.parametrize.is_parametrized(nn.Linear(1, 1), "weight")
    False
    """
    names = _parts(type(module))[1]
    return bool(names) if name is None else name in names


class WeightNorm(Module):
    """The parametrization w = g · v / |v|, whose norms are over all axes but one.

    Parameters
    ----------
    axis : int or None
        The axis that keeps a length for each element; None takes one length for all.

    References
    ----------
    Salimans and Kingma, "Weight Normalization", 2016.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> g, v = calor.asarray([[2.0]]), calor.asarray([[3.0, 4.0]])
    >>> nn.parametrize.WeightNorm(0)(g, v).tolist()
    [[1.2000000476837158, 1.600000023841858]]
    """

    def __init__(self, axis: int | None = 0) -> None:
        self.axis = axis

    def forward(self, length: Tensor, direction: Tensor) -> Tensor:
        """Return the weight.

        Parameters
        ----------
        length : Tensor
            The norms, of size 1 along the other axes.
        direction : Tensor
            The shape of the weight.

        Returns
        -------
        Tensor
            The shape of `direction`.
        """
        return direction * (length / self._norm(direction))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return the norms and the direction of a weight.

        Parameters
        ----------
        weight : Tensor
            The weight.

        Returns
        -------
        tuple of Tensor
            What `forward` takes.
        """
        return self._norm(weight), weight

    def _norm(self, x: Tensor) -> Tensor:
        kept = () if self.axis is None else (one_axis(self.axis, x.shape, "weight_norm"),)
        axes = tuple(a for a in range(x.ndim) if a not in kept)
        made: Tensor = calor.sqrt(calor.sum(x * x, axis=axes, keepdims=True))
        return made if self.axis is not None else calor.reshape(made, ())


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Split a weight into its lengths and its direction, which learn separately.

    Parameters
    ----------
    module : Module
        The module.
    name : str
        The weight.
    dim : int or None
        The axis that keeps a length for each element; None takes one length for all.

    Returns
    -------
    Module
        `module` itself.

    Raises
    ------
    ArgumentError
        If the module has no such tensor.
    AxisError
        If the weight has no such axis.

    References
    ----------
    Salimans and Kingma, "Weight Normalization", 2016.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> nn.parametrize.weight_norm(nn.Linear(2, 3)).parametrizations.weight.original0.shape
    (3, 1)
    """
    return register_parametrization(module, name, WeightNorm(dim))


class SpectralNorm(Module):
    """The parametrization w / σ, where σ is an estimate of the largest singular value of w.

    The estimate follows from two vectors, buffers that each call in training improves by power
    iteration.

    Parameters
    ----------
    weight : Tensor
        The weight; its axis `dim` makes rows, and all others columns.
    n_power_iterations : int
        The iterations of each call in training.
    dim : int
        The axis of the rows.
    eps : float
        The least norm by which a vector is divided.

    Raises
    ------
    ArgumentError
        If `n_power_iterations` is below 1.

    References
    ----------
    Miyato et al., "Spectral Normalization for Generative Adversarial Networks", 2018.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> w = calor.asarray([[3.0, 0.0], [0.0, 1.0]])
    >>> round(nn.parametrize.SpectralNorm(w, 20)(w).tolist()[0][0], 4)
    1.0
    """

    _u: Tensor
    _v: Tensor

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        if n_power_iterations < 1:
            raise ArgumentError(f"n_power_iterations is {n_power_iterations}; give at least 1")
        self.n_power_iterations = n_power_iterations
        self.dim = dim % max(weight.ndim, 1)
        self.eps = eps
        matrix = self._matrix(weight.detach())
        for name, size in (("_u", matrix.shape[0]), ("_v", matrix.shape[1])):
            drawn = calor.random.normal((size,), dtype=weight.dtype, device=weight.device)
            self.register_buffer(name, self._unit(drawn))
        self._iterate(matrix, 15)

    def forward(self, weight: Tensor) -> Tensor:
        """Return the weight divided by its largest singular value.

        Parameters
        ----------
        weight : Tensor
            The weight.

        Returns
        -------
        Tensor
            The shape and dtype of the weight.
        """
        if weight.ndim == 1:
            return self._unit(weight)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        u, v = self._u.copy(), self._v.copy()
        sigma = calor.sum(u * calor.matmul(matrix, v))
        return weight / sigma

    def right_inverse(self, value: Tensor) -> Tensor:
        """Return a value as the original.

        Parameters
        ----------
        value : Tensor
            The value.

        Returns
        -------
        Tensor
            The same tensor, since the norm is not stored.
        """
        return value

    def _matrix(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return calor.reshape(weight, (1, -1))
        order = (self.dim, *(a for a in range(weight.ndim) if a != self.dim))
        return calor.reshape(calor.permute_dims(weight, order), (weight.shape[self.dim], -1))

    def _unit(self, x: Tensor) -> Tensor:
        return x / calor.maximum(calor.sqrt(calor.sum(x * x)), self.eps)

    def _iterate(self, matrix: Tensor, count: int) -> None:
        with calor.no_grad():
            u, v = self._u.copy(), self._v.copy()
            for _ in range(count):
                u = self._unit(calor.matmul(matrix, v))
                v = self._unit(calor.matmul(u, matrix))
            self._u[...] = u
            self._v[...] = v


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value.

    Parameters
    ----------
    module : Module
        The module.
    name : str
        The weight.
    n_power_iterations : int
        The iterations by which each reading in training improves the estimate.
    eps : float
        The least norm by which a vector is divided.
    dim : int, optional
        The axis of the rows; by default 1 for transposed convolutions and 0 for others.

    Returns
    -------
    Module
        `module` itself.

    Raises
    ------
    ArgumentError
        If the module has no such tensor, or `n_power_iterations` is below 1.

    References
    ----------
    Miyato et al., "Spectral Normalization for Generative Adversarial Networks", 2018.

    Examples
    --------
    >>> from calor import nn
    >>> layer = nn.parametrize.spectral_norm(nn.Linear(2, 3))
    >>> nn.parametrize.is_parametrized(layer, "weight")
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ArgumentError(f"{type(module).__name__} has no tensor {name!r}")
    if dim is None:
        dim = 1 if "Transpose" in type(module).__name__ else 0
    made = SpectralNorm(weight, n_power_iterations, dim, eps)
    return register_parametrization(module, name, made)


def _parts(kind: type) -> tuple[type, tuple[str, ...]]:
    """Return the class that a class of a parametrized module was made of, and the attributes."""
    found: tuple[type, tuple[str, ...]] = vars(kind).get("_parametrized_of", (kind, ()))
    return found


@functools.cache
def _parametrized(base: type, names: tuple[str, ...]) -> type:
    """Return a class whose attributes of these names are computed."""
    made: dict[str, Any] = {name: _computed(name) for name in names}
    made |= {
        "_parametrized_of": (base, names),
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__reduce__": lambda self: (_blank, (base, names), self.__getstate__()),
    }
    return type(base.__name__, (base,), made)


def _blank(base: type, names: tuple[str, ...]) -> Any:
    """Return an instance without attributes, for pickle."""
    kind: Any = _parametrized(base, names)
    return kind.__new__(kind)


def _computed(name: str) -> property:
    def get(self: Any) -> Tensor:
        made: Tensor = getattr(self, _NAME)[name]()
        return made

    def assign(self: Any, value: Tensor) -> None:
        getattr(self, _NAME)[name].assign(value)

    return property(get, assign)
