"""Where an op that may fail was recorded: the user's call and line, and the module's path.

Requirements: what fails is known long after it was recorded, so the place is kept for the few ops
that may fail for their operands' contents, whatever the settings, in about a microsecond; nothing
is kept for others. A place keeps no module alive once its op was queued.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any, Final, NamedTuple, Protocol

from calor.errors import CalorError, DeviceError, ElementIndexError
from calor.lines import is_own, line_of
from calor.local import local

_frame = sys._getframe
# Calor's own files that were met, and the frames around other functions.
_own: Final[set[str]] = set()
_AROUND: Final = frozenset(("explained.<locals>.call", "in_float32.<locals>.call"))
# Methods that users write as something else.
_READABLE: Final = {"__getitem__": "x[...]", "__setitem__": "x[...] = y"}
# Errors within them carry their name on some devices.
_CONTROL: Final = frozenset(("cond", "scan", "while_loop"))
# How many places are named where several are possible.
_SHOWN: Final = 3


class Named(Protocol):
    """A module, as paths are made from it."""

    def named_modules(self) -> Iterator[tuple[str, Any]]:
        """Return this module and those below it, with their paths."""
        ...


class Site(NamedTuple):
    """A recorded op that may fail.

    ``shape``: that of the first operand. ``entry``: the code of calor that the user called;
    ``code`` and ``at``: the user's, and the instruction. ``modules``: those whose forward pass ran,
    or weak references to them; ``path``: the path of the last, if it is worked out. ``axes``: what
    axes of the user's tensor the op's axes are, where the op reads a part of it.
    """

    position: int
    op: str
    shape: tuple[int, ...]
    axis: int | None
    entry: CodeType | None
    code: CodeType
    at: int
    modules: Sequence[Any]
    path: str | None = None
    axes: Mapping[int, int] | None = None

    @property
    def line(self) -> str:
        """The user's line."""
        return line_of(self.code, self.at)

    @property
    def call(self) -> str | None:
        """What the user called; a module by its class, a method of tensors without its theme."""
        if self.entry is None:
            return None
        kind, _, method = self.entry.co_qualname.rpartition(".")
        if method == "__call__":
            held = _alive(self.modules)
            return type(held[-1]).__qualname__ if held else None
        return _READABLE.get(method) or (f"x.{method}()" if kind else f"{method}()")

    @property
    def module(self) -> str | None:
        """The path of the innermost module, if the op was recorded in one that still lives."""
        return self.path or path_of(_alive(self.modules))

    def fits(self, error: DeviceError) -> bool:
        """Return whether an error may be that of this op."""
        if error.op not in (None, self.op) and error.op not in _CONTROL:
            return False
        if not isinstance(error, ElementIndexError) or error.axis is None:
            return True
        axis = error.axis
        return self.axis in (None, axis) and self.shape[axis : axis + 1] == (error.size,)

    def axis_of(self, error: DeviceError) -> int | None:
        """Return the axis of the user's tensor along which an index is out of range."""
        axis = error.axis if isinstance(error, ElementIndexError) else None
        return axis if axis is None or self.axes is None else self.axes.get(axis, axis)

    def loosened(self) -> Site:
        """Return the place without a hold on modules."""
        return self._replace(modules=[weakref.ref(m) for m in self.modules])

    def settled(self) -> Site:
        """Return the place with the module's path worked out."""
        return self._replace(path=self.module)


def here(position: int, op: str, shape: tuple[int, ...], axis: int | None) -> Site:
    """Return the place of an op that the caller's caller records."""
    frame = _frame(2)
    entry = None
    code = frame.f_code
    while code.co_filename in _own or is_own(code.co_filename):
        _own.add(code.co_filename)
        if code.co_qualname not in _AROUND:
            entry = code
        before = frame.f_back
        if before is None:
            break
        frame = before
        code = frame.f_code
    modules = local.modules
    at = frame.f_lasti
    given = (position, op, shape, axis, entry, code, at, tuple(modules), None, local.axes)
    return tuple.__new__(Site, given)


def _alive(modules: Sequence[Any]) -> list[Any]:
    held = [m() if type(m) is weakref.ref else m for m in modules]
    return [m for m in held if m is not None]


def path_of(modules: Sequence[Named]) -> str | None:
    """Return the path of the last module from the first, with its class: "blocks.3.qkv (Linear)".

    A module that is no attribute of those around it is named by its class.
    """
    if not modules:
        return None
    last = modules[-1]
    kind = type(last).__qualname__
    for outer in modules[:-1]:
        path = next((p for p, m in outer.named_modules() if m is last), "")
        if path:
            return f"{path} ({kind})"
    return kind


def name_module(error: CalorError) -> None:
    """Add the path of the module whose forward pass runs to an error, the first time."""
    if error.module is None:
        error.module = path_of(local.modules)


def _name_axis(error: DeviceError, axes: set[int | None]) -> None:
    """Let an error name the axis of the user's tensor, if the places where it may be agree."""
    if isinstance(error, ElementIndexError) and len(axes) == 1:
        (axis,) = axes
        said, meant = (f" for axis {a} of size {error.size}" for a in (error.axis, axis))
        error.args = tuple(str(a).replace(said, meant) for a in error.args)
        error.axis = axis


class axes_named:
    """Context in which an op's axes are, in errors, these axes of the user's tensor."""

    def __init__(self, axes: Mapping[int, int]) -> None:
        self.axes = axes

    def __enter__(self) -> None:
        local.axes = self.axes

    def __exit__(self, *error: object) -> None:
        local.axes = None


def locate(error: DeviceError, *likely: Iterable[Site]) -> None:
    """Add the place where the op was recorded to an error, or the places that are possible.

    The places are the first of ``likely`` among which there is one that fits.
    """
    if error.line is not None:
        return
    found: dict[tuple[str, str | None], Site] = {}
    for sites in likely:
        fitting = [site for site in sites if site.fits(error)]
        found = {(site.line, site.module): site for site in fitting}
        if found:
            _name_axis(error, {site.axis_of(error) for site in fitting})
            break
    if len(found) == 1:
        ((line, module), site), *_ = found.items()
        error.call, error.line, error.module = site.call, line, module
    elif found:
        shown = [line + (f" in module {module}" if module else "") for line, module in found]
        more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
        error.line = "one of: " + ", ".join(shown[:_SHOWN]) + more
