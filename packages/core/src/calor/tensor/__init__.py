"""The Tensor and its methods."""

import sys
from types import ModuleType
from typing import NoReturn


class _Package(ModuleType):
    """This package; calling it, as PyTorch's ``torch.tensor``, says what to call instead."""

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError("calor.tensor is a package; make a tensor with calor.asarray(data)")


sys.modules[__name__].__class__ = _Package
