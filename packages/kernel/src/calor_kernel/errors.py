"""Errors of the kernel language and of what runs kernels."""

from __future__ import annotations

from calor.errors import CalorError, CompileError


class KernelSyntaxError(CalorError, SyntaxError):
    """A construct that kernels do not have; ``filename`` and ``lineno`` say where it stands."""

    def __init__(self, message: str, filename: str | None = None, line: int | None = None) -> None:
        where = f"{filename}:{line}: " if filename is not None else ""
        super().__init__(where + message)
        self.filename = filename
        self.lineno = line


class KernelSourceError(CalorError, OSError):
    """The source text of a kernel cannot be read, as for a function made by ``exec``."""


class KernelTypeError(CalorError, TypeError):
    """Types that do not fit in a kernel; the message says where, and what to write instead."""


class LaunchError(KernelTypeError):
    """Arguments of a launch that do not fit the kernel; ``kernel`` and ``parameter`` name where."""

    def __init__(self, kernel: str, parameter: str, problem: str) -> None:
        super().__init__(f"kernel {kernel}, parameter {parameter}: {problem}")
        self.kernel = kernel
        self.parameter = parameter


class KernelCheckError(CalorError):
    """A kernel broke a rule while it ran on lanes: out of bounds, a race, a missing barrier.

    ``rule`` names the rule: "bounds", "uninitialized", "race", "barrier", "pending", "align",
    "division", "shift", "plane", "assert" or "endless". ``memory`` and ``index`` say what was
    reached, ``cube`` and ``unit`` who did it, ``position`` the kernel's file and line; what does
    not apply is None.
    """

    def __init__(
        self,
        message: str,
        *,
        rule: str = "",
        memory: str | None = None,
        index: int | None = None,
        cube: tuple[int, int, int] | None = None,
        unit: tuple[int, int, int] | None = None,
        position: tuple[str, int] | None = None,
    ) -> None:
        super().__init__(message)
        self.rule = rule
        self.memory = memory
        self.index = index
        self.cube = cube
        self.unit = unit
        self.position = position


class VerificationError(CompileError):
    """A kernel's intermediate form breaks a rule; a defect of the language or of a pass."""
