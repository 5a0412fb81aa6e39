"""Devices of another machine: a server of devices, and the client that makes them calor's.

``python -m calor_http serve --devices cuda:0`` serves devices over HTTP, and
``calor.device("https://host:8470/cuda:0")`` is one of them, like any other device: graphs are sent
once, tensors live on the server, and calls do not wait. `keep` lets uploads survive a restart of
the server; `LeaseLostError` tells what was lost.
"""

from calor_http.client.copies import close, keep
from calor_http.errors import (
    DrainingError,
    LeaseLostError,
    LimitError,
    MemoryQuotaError,
    QuotaError,
    TokenError,
    TokenExpiredError,
)

__all__ = [
    "DrainingError",
    "LeaseLostError",
    "LimitError",
    "MemoryQuotaError",
    "QuotaError",
    "TokenError",
    "TokenExpiredError",
    "close",
    "keep",
]
