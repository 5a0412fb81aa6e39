"""Methods that ops declare with their rows: each is the function itself."""

from __future__ import annotations

from calor.functions import declared
from calor.functions.rows import METHODS
from calor.tensor.tensor import Tensor, with_methods

_unnamed = set(METHODS) - set(declared.NAMES)
assert not _unnamed, f"name {sorted(_unnamed)} in the __all__ of the modules that declare them"
with_methods(type("DeclaredMethods", (Tensor,), {"__slots__": (), **METHODS}))
