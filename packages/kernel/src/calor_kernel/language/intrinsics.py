"""Intrinsics: native text inside a kernel, with a NumPy function as its meaning.

The idea is Exo's (Ikarashi et al., "Exocompilation for productive programming of hardware
accelerators", 2022).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from string import Formatter
from types import MappingProxyType
from typing import Any

from calor.dtypes import as_dtype
from calor.errors import CompileError
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.types import Type
from calor_kernel.language.builder import current
from calor_kernel.language.values import Number


class Intrinsic:
    """A device function in native text; made by :func:`intrinsic`.

    Attributes: ``operands`` and ``result``, the types (``result`` None for one without); ``texts``
    by language; ``reference``, its semantics on NumPy arrays of shape (units,) for a scalar and
    (units, lanes) for a vector, with one row if the value is uniform.
    """

    def __init__(
        self,
        reference: Callable[..., Any],
        operands: tuple[Type, ...],
        result: Type | None,
        texts: Mapping[str, str],
    ) -> None:
        self.reference = reference
        self.operands = operands
        self.result = result
        self.texts = MappingProxyType(dict(texts))
        self.name = reference.__name__
        self.__name__, self.__doc__ = self.name, reference.__doc__
        self.__module__, self.__qualname__ = reference.__module__, reference.__qualname__

    def __repr__(self) -> str:
        return f"<intrinsic {self.__module__}.{self.__qualname__}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled by name, as functions are: the name refers to this object, not to the reference.
        return _find, (self.__module__, self.__qualname__)

    def text(self, *languages: str) -> str:
        """Return the text in the first available language; CompileError if there is none."""
        for language in languages:
            if language in self.texts:
                return self.texts[language]
        raise CompileError(
            f"intrinsic {self.name} has text for {', '.join(self.texts) or 'no language'}, not for "
            f"{' or '.join(languages)}; add it to its @intrinsic, or write the kernel without"
        )

    def __call__(self, *given: Any) -> Number | None:
        """Emit the call in the current kernel."""
        if len(given) != len(self.operands):
            raise KernelTypeError(
                f"intrinsic {self.name} takes {len(self.operands)} operands, not {len(given)}"
            )
        builder = current()
        made = [builder.coerce(v, t.scalar) for v, t in zip(given, self.operands, strict=True)]
        for value, type in zip(made, self.operands, strict=True):
            if value.type != type:
                raise KernelTypeError(
                    f"intrinsic {self.name} takes {_listed(self.operands)}, not "
                    f"{_listed(v.type for v in made)}"
                )
        types = () if self.result is None else (self.result,)
        results = builder.emit("inline", made, types, {"intrinsic": self})
        return results[0] if results else None


def _listed(types: Any) -> str:
    return ", ".join(map(str, types)) or "nothing"


def _find(module: str, path: str) -> Any:
    found: Any = import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found


def _type(text: str) -> Type:
    name, _, width = text.strip().partition("x")
    return Type(as_dtype(name), int(width or 1))


def intrinsic(signature: str, /, **texts: str) -> Callable[[Callable[..., Any]], Intrinsic]:
    """Make a NumPy function an intrinsic: its reference, with a text for each language.

    ``signature``: the types of operands and result. A text for a C language is an expression, or a
    statement without a result; ``{0}`` is the first operand. A text for LLVM consists of whole
    lines; ``{result}`` is the result's name and the prefix of all local names, and ``declare``
    lines are moved to the top of the module. ``c`` serves all C languages without a text of their
    own.

    >>> import numpy as np
    >>> @intrinsic("float32, float32 -> float32", c="hypot({0}, {1})", metal="length(float2({0}, {1}))")
    ... def hypot(x, y):
    ...     return np.hypot(x, y)
    >>> hypot.text("opencl", "c"), hypot.result.dtype.name
    ('hypot({0}, {1})', 'float32')
    """  # noqa: E501 - a signature and two texts are one line
    left, arrow, right = signature.partition("->")
    if not arrow:
        raise KernelTypeError(f"an intrinsic's signature is like 'int32 -> int32', not {signature}")
    operands = tuple(map(_type, left.split(","))) if left.strip() else ()
    result = _type(right) if right.strip() else None
    known = {*map(str, range(len(operands))), *(("result",) if result is not None else ())}
    for language, text in texts.items():
        unknown = {field for _, field, _, _ in Formatter().parse(text) if field is not None} - known
        if unknown:
            raise KernelTypeError(
                f"the text for {language} names {', '.join(sorted(unknown))}; there are "
                f"{', '.join(sorted(known)) or 'no operands'} (a brace of the text is doubled)"
            )

    def make(reference: Callable[..., Any]) -> Intrinsic:
        count = len(inspect.signature(reference).parameters)
        if count != len(operands):
            raise KernelTypeError(
                f"intrinsic {reference.__name__} takes {count} parameters, and its signature names "
                f"{len(operands)}"
            )
        return Intrinsic(reference, operands, result, texts)

    return make
