"""The plugin of calor-special: its hooks give core the rows of special functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from calor.plugins import hookimpl


def _rows() -> Any:
    import calor_special

    return calor_special


@hookimpl
def calor_ops() -> Mapping[str, Callable[[], Any]]:
    """Return the rows of special functions."""
    return {"special": _rows}
