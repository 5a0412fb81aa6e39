"""The table of programs that mean the same in Python and in a kernel."""

from __future__ import annotations

from typing import Any

from calor_kernel.language import kernel
from calor_kernel.language.kernel import KernelFunction

PROGRAMS: dict[str, KernelFunction] = {}


def program(function: Any) -> Any:
    """Enter a program in the table."""
    PROGRAMS[function.__name__] = kernel(function)
    return function
