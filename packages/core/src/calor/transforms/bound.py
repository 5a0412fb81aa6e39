"""``calor.jit(f).bind(model, optimizer)``: a call whose first arguments are flattened once.

Requirements: a call flattens, compares and checks only the other arguments. Of a bound tensor it
checks the value, which may have been changed in place, and nothing else while that is the same.
Devices that can compile calls compile one that is made often.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final

from calor.config import config
from calor.local import local
from calor.recording.trace import materialize
from calor.tensor.values import Value
from calor.transforms.arguments import Arguments, Unpack, as_tensors
from calor.transforms.fast_path import Quick, compiled_call, quick_call
from calor.transforms.program import MISS, JittedFunction, Program, plain_buffers
from calor.transforms.state import epoch

Call = Callable[[list[Any], list[Any], list[Any]], Any]

# How many programs a bound call keeps a route to.
_ROUTES: Final = 8
# For fewer bound tensors than this, a look at each is as quick as finding that none has changed.
_MANY: Final = 8
# How often the quick way is taken before it is worth compiling.
_OFTEN: Final = 32


class Route:
    """The way to one program where many tensors are bound: their buffers are kept."""

    __slots__ = ("bound", "buffers", "epoch", "program", "recorded", "specs", "values")

    def __init__(self, program: Program, bound: list[Any]) -> None:
        self.program = program
        self.bound = bound
        self.specs = program.specs[len(bound) :]
        self.values: list[Value] = []
        self.buffers: list[Any] = []
        self.epoch = -1
        self.recorded = True

    def __call__(self, tensors: list[Any], numbers: list[Any], objects: list[Any]) -> Any:
        """Call the program with the other tensors; MISS when something does not fit it."""
        program = self.program
        bound = self.bound
        values = [t._value for t in bound]
        if values != self.values or self.epoch != epoch.count:
            self._look(values)
        if not self.recorded:
            rest = plain_buffers(tensors, self.specs, program.device)
            if rest is not None:
                recorded = program.results_differentiable
                buffers = self.buffers + rest
                return program.enter(recorded, bound + tensors, numbers, objects, buffers)
        return program.run(bound + tensors, numbers, objects)

    def _look(self, values: list[Value]) -> None:
        """Take over the bound tensors' values, unless gradients have a say in the call."""
        self.recorded = self.program.argument_kinds is not None or any(
            t._record is not None for t in self.bound
        )
        if not self.recorded:
            self.buffers = [materialize(v) for v in values]
            self.epoch = epoch.count
            self.values = values


class Bound:
    """A jitted function with its first arguments fixed; made by :meth:`Jitted.bind`."""

    __slots__ = ("__dict__", "__weakref__", "native")

    native: Callable[..., Any]

    def __init__(self, jitted: JittedFunction, args: tuple[Any, ...]) -> None:
        functools.update_wrapper(self, jitted, updated=())
        self.jitted = jitted
        self.parts = Arguments(args, {}, jitted.static)
        # Containers as they are now: the same tensors and objects, whatever is put there later.
        self.args = self.parts.rebuild(self.parts.tensors, self.parts.numbers)[0]
        self.routes: list[tuple[Unpack, Call, Program]] = []
        self.quick: Quick | None = None
        # How often the quick way is taken before the device is asked to compile it, and that.
        self.until = 0
        self.compile: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.quick is not None and not kwargs:
            made = self.quick(args)
            if made is not MISS:
                if self.until:
                    self._count()
                return made
        if local.jit or not config.jit:
            return self.jitted.function(*self.args, *args, **kwargs)
        for route in self.routes:
            found = route[0](args, kwargs)
            if found is not None:
                made = route[1](*found)
                if made is not MISS:
                    if route is not self.routes[0]:
                        self.routes = [route, *(r for r in self.routes if r is not route)]
                    return made
        made = self.jitted(*self.args, *args, **kwargs)
        self._add_route(args, kwargs)
        return made

    def hidden_parts(self) -> tuple[Any, ...]:
        """Return what a function that calls this one reaches through it."""
        return (self.jitted, *self.args)

    def forget(self) -> None:
        """Forget the ways to programs, which were replaced."""
        self.routes, self.quick, self.compile, self.until = [], None, None, 0
        self.__class__ = Bound

    def _add_route(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Remember the way to the program that was just called."""
        if not self.jitted.programs or self.parts.arrays:
            # A host array may have been written to, so it is read each time.
            return
        program = self.jitted.programs[0]
        if program.changes_arguments or any(known is program for *_, known in self.routes):
            # A route holds the values of its arguments, which then cannot be changed in place.
            return
        if program.arguments.unpack((*self.args, *args), dict(kwargs)) is None:
            return
        parts = self.parts
        many = len(parts.tensors) >= _MANY
        first = [] if many else parts.tensors, parts.numbers, parts.objects
        rest = Arguments(args, kwargs, self._static(), first)
        call: Call = Route(program, parts.tensors) if many else program.run
        if rest.arrays:
            call = _converting(call, program)
        self.routes = [(rest.unpack, call, program), *self.routes][:_ROUTES]
        quick = quick_call(program, parts, rest)
        if quick is not None:
            self.quick = quick
            self.until = _OFTEN
            kinds = [type(t) for t in rest.tensors]
            self.compile = functools.partial(compiled_call, program, parts.tensors, kinds)

    def _count(self) -> None:
        """Have the quick way compiled when it was taken often."""
        self.until -= 1
        if self.until == 0 and self.compile is not None:
            native = self.compile(_plainly(self))
            self.compile = None
            if native is not None:
                self.native = native
                self.__class__ = Compiled

    def _static(self) -> frozenset[int | str]:
        """Return the static arguments, with places counted after the bound ones."""
        count = len(self.args)
        return frozenset(s if isinstance(s, str) else s - count for s in self.jitted.static)

    def __repr__(self) -> str:
        return f"<{self.jitted.name} with {len(self.args)} bound arguments>"


class Compiled(Bound):
    """A bound call that the device has compiled; what it does not take, it hands to Bound's way.

    A call looks at the class for ``__call__``, and finds the slot: so no Python runs in between.
    """

    __slots__ = ()

    __call__: Any = vars(Bound)["native"]


def _plainly(bound: Bound) -> Callable[..., Any]:
    """Return the way of a bound call in Python, which does not own it."""
    held = weakref.ref(bound)

    def call(*args: Any, **kwargs: Any) -> Any:
        alive = held()
        assert alive is not None
        return Bound.__call__(alive, *args, **kwargs)

    return call


def _converting(call: Call, program: Program) -> Call:
    """Return the call with host arrays made tensors first."""

    def converted(tensors: list[Any], numbers: list[Any], objects: list[Any]) -> Any:
        return call(as_tensors(tensors, program.device), numbers, objects)

    return converted
