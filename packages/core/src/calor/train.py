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
# The modules inside have this name too, so that importing them by it makes no second copy.
for _name in [name for name in sys.modules if name.startswith("calor_train.")]:
    sys.modules[_name.replace("calor_train", __name__, 1)] = sys.modules[_name]
