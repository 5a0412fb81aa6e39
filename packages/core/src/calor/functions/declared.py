"""The modules that declare ops beside their functions; ``calor`` exports what each of them names.

Type checkers read the imports alone: an export that is computed hides every name from them.
"""

from typing import TYPE_CHECKING

from calor.functions import error_functions, logarithms, signals
from calor.functions.error_functions import *  # noqa: F403
from calor.functions.logarithms import *  # noqa: F403
from calor.functions.signals import *  # noqa: F403

_MODULES = (error_functions, logarithms, signals)
NAMES = [name for module in _MODULES for name in module.__all__]

if not TYPE_CHECKING:
    __all__ = NAMES
