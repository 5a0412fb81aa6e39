"""Hooks: functions that are called before and after a module, and with its gradients.

Requirements: a module without hooks pays one look at a class attribute. Hooks are static state, so
a jitted function traces again when one is added or removed; while it is traced, a hook runs once
and what it records is part of the graph. The names and the order of calls are PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Any, Final, Literal, Self

import calor
from calor import Tensor
from calor.errors import ArgumentError, CalorError
from calor.local import local
from calor.recording.sites import name_module
from calor_nn.parameters import Holder, observers

Kind = Literal["forward_pre", "forward", "backward_pre", "backward"]
_NUMBERS: Final = count()


@dataclass(frozen=True, slots=True)
class Hook:
    """A function of a module, when it is called, and a number that tells it from others."""

    kind: Kind
    function: Callable[..., Any]
    with_kwargs: bool
    number: int


class HookHandle:
    """What a registered hook is removed with; as a context it removes the hook at the end.

    Parameters
    ----------
    module : Module
        The module.
    hook : Hook
        The hook.

    Examples
    --------
    >>> import calor
    >>> from calor import nn
    >>> layer = nn.Identity()
    >>> with layer.register_forward_hook(lambda module, args, output: output * 2):
    ...     print(layer(calor.ones(1)).tolist())
    [2.0]
    >>> layer(calor.ones(1)).tolist()
    [1.0]
    """

    def __init__(self, module: Hooked, hook: Hook) -> None:
        self.module = module
        self.hook = hook

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        left = tuple(h for h in self.module._hooks if h.number != self.hook.number)
        if len(left) < len(self.module._hooks):
            self.module._hooks = left

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()


class Hooked(Holder):
    """A module's call, with its hooks."""

    _hooks: tuple[Hook, ...] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return ``forward`` of the arguments."""
        around = local.modules
        around.append(self)
        try:
            if self._hooks:
                output = _called(self, args, kwargs)
            else:
                output = self.forward(*args, **kwargs)
        except CalorError as error:
            name_module(error)
            raise
        finally:
            around.pop()
        if observers:
            for observe in observers:
                observe(self, args, output)
        return output

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the output; every module defines its own.

        Parameters
        ----------
        *args : Any
            What the module is called with.
        **kwargs : Any
            What the module is called with by keyword.

        Returns
        -------
        Any
            The output.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define forward(self, ...)")

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, with_kwargs: bool = False
    ) -> HookHandle:
        """Have a function called before `forward`.

        Parameters
        ----------
        hook : callable
            ``hook(module, args)`` returns None, or the arguments that are used instead: a tuple, or
            one value. With keywords ``hook(module, args, kwargs)`` returns None or both.
        with_kwargs : bool
            Whether the hook takes the keywords too.

        Returns
        -------
        HookHandle
            Its ``remove()`` removes the hook.

        Examples
        --------
        >>> import calor
        >>> from calor import nn
        >>> layer = nn.Identity()
        >>> handle = layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
        >>> layer(calor.zeros(1)).tolist()
        [1.0]
        """
        return self._hook("forward_pre", hook, with_kwargs)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, with_kwargs: bool = False
    ) -> HookHandle:
        """Have a function called after `forward`.

        Parameters
        ----------
        hook : callable
            ``hook(module, args, output)`` returns None, or the output that is used instead. With
            keywords it is ``hook(module, args, kwargs, output)``.
        with_kwargs : bool
            Whether the hook takes the keywords too.

        Returns
        -------
        HookHandle
            Its ``remove()`` removes the hook.

        Examples
        --------
        >>> import calor
        >>> from calor import nn
        >>> shapes, layer = [], nn.Linear(2, 3)
        >>> handle = layer.register_forward_hook(lambda module, args, y: shapes.append(y.shape))
        >>> _ = layer(calor.ones((1, 2)))
        >>> shapes
        [(1, 3)]
        """
        return self._hook("forward", hook, with_kwargs)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Have a function called with the gradients of the outputs, before they pass the module.

        Parameters
        ----------
        hook : callable
            ``hook(module, grad_output)`` gets a tuple with a gradient for each tensor of the
            output, and returns None or the gradients that are used instead.

        Returns
        -------
        HookHandle
            Its ``remove()`` removes the hook.

        Examples
        --------
        >>> import calor
        >>> from calor import nn
        >>> layer = nn.Identity()
        >>> handle = layer.register_full_backward_pre_hook(lambda module, g: (g[0] * 2,))
        >>> calor.grad(lambda x: layer(x))(1.0).item()
        2.0
        """
        return self._hook("backward_pre", hook, False)

    def register_full_backward_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Have a function called with the gradients of inputs and outputs.

        Parameters
        ----------
        hook : callable
            ``hook(module, grad_input, grad_output)`` gets two tuples, with a gradient for each
            tensor among the positional arguments and in the output. It returns None, or the
            gradients of the inputs that are used instead. ``grad_input`` holds None for tensors
            that want no gradient.

        Returns
        -------
        HookHandle
            Its ``remove()`` removes the hook.

        Examples
        --------
        >>> import calor
        >>> from calor import nn
        >>> layer = nn.ReLU()
        >>> seen = lambda module, into, out: print(into[0].tolist(), out[0].tolist())
        >>> handle = layer.register_full_backward_hook(seen)
        >>> x = calor.asarray([-1.0, 1.0], requires_grad=True)
        >>> layer(x).sum().backward()
        [0.0, 1.0] [1.0, 1.0]
        """
        return self._hook("backward", hook, False)

    def _hook(self, kind: Kind, function: Callable[..., Any], with_kwargs: bool) -> HookHandle:
        if not callable(function):
            raise ArgumentError(f"a hook must be a function, not a {type(function).__name__}")
        hook = Hook(kind, function, with_kwargs, next(_NUMBERS))
        self._hooks = (*self._hooks, hook)
        return HookHandle(self, hook)


def _called(module: Hooked, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the output of a module with hooks."""
    of: dict[Kind, list[Hook]] = {}
    for hook in module._hooks:
        of.setdefault(hook.kind, []).append(hook)
    for hook in of.get("forward_pre", ()):
        args, kwargs = _before(module, hook, args, kwargs)
    backward = _Backward(module, of.get("backward_pre", []), of.get("backward", []))
    if backward.wanted:
        args = backward.entered(args)
    output = module.forward(*args, **kwargs)
    for hook in of.get("forward", ()):
        given = (args, kwargs) if hook.with_kwargs else (args,)
        instead = hook.function(module, *given, output)
        output = output if instead is None else instead
    return backward.left(output) if backward.wanted else output


def _before(
    module: Hooked, hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if not hook.with_kwargs:
        instead = hook.function(module, args)
        if instead is None:
            return args, kwargs
        return instead if isinstance(instead, tuple) else (instead,), kwargs
    instead = hook.function(module, args, kwargs)
    if instead is None:
        return args, kwargs
    if not isinstance(instead, tuple) or len(instead) != 2:
        raise ArgumentError(
            f"a forward pre-hook with keywords returned a {type(instead).__name__}; return None "
            f"or (args, kwargs)"
        )
    return instead


class _Backward:
    """The gradient hooks of one call: identities around the module that see what passes back."""

    def __init__(self, module: Hooked, before: list[Hook], after: list[Hook]) -> None:
        self.module = module
        self.before = before
        self.after = after
        self.wanted = bool(before or after)
        self.entries = 0
        self.outgoing: tuple[Any, ...] = ()

    def entered(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments, of which those that want gradients pass an identity."""
        leaves, structure = calor.tree.flatten(args)
        places = [i for i, x in enumerate(leaves) if _wants_gradient(x)]
        tensors = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]
        self.entries = len(places)
        if not places or not self.after:
            return args

        def rule(gs: tuple[Any, ...]) -> tuple[Any, ...]:
            found = dict(zip(places, gs, strict=True))
            for hook in self.after:
                into = tuple(found.get(i) for i in tensors)
                instead = hook.function(self.module, into, self.outgoing)
                if instead is not None:
                    found = {
                        i: g
                        for i, g in zip(tensors, _tuple(instead), strict=True)
                        if i in found and g is not None
                    }
            return tuple(found.get(i) for i in places)

        for i, x in zip(places, _through([leaves[i] for i in places], rule), strict=True):
            leaves[i] = x
        made: tuple[Any, ...] = calor.tree.unflatten(structure, leaves)
        return made

    def left(self, output: Any) -> Any:
        """Return the output, whose tensors that have a gradient pass an identity."""
        leaves, structure = calor.tree.flatten(output)
        places = [i for i, x in enumerate(leaves) if _wants_gradient(x)]
        if not places:
            return output

        def rule(gs: tuple[Any, ...]) -> tuple[Any, ...]:
            for hook in self.before:
                instead = hook.function(self.module, gs)
                gs = gs if instead is None else _tuple(instead)
            self.outgoing = gs
            if not self.entries:
                # No gradient leaves the module, so the hooks are called here.
                for hook in self.after:
                    hook.function(self.module, (None,), gs)
            return gs

        for i, x in zip(places, _through([leaves[i] for i in places], rule), strict=True):
            leaves[i] = x
        return calor.tree.unflatten(structure, leaves)


def _tuple(given: Any) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, tuple | list) else (given,)


def _wants_gradient(x: Any) -> bool:
    return isinstance(x, Tensor) and x.requires_grad and x.dtype.is_inexact


def _through(tensors: list[Any], rule: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> list[Any]:
    """Return tensors whose gradients a rule of all of them changes."""

    @calor.custom_vjp
    def hooks(*given: Any) -> Any:
        return tuple(x.copy() for x in given)

    hooks.defvjp(lambda *given: (tuple(x.copy() for x in given), None), lambda _, gs: rule(gs))
    return list(hooks(*tensors))
