"""The token that keeps what a device does beside computing in one order.

Requirements: a token is a tensor without contents that is state. What has an effect reads it and
gives it a new value, so no pass removes or reorders it, within a program and across programs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.functions.creation import asarray
from calor.recording.tracing import outside


def token_of(device: Any) -> Any:
    """Return the token of a device, made outside of any trace."""
    if device.token is None:
        with outside():
            device.token = asarray(np.zeros((), np.int32), device=device)
    return device.token
