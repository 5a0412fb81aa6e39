"""The door to calor-train: where it is installed, ``calor.train`` is ``calor_train``."""

import sys

from calor.errors import PluginError

try:
    import calor_train
except ModuleNotFoundError as error:
    if error.name != "calor_train":
        raise
    raise PluginError('calor.train is not installed; pip install "calor[train]"') from None

sys.modules[__name__] = calor_train
