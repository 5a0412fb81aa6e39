"""What other packages learn of calor when they are imported: einops, that it has a backend.

Requirements: ``einops.rearrange(x, ...)`` takes a tensor whichever of the two is imported first,
and importing calor imports nothing for it. einops finds the backends that are defined, so calor's
is defined right after einops's own.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    # Slow to import.
    from importlib.abc import Loader

# The module after whose import another one is imported.
_AFTER = {"einops._backends": "calor.einops_backend"}


class _Watch:
    """Finds the modules that are watched for as ever, and adds to what their import does."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _AFTER:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = cast("Loader", _Followed(spec.loader, _AFTER[fullname]))
        return spec


class _Followed:
    """A loader after which a module of calor is imported."""

    def __init__(self, loader: Loader, follower: str) -> None:
        self.loader = loader
        self.follower = follower

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        import_module(self.follower)


def watch() -> None:
    """Have other packages learn of calor, now or when they are imported."""
    for name, follower in _AFTER.items():
        if name in sys.modules:
            import_module(follower)
    sys.meta_path.insert(0, _Watch())
