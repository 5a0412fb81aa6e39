"""The decorators of kernels and of their helper functions.

A build is a pure function of the signature and the keyword-only arguments, so equal builds may
share one compiled kernel.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, update_wrapper
from typing import Any, Final, ParamSpec, TypeVar, cast

from calor.dtypes import DType, int64
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.nodes import Kernel, Memory, Parameter
from calor_kernel.ir.types import Buffer, Scalar, Type
from calor_kernel.language.builder import HERE, Builder
from calor_kernel.language.declared import Declaration, declaration_of
from calor_kernel.language.memory import Pointer
from calor_kernel.language.rewrite import rewrite

_LOCATED: Final = re.compile(r".*:\d+: ")
P = ParamSpec("P")
R = TypeVar("R")


class KernelFunction:
    """A kernel in source form; made by :func:`kernel`.

    Positional parameters are run-time values; keyword-only ones are known at build time.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        update_wrapper(self, function)
        self.function = function
        self.name = function.__name__
        parameters = inspect.signature(function).parameters.values()
        if inspect.Parameter.VAR_KEYWORD in [p.kind for p in parameters]:
            raise KernelTypeError(f"kernel {self.name} names its build-time parameters; no **")

    @cached_property
    def declaration(self) -> Declaration | None:
        """The declaration of the run-time parameters by annotations, None if not annotated."""
        return declaration_of(self.function)

    def __call__(self, *arguments: Any, **build: Any) -> None:
        """Inline the body into the current kernel, as a helper."""
        self.body(*arguments, **build)

    def __reduce__(self) -> str:
        """A kernel is pickled by its name, as functions are."""
        return self.function.__qualname__

    @cached_property
    def body(self) -> Callable[..., None]:
        """The rewritten function."""
        return rewrite(self.function)

    def build(
        self,
        signature: Sequence[Buffer | Scalar],
        /,
        *,
        cube: tuple[int, int, int] = (1, 1, 1),
        plane: int = 1,
        index: DType = int64,
        features: frozenset[str] = frozenset(),
        attributes: Mapping[str, Any] | None = None,
        counts: tuple[int, ...] = (),
        **build: Any,
    ) -> Kernel:
        """Return the kernel for a signature and build-time arguments.

        ``signature``: the kind of each run-time parameter. ``counts``: the length of each declared
        tuple, and 0 or 1 for each optional parameter. KernelTypeError and KernelSyntaxError name
        the line at fault.
        """
        builder = Builder(index, cube, plane, features)
        parameters: list[Parameter] = []
        arguments: list[Any] = []
        names = self._names(len(signature), counts)
        for name, declared in zip(names, signature, strict=True):
            if isinstance(declared, Buffer):
                type = Type(declared.dtype)
                memory = Memory(name, "global", type, None, declared.align, declared.writable)
                parameters.append(Parameter(name, declared, memory=memory))
                arguments.append(Pointer(builder, memory))
            else:
                value = builder.value(Type(declared.dtype), name)
                value.nonnegative = declared.nonnegative
                value.divisible = declared.divisible
                builder.scalars[value] = name
                parameters.append(Parameter(name, declared, value=value))
                arguments.append(value)
        if self.declaration is not None:
            arguments = self.declaration.arguments(iter(arguments), counts)
        with builder.active():
            try:
                self.body(*arguments, **build)
            except KernelTypeError as error:
                locate(error)
                raise
        body, memories = builder.finish(), tuple(builder.memories)
        asked = {**builder.attributes, **(attributes or {})}
        return Kernel(self.name, tuple(parameters), body, cube, plane, memories, asked)

    def _names(self, count: int, counts: tuple[int, ...]) -> list[str]:
        """Return the names of the run-time parameters of a build."""
        names: list[str] = []
        if self.declaration is not None:
            names = self.declaration.names(counts)
        else:
            for parameter in inspect.signature(self.function).parameters.values():
                if parameter.kind is parameter.VAR_POSITIONAL:
                    names += [f"{parameter.name}_{i}" for i in range(count - len(names))]
                elif parameter.kind is not parameter.KEYWORD_ONLY:
                    names.append(parameter.name)
        if len(names) != count:
            raise KernelTypeError(
                f"kernel {self.name} has {len(names)} run-time parameters "
                f"({', '.join(names)}); the signature names {count}"
            )
        return names


def locate(error: KernelTypeError) -> None:
    """Prefix a message that names no line with the kernel's file and line."""
    message = str(error)
    if _LOCATED.match(message):
        return
    where, trace = None, error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(HERE):
            where = f"{file}:{trace.tb_lineno}: "
        trace = trace.tb_next
    if where is not None:
        error.args = (where + message, *error.args[1:])


def kernel(function: Callable[..., None]) -> KernelFunction:
    """Make a function a kernel.

    >>> from calor.dtypes import float32, int64
    >>> from calor_kernel.language import Buffer, Scalar, absolute_position, kernel
    >>> @kernel
    ... def scale(x, y, n, *, factor):
    ...     i = absolute_position()
    ...     if i < n:
    ...         y[i] = x[i] * factor
    >>> floats = Buffer(float32)
    >>> built = scale.build([floats, floats, Scalar(int64)], factor=2.0)  # doctest: +SKIP
    """
    return KernelFunction(function)


def helper(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function a helper of kernels: its ``if`` and ``for`` work on device values.

    Functions without ``if``, ``for``, ``while``, ``and`` or ``not`` on device values do not need
    it.
    """
    body = cache(lambda: rewrite(function))

    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        return cast(R, body()(*arguments, **keywords))

    update_wrapper(call, function)
    return call
