"""Tests what WGSL leaves undefined: reads beyond a buffer, and the extremes of two zeros.

Requirements: only robust access of the second version (VK_EXT_robustness2) promises zeros beyond a
buffer, and wgpu does not tell which one a device has. Kernels read at the indices that kernels use
beyond their memory, one word and four at once. All data are read from memory, so no compiler knows
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from calor_wgpu._bindings import compute
from calor_wgpu.passes import BEYOND

_OTHER: Final = 7
_COUNT: Final = 16
_MINUS: Final = 1 << 31  # the bits of -0
_WORDS: Final = """
@group(0) @binding(1) var<storage, read_write> seen: array<u32>;
@compute @workgroup_size(1)
fn main() {{
  let minus = bitcast<f32>(seen[1]);
  let plus = bitcast<f32>(seen[2]);
  seen[4] = bitcast<u32>(max(minus, plus));
  seen[5] = bitcast<u32>(max(plus, minus));
  seen[6] = bitcast<u32>(min(minus, plus));
  seen[7] = bitcast<u32>(min(plus, minus));
  seen[8] = seen[{index}];
}}
"""
_VECTORS: Final = """
@group(0) @binding(1) var<storage, read_write> seen: array<vec4<u32>>;
@compute @workgroup_size(1)
fn main() {
  seen[2] = seen[seen[0].x];
}
"""


@dataclass(frozen=True, slots=True)
class Undefined:
    """``zeros``: reads beyond a buffer give zeros. ``extremes``: −0 is below +0 for min and max."""

    zeros: bool
    extremes: bool


def seen(number: int, robust: bool) -> Undefined:
    """Return what a device does; ``robust``: reads beyond a buffer do no harm."""
    words = _run(number, _WORDS.format(index="seen[0]" if robust else "3"), BEYOND)
    zeros = robust and not words[8] and not _run(number, _VECTORS, BEYOND // 4)[8:12].any()
    return Undefined(zeros, words[4:8].tolist() == [0, 0, _MINUS, _MINUS])


def _run(number: int, text: str, index: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    data = np.full(_COUNT, _OTHER, np.uint32)
    data[:3] = index, _MINUS, 0
    return np.frombuffer(compute(number, text, data.tobytes()), np.uint32)
