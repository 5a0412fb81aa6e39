"""Tables that depend on sizes alone, as constants of the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calor.device_selection import as_device
from calor.ops.sources import HostArray, constant

if TYPE_CHECKING:
    from calor.tensor.tensor import Tensor


def constant_table(array: np.ndarray[Any, Any], device: Any) -> Tensor:
    """Return a host array that depends on sizes alone as a constant of the graph."""
    with as_device(device):
        made: Tensor = constant(array=HostArray.of(array), weak=False)
    return made


def constant_indices(array: np.ndarray[Any, Any], device: Any) -> Tensor:
    """Return indices that depend on sizes alone as a constant of the graph, in int64."""
    return constant_table(array.astype(np.int64), device)
