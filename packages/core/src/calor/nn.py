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
# The modules inside have this name too, so that importing them by it makes no second copy.
for _name in [name for name in sys.modules if name.startswith("calor_nn.")]:
    sys.modules[_name.replace("calor_nn", __name__, 1)] = sys.modules[_name]
