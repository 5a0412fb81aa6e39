"""``calor.jit``: trace once per structure, then replay forward, backward and update in one call."""

from __future__ import annotations

import functools
import inspect
import threading
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from calor.backends.device import Device
from calor.collecting import collecting_later
from calor.config import config
from calor.device_selection import current_device
from calor.errors import ArgumentError, DeviceError
from calor.local import local
from calor.recording.tracing import tracing
from calor.tensor.values import Handle
from calor.transforms.arguments import Arguments, Unpack, as_tensors
from calor.transforms.bound import Bound
from calor.transforms.families import Families, asked
from calor.transforms.hidden import hidden
from calor.transforms.program import MISS, Program
from calor.transforms.state import JITTED_METHODS, Stateful, named_leaves
from calor.units import bytes_of

# How many programs one jitted function keeps; the one used longest ago goes first.
PROGRAM_LIMIT = 64
# How many sizes are traced plainly before sizes are open, and for how many structures.
_PLAIN = 2
_STRUCTURES = 16


class Jitted:
    """A function that is traced once per structure of its arguments; made by :func:`calor.jit`.

    ``programs`` are the last traces, the last used first; ``reasons`` says why the last were made,
    and ``trace_count`` how many there were.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        static: frozenset[int | str],
        name: str,
        memory_limit: int | None = None,
        dynamic: bool | None = None,
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.dynamic = dynamic
        self.name = name
        self.static = static
        self.memory_limit = memory_limit
        self.programs: list[Program] = []
        self.reasons: list[str] = []
        self.trace_count = 0
        self.roots: list[Stateful] = []
        self.reached: list[Handle] = []
        # What programs of several sizes share, where the caller of the function keeps it.
        self.families: Families | None = None
        # Else by structures of arguments: what unpacks these, and ranks, dtypes and settings.
        self._shared: list[tuple[Unpack, Any, Families]] = []
        self._first = threading.RLock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if local.jit or not config.jit:
            return self.function(*args, **kwargs)
        programs = self.programs
        for program in programs:
            arguments = program.arguments
            found = arguments.unpack(args, kwargs)
            if found is None:
                continue
            tensors, numbers, objects = found
            if arguments.arrays:
                tensors = as_tensors(tensors, program.device)
            result = program.run(tensors, numbers, objects)
            if result is not MISS:
                if program is not programs[0]:
                    self._put_first(program)
                return result
        return self._first_call(programs, args, kwargs)

    def _put_first(self, program: Program) -> None:
        # A new list, for other threads may be walking the one there is.
        others = [p for p in self.programs if p is not program]
        self.programs = [program, *others[: PROGRAM_LIMIT - 1]]

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Support decorated methods: each instance has its own jitted method."""
        if instance is None:
            return self
        # By what the class holds, for a method may call the one that it overrides.
        methods = vars(instance).setdefault(JITTED_METHODS, {})
        found = methods.get(self)
        if found is None or found.function.__self__ is not instance:
            # A copy of an object has what the object keeps, whose methods are the object's.
            bound = types.MethodType(self.function, instance)
            made = Jitted(bound, self.static, self.name, self.memory_limit, self.dynamic)
            vars(instance)[JITTED_METHODS] = {**methods, self: made}
            return made
        return found

    def _first_call(
        self, tried: list[Program], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Trace the function and call the program; ``tried`` are those that did not fit."""
        if not tracing.acquire(blocking=False):
            # Another thread traces, perhaps with the state that a program did not find as it was.
            with tracing:
                pass
            return self(*args, **kwargs)
        tracing.release()
        with self._first:
            if self.programs is not tried:
                return self(*args, **kwargs)
            with collecting_later():
                program, arguments, new = self._traced(args, kwargs)
                if new:
                    self._count(program)
                self._put_first(program)
                result = program.run(arguments.tensors, arguments.numbers, arguments.objects)
        assert result is not MISS, f"{self.name}: a new trace does not fit its own arguments"
        return result

    def _traced(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Program, Arguments, bool]:
        """Return the program for a call's arguments, and whether the function was traced for it."""
        arguments, device = self._arguments(args, kwargs)
        if arguments.arrays:
            arguments.tensors = as_tensors(arguments.tensors, device)
        again = functools.partial(jit, memory_limit=self.memory_limit)
        families = self._families(arguments, device, args, kwargs)
        if families is not None:
            before = families.made
            others = [p for p in self.programs if p.arguments.unpack(args, {**kwargs}) is not None]
            found = families.program(self, arguments, device, again, others)
            if found is not None:
                return found, arguments, families.made != before
        return Program(self, arguments, device, again), arguments, True

    def _families(
        self,
        arguments: Arguments,
        device: Device,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Families | None:
        """Return the traces for many sizes that a call may use, None if it is traced plainly."""
        if self.memory_limit is not None or self.dynamic is False:
            return None
        if self.families is not None or not arguments.tensors:
            return self.families
        kinds = asked(arguments.tensors, device)[1]
        for unpack, known, families in self._shared:
            if known == kinds and unpack(args, {**kwargs}) is not None:
                return families
        made = Families(bool(self.dynamic), plain=_PLAIN, compared=True)
        self._shared = [(arguments.unpack, kinds, made), *self._shared[: _STRUCTURES - 1]]
        return made

    def _arguments(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Arguments, Device]:
        arguments = Arguments(args, dict(kwargs), self.static)
        # Looked up now: what the function names may have been made after it was decorated.
        self.roots, self.reached = hidden(self.function)
        return arguments, self._device(arguments)

    def hidden_parts(self) -> tuple[Any, ...]:
        """Return what a function that calls this one reaches through it."""
        return (self.function,)

    def device_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Device:
        """Return the device of a call with these arguments."""
        return self._arguments(args, kwargs)[1]

    def trace_again(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Trace and compile the function for these arguments anew; it does not run.

        The new program takes the place of those with an equal graph.
        """
        with self._first, collecting_later():
            program, _, _ = self._traced(args, kwargs)
            same = [p for p in self.programs if p.graph.key == program.graph.key]
            if not same:
                self._count(program)
            self.programs = [program, *(p for p in self.programs if p not in same)]

    def _device(self, arguments: Arguments) -> Device:
        given = [t._value.device for t in arguments.tensors if isinstance(t, Handle)]
        for device in given:
            if device is not given[0]:
                raise DeviceError(
                    f"{self.name} is given tensors on {given[0].name} and {device.name}; move "
                    f'them to one device: x.to("{given[0].name}")'
                )
        if given:
            return given[0]
        for obj in [*arguments.objects, *self.roots]:
            for _, _, _, leaf in named_leaves(obj):
                if isinstance(leaf, Handle):
                    return leaf._value.device
        return current_device()

    def _count(self, program: Program) -> None:
        """Count a trace and keep its reason; a function that is always traced keeps the last."""
        self.trace_count += 1
        self.reasons = [*self.reasons, self._reason(program)][-PROGRAM_LIMIT:]

    def _reason(self, program: Program) -> str:
        """Return what sets a new program apart from the one most like it."""
        if not self.programs:
            return "first call"
        changes = min((_changes(last, program) for last in self.programs), key=len)
        return "; ".join(changes) or "the structure or a static argument changed"

    def __repr__(self) -> str:
        count = self.trace_count
        return f"<jitted {self.name}, {count} {'trace' if count == 1 else 'traces'}>"

    def explain(self) -> str:
        """Return a text that counts the traces and lists why the last ones were made.

        Returns
        -------
        str
            One line for each of the last traces, by its number.
        """
        lines = [f"{self.name}: {self.trace_count} traces"]
        first = self.trace_count - len(self.reasons) + 1
        lines += [f"  {i}: {reason}" for i, reason in enumerate(self.reasons, first)]
        families = [families for _, _, families in self._shared]
        if any(one.made for one in families):
            lines.append("  calls of other sizes share a trace")
        lines += sorted({f"  {one.reason}" for one in families if one.reason is not None})
        return "\n".join(lines)

    def bind(self, *bound: Any) -> Bound:
        """Return the function with its first arguments fixed, as the call with the least overhead.

        Bound containers are flattened once: what is put into them later is not seen, changes of
        their tensors and objects are.

        Parameters
        ----------
        *bound : Any
            The first arguments.

        Returns
        -------
        Bound
            A callable that takes the other arguments.

        Examples
        --------
        >>> import calor
        >>> scale = calor.jit(lambda w, x: w * x).bind(calor.asarray([1.0, 2.0]))
        >>> scale(calor.asarray([3.0, 3.0])).tolist()
        [3.0, 6.0]
        """
        return Bound(self, bound)


def _changes(last: Program, program: Program) -> list[str]:
    changes = [
        f"tensor argument {i} was {a} and is {b}"
        for i, (a, b) in enumerate(zip(last.specs, program.specs, strict=False))
        if a is not b
    ]
    if len(last.specs) != len(program.specs):
        changes.append(f"{len(last.specs)} tensor arguments became {len(program.specs)}")
    if last.device is not program.device:
        changes.append(f"device {last.device.name} became {program.device.name}")
    if last.grad_mode is not program.grad_mode:
        changes.append("gradients were switched on or off")
    if last.precision is not program.precision:
        changes.append(f"matmul_precision was {last.precision} and is {program.precision}")
    if last.autocast is not program.autocast:
        kinds = (getattr(kind, "name", "off") for kind in (last.autocast, program.autocast))
        changes.append("autocast was {} and is {}".format(*kinds))
    if last.floating is not program.floating:
        changes.append(f"default_dtype was {last.floating} and is {program.floating}")
    if last.views is not program.views:
        changes.append(f"writes to views were {last.views} and are {program.views}")
    if last.argument_kinds != program.argument_kinds:
        changes.append("which tensor arguments take gradients changed")
    if last.traced.grad_absent != program.traced.grad_absent:
        changes.append("gradients (.grad) were present and are absent, or the reverse")
    return changes


def jit(
    function: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    memory_limit: int | str | None = None,
    dynamic: bool | None = None,
) -> Any:
    """Compile a function: trace it once for each structure of its arguments, then replay.

    Parameters
    ----------
    function : callable, optional
        The function. Arguments may be tensors, host arrays, Python numbers (another number needs no
        other trace), pytrees, modules and optimizers (their tensors are read and changed in place),
        and anything comparable (static). Left out, a decorator is returned.
    static_argnums : int or iterable of int, optional
        Positional arguments whose values are built into the trace. They are compared by types and
        bits: 0.0 and -0.0, or 1 and True, make two traces.
    static_argnames : str or iterable of str, optional
        Arguments, by name, whose values are built into the trace.
    memory_limit : int or str, optional
        The most bytes that a call takes, such as ``"8 GiB"``: its arguments and state, its results,
        and what is alive in between. Values that the backward pass needs are recomputed there,
        those that cost least first, until the call fits. Results keep their bits.
    dynamic : bool, optional
        Whether calls of many sizes share a trace, which asks Python's decisions about sizes again.
        Left out, the sizes that differ between the first two traces are open in the third. True:
        all sizes but 0 and 1 are open from the first call. False: each size has its trace.

    Returns
    -------
    Jitted
        The compiled function. Its ``bind`` fixes the first arguments, ``explain()`` lists the
        traces and why each was made, ``trace_count`` counts them.

    Raises
    ------
    ArgumentError
        If ``static_argnames`` names a parameter that the function does not have, or
        ``memory_limit`` is no number of bytes.
    TraceError
        At the call, if the function reads the value of a traced tensor.
    DeviceError
        At the call, if the arguments are on different devices.
    MemoryLimitError
        At the call, if it needs more than ``memory_limit`` whatever is recomputed. The message and
        ``smallest`` name the smallest limit that would do.
    UnsupportedError
        At the call, if ``memory_limit`` is given and several devices share the program.

    Notes
    -----
    Tensors that the function captures are inputs of the program and are read at each call. Those
    that it changes have their new values after the call, through which no gradient flows. A call
    that changes a tensor which it has twice, as two arguments or from outside as well, runs op by
    op. The environment variable ``CALOR_JIT=0`` runs jitted functions as plain Python.

    Devices that run calor's kernels recompute; others keep the limit or refuse the call, and so
    do programs with control flow. The memory limit counts state that is written in place once.
    State that something else holds as well, such as a NumPy view, is written to fresh memory
    beside it.

    References
    ----------
    Chen, Xu, Zhang and Guestrin, "Training deep nets with sublinear memory cost", 2016, for
    ``memory_limit``.

    Examples
    --------
    >>> import calor
    >>> @calor.jit
    ... def f(x, scale):
    ...     return calor.sum(x * scale)
    >>> f(calor.ones(3), 2.0).item(), f(calor.ones(3), 4.0).item(), f.trace_count
    (6.0, 12.0, 1)
    """
    limit = None if memory_limit is None else bytes_of(memory_limit, "memory_limit")
    if function is None:
        return functools.partial(
            jit,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            memory_limit=limit,
            dynamic=dynamic,
        )
    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    name = getattr(function, "__name__", type(function).__name__)
    return Jitted(function, _static(function, numbers, names), name, limit, dynamic)


def _static(
    function: Callable[..., Any], numbers: Iterable[int], names: Iterable[str]
) -> frozenset[int | str]:
    """Return the static arguments by position and by name: a caller may pass either way."""
    found: set[int | str] = {*numbers, *names}
    if not found:
        return frozenset()
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return frozenset(found)
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known = {p.name for p in parameters}
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        for unknown in sorted(set(names) - known):
            raise ArgumentError(
                f"jit: static_argnames names {unknown!r}, the function takes "
                f"{', '.join(p.name for p in parameters) or 'no arguments'}"
            )
    for place, parameter in enumerate(parameters):
        if parameter.kind in by_position and (place in found or parameter.name in found):
            found |= {place, parameter.name}
    return frozenset(found)
