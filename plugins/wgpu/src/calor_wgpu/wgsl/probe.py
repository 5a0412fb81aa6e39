"""A WGSL kernel that tests a device's arithmetic."""

from __future__ import annotations

from typing import Final

from calor_wgpu.probes.arithmetic import LARGE, TURNS, UNITS

_TEXT: Final = """
@group(0) @binding(1) var<storage, read_write> seen: array<vec4<f32>>;
@compute @workgroup_size({units})
fn main(@builtin(local_invocation_index) at: u32{parameter}) {{
  let given = seen[at];
  let small = seen[at + {units}u].x;
  let product = given.x * given.y;
  let near = (given.x + {large:.1f}f) - {large:.1f}f;
  seen[at + {units}u] = vec4<f32>(given.x / given.y, sqrt(given.x), product + given.z, near);
  var turns = 0u;
  if (at == 0u) {{
    for (var i = 0u; i < {turns}u; i++) {{ turns += u32(given.w); }}
  }}
  let fused = fma(given.x, given.y, given.z);
  seen[at + 2 * {units}u] = vec4<f32>(fused, f32(turns), f32({size}), given.w * small);
}}
"""


def probe(planes: bool) -> str:
    """Return the text of the kernel; ``planes`` says whether the device has them."""
    parameter = ", @builtin(subgroup_size) size: u32" if planes else ""
    size = "size" if planes else "1u"
    return _TEXT.format(units=UNITS, large=LARGE, turns=TURNS, parameter=parameter, size=size)
