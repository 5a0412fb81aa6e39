"""ONNX Runtime with products of bytes that do not saturate, which tests compare with.

On processors of x86-64 without VNNI, ONNX Runtime adds pairs of uint8 x int8 products in 16 bits,
which saturate. Its session option "session.x64quantprecision" makes constant int8 weights uint8,
whose products are exact; so int8 inputs become constants of the model there.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime


def expected_of(model: bytes, feed: Mapping[str, Any]) -> Any:
    """Return the outputs of a model by ONNX Runtime, with exact products of bytes."""
    fixed = {name: x for name, x in feed.items() if saturates() and x.dtype == np.int8 and x.ndim}
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(with_constants(model, fixed), options)
    return session.run(None, {name: x for name, x in feed.items() if name not in fixed})


def with_constants(model: bytes, fixed: Mapping[str, Any]) -> bytes:
    """Return a model some of whose inputs are constants."""
    if not fixed:
        return model
    proto = onnx.load_from_string(model)
    kept = [info for info in proto.graph.input if info.name not in fixed]
    del proto.graph.input[:]
    proto.graph.input.extend(kept)
    made = [onnx.numpy_helper.from_array(x, name) for name, x in fixed.items()]
    proto.graph.initializer.extend(made)
    return bytes(proto.SerializeToString())


@cache
def saturates() -> bool:
    """Return whether this processor is an x86-64 without VNNI."""
    flags = Path("/proc/cpuinfo")
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    return x86 and flags.exists() and "vnni" not in flags.read_text("utf-8")
