"""The door to calor-nn: where it is installed, ``calor.nn`` is the package ``calor_nn``."""

import sys

from calor.errors import PluginError

try:
    import calor_nn
except ModuleNotFoundError as error:
    if error.name != "calor_nn":
        raise
    raise PluginError('calor.nn is not installed; pip install "calor[nn]"') from None

sys.modules[__name__] = calor_nn
