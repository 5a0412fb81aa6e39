"""calor: tensors, gradients and compiled graphs on any device."""

from calor.backends.selection import on_device as device
from calor.dtypes import *  # noqa: F403
from calor.functions.creation import asarray, full, ones, zeros
from calor.functions.reductions import sum
from calor.tensor.tensor import Tensor
from calor.transforms.records import enable_grad, no_grad
from calor import tree
