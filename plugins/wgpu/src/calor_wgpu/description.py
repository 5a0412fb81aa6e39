"""What an adapter says of itself and what it is seen to do, as a dialect and a DeviceInfo.

Requirements: what an adapter lists is read; what WGSL leaves to it (whether fma rounds once, how
many units are in lock step) is seen in the results of a kernel, when the device is opened.
"""

from __future__ import annotations

import os
from typing import Any, Final

import numpy as np
import wgpu

from calor.dtypes import ALL, bfloat16, float16, float64, int64, uint64
from calor_kernel.runtime.device import DeviceInfo

from ._bindings import STORAGE, module
from .wgsl import MOST_CUBES, WGSL

_UNITS: Final = 1024  # of a cube at most: beyond, registers are the limit
_CORES: Final = 32  # of a GPU, which does not say
_CACHE: Final = 1 << 17

# Of x = 1 + 2**-12 the square's last bit is lost in a product, and kept in an fma. A small number
# is lost in a sum with a large one, unless the compiler takes the large one off again. Mesa's
# software device ends loops after 65535 turns.
_TURNS: Final = 1 << 17
_PROBE: Final = """
@group(0) @binding(0) var<storage, read_write> seen: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) at: u32{parameter}) {{
  if (at == 0u) {{
    let x = seen[0];
    seen[1] = fma(x, x, seen[2]);
    seen[3] = f32({size});
    seen[4] = x * x + seen[2];
    let sum = seen[5] + seen[6];
    seen[7] = sum - seen[6];
    var turns = 0u;
    for (var i = 0u; i < {turns}u; i++) {{ turns += u32(seen[0]); }}
    seen[2] = f32(turns);
  }}
}}
"""


def probe(device: Any, number: int) -> tuple[bool, str, bool, int]:
    """Return whether fma rounds once, what the compiler changes, whether it ends loops.

    And the units of a plane.

    That is 1 where there are no planes.
    """
    planes = "subgroup" in device.features
    parameter = ", @builtin(subgroup_size) size: u32" if planes else ""
    text = _PROBE.format(turns=_TURNS, parameter=parameter, size="size" if planes else "1u")
    x = np.float32(1 + 2.0**-12)
    given = np.array([x, 0, -(x * x), 0, 0, 0.25, 2.0**24, 0], np.float32)
    buffer = device.create_buffer_with_data(data=given, usage=STORAGE)
    shader = {"module": module(number, text, "probe"), "entry_point": "main"}
    pipeline = device.create_compute_pipeline(layout="auto", compute=shader)
    entries = [{"binding": 0, "resource": {"buffer": buffer, "offset": 0, "size": 32}}]
    group = device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
    encoder = device.create_command_encoder()
    commands = encoder.begin_compute_pass()
    commands.set_pipeline(pipeline)
    commands.set_bind_group(0, group)
    commands.dispatch_workgroups(1)
    commands.end()
    device.queue.submit([encoder.finish()])
    found = np.frombuffer(device.queue.read_buffer(buffer), np.float32)
    changes = "reassociates" if found[7] != 0 else "contracts" if found[4] != 0 else ""
    return bool(found[1] != 0), changes, bool(found[2] < _TURNS), int(found[3])


def language(device: Any, number: int) -> tuple[WGSL, int]:
    """Return the dialect of a device, and the units of its planes."""
    features, limits = device.features, device.limits
    fused, changes, limited, plane = probe(device, number)
    wide = "shader-int64" in features
    info = device.adapter.info
    # One size of planes is sure where the adapter has no other, or is a processor's.
    single = info["adapter_type"] == "CPU" or (
        info["stackgroup_min_size"] == info["stackgroup_max_size"]
    )
    plane = plane if single else 1
    dialect = WGSL(
        wide=wide,
        double=wide and "shader-f64" in features,
        fused=fused,
        changes=changes,
        limited=limited,
        atomics_64=wide and "shader-int64-atomic-all-ops" in features,
        subgroups=plane > 1,
        buffers=limits["max-storage-buffers-per-shader-stage"],
        shared_bytes=limits["max-compute-workgroup-storage-size"],
    )
    return dialect, plane


def describe(device: Any, dialect: WGSL, plane: int) -> DeviceInfo:
    """Return what kernels and their choice depend on."""
    limits, info = device.limits, device.adapter.info
    units = min(limits["max-compute-invocations-per-workgroup"], _UNITS)
    optional = {
        "atomics_64": dialect.atomics_64,
        "fma": dialect.fused,
        "planes": plane > 1,
    }
    features = {"barrier", "atomics", "float_atomics", *(f for f, has in optional.items() if has)}
    computed = {t for t in ALL if t.kind in ("bool", "int", "uint", "float")}
    computed -= {float16, bfloat16}
    computed -= set() if dialect.wide else {int64, uint64}
    computed -= set() if dialect.double else {float64}
    cpu = info["adapter_type"] == "CPU"
    x, y, z = (limits[f"max-compute-workgroup-size-{axis}"] for axis in "xyz")
    binding = min(limits["max-storage-buffer-binding-size"], limits["max-buffer-size"])
    return DeviceInfo(
        description=f"{info['device']} ({info['backend_type']})",
        dtypes=frozenset(computed),
        features=frozenset(features),
        vector_bytes=16,
        max_units=units,
        max_cube=(min(x, units), min(y, units), min(z, units)),
        planes=(plane,),
        shared_bytes=dialect.shared_bytes,
        cores=(os.cpu_count() or 1) if cpu else _CORES,
        caches=(_CACHE,),
        max_cubes=(2**31 - 1, MOST_CUBES, MOST_CUBES),
        # Of a larger piece a binding shows a part, in which a value of this size is whole.
        max_buffer_bytes=binding // 2 // 64 * 64,
        align=max(64, limits["min-storage-buffer-offset-alignment"]),
        native={"driver": info["description"], "wgpu": wgpu.__version__},
    )
