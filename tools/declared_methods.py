"""What editors see of the methods that ops declare: `python tools/declared_methods.py`.

An op with `method=True` is a method of tensors when calor is imported. The class of tensors stands
below the functions, so its declarations are a file, which this writes from the functions.
"""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "packages/core/src/calor/tensor/declared_methods.py"
HEAD = '''\
"""Declarations of the methods that ops bring with their rows.

Written by ``tools/declared_methods.py`` from the ops with ``method=True``; calor.methods gives
tensors the methods themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from calor.tensor.values import Handle, Operand


class DeclaredMethods(Handle):
    """What tensors have of the functions that are ops declared in one place."""

    __slots__ = ()

    if TYPE_CHECKING:

'''


def declaration(name: str, function: Callable[..., Any]) -> str:
    """The method's line: the first parameter is the tensor, the others are operands."""
    others = list(inspect.signature(function).parameters)[1:]
    parameters = ", ".join(["self", *(f"{other}: Operand" for other in others), "/"])
    return f"        def {name}({parameters}) -> Self: ...\n"


def text(methods: Mapping[str, Callable[..., Any]]) -> str:
    """The whole file."""
    return HEAD + "".join(declaration(name, methods[name]) for name in sorted(methods))


if __name__ == "__main__":
    from calor.functions.rows import METHODS

    FILE.write_text(text(METHODS), "utf-8")
