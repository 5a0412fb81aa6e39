"""Methods that ops declare with their rows: each is the function itself."""

from __future__ import annotations

from calor.functions import error_functions, logarithms, signals
from calor.functions.rows import METHODS
from calor.tensor.tensor import Tensor, with_methods

MODULES = (error_functions, logarithms, signals)

with_methods(type("DeclaredMethods", (Tensor,), {"__slots__": (), **METHODS}))
