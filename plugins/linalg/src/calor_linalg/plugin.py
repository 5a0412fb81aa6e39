"""The plugin of calor-linalg: its hooks give core the rows of linear algebra."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from calor.plugins import hookimpl


def _rows() -> Any:
    from calor_linalg import eigen

    return eigen


@hookimpl
def calor_ops() -> Mapping[str, Callable[[], Any]]:
    """Return the rows of factorizations and linear systems."""
    return {"linalg": _rows}
