"""The protocol's names of element types, and the NumPy types of the same elements.

References
----------
Open Inference Protocol, "Tensor Data Types",
https://github.com/kserve/open-inference-protocol
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

import numpy as np

from calor import dtypes
from calor_http.model.errors import Refused

HostType = np.dtype[Any]

DATATYPES: Final = MappingProxyType(
    {
        "BOOL": dtypes.bool_.numpy,
        "UINT8": dtypes.uint8.numpy,
        "UINT16": dtypes.uint16.numpy,
        "UINT32": dtypes.uint32.numpy,
        "UINT64": dtypes.uint64.numpy,
        "INT8": dtypes.int8.numpy,
        "INT16": dtypes.int16.numpy,
        "INT32": dtypes.int32.numpy,
        "INT64": dtypes.int64.numpy,
        "FP16": dtypes.float16.numpy,
        "BF16": dtypes.bfloat16.numpy,
        "FP32": dtypes.float32.numpy,
        "FP64": dtypes.float64.numpy,
    }
)
_NAMES: Final = {host: name for name, host in DATATYPES.items()}
_BYTES: Final = "BYTES"


def datatype_of(host: HostType) -> str | None:
    """Return the protocol's name of an element type; None where it has none.

    >>> import numpy as np
    >>> from calor_http.model.datatypes import datatype_of
    >>> datatype_of(np.dtype(np.float32)), datatype_of(np.dtype(np.complex64))
    ('FP32', None)
    """
    return _NAMES.get(host)


def host_type_of(datatype: object) -> HostType:
    """Return the NumPy type that a request names; Refused for a name without one."""
    found = DATATYPES.get(datatype) if isinstance(datatype, str) else None
    if found is not None:
        return found
    if datatype == _BYTES:
        raise Refused(
            400, "BYTES are not taken: models here compute with numbers; send one of their types"
        )
    known = ", ".join(DATATYPES)
    raise Refused(400, f"{str(datatype)[:40]!r} is no datatype; take one of {known}")
