"""The door to calor-nn: where it is installed, ``calor.nn`` is the package ``calor_nn``."""

import sys
from typing import TYPE_CHECKING

from calor.errors import PluginError

if TYPE_CHECKING:
    from calor_nn import *  # noqa: F403 - what type checkers and editors see

try:
    import calor_nn
except ModuleNotFoundError as error:
    if error.name != "calor_nn":
        raise
    raise PluginError('calor.nn is not installed; pip install "calor[nn]"') from None

sys.modules[__name__] = calor_nn
