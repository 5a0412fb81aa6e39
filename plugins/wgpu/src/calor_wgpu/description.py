"""What an adapter says of itself and what it is seen to do, as a dialect and a DeviceInfo.

Requirements: what an adapter lists is read; what WGSL leaves to it (whether fma rounds once, how
many units are in lock step) is seen in the results of a kernel, when the device is opened.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import wgpu

from calor.dtypes import ALL, bfloat16, float16, float64, int64, uint64
from calor_kernel.runtime.device import DeviceInfo

from ._bindings import STORAGE, module
from .wgsl import MOST_CUBES, WGSL

_UNITS: Final = 1024  # of a cube at most: beyond, registers are the limit
# Cores of a GPU, which does not say.
_CORES: Final = MappingProxyType({"DiscreteGPU": 80, "IntegratedGPU": 16})
_CACHE: Final = 1 << 17

# A compiler may contract a * b + c, take x for (x + large) - large, round quotients and roots
# as it likes, and take the smallest numbers for zeros; Mesa's software device ends loops after
# 65535 turns.
_TURNS: Final = 1 << 17
_UNITS_SEEN: Final = 64
_PROBE: Final = """
@group(0) @binding(0) var<storage, read_write> seen: array<vec4<f32>>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) at: u32{parameter}) {{
  let given = seen[at];
  let product = given.x * given.y;
  let near = (given.x + 16777216.0f) - 16777216.0f;
  seen[at + 64u] = vec4<f32>(given.x / given.y, sqrt(given.x), product + given.z, near);
  var turns = 0u;
  if (at == 0u) {{
    for (var i = 0u; i < {turns}u; i++) {{ turns += u32(given.w); }}
  }}
  let fused = fma(given.x, given.y, given.z);
  seen[at + 128u] = vec4<f32>(fused, f32(turns), f32({size}), given.w * 1e-40f);
}}
"""
# Vendors whose planes have 32 units, whatever else their drivers list.
_OF_32: Final = frozenset((0x10DE, 0x106B))


@dataclass(frozen=True, slots=True)
class Seen:
    """What a device was seen to do; ``plane`` is 1 where there are none."""

    fused: bool
    changes: str
    rounded: bool
    flushes: bool
    limited: bool
    plane: int


def probe(device: Any, number: int) -> Seen:
    """Return what a device does with a few numbers."""
    planes = "subgroup" in device.features
    parameter = ", @builtin(subgroup_size) size: u32" if planes else ""
    text = _PROBE.format(turns=_TURNS, parameter=parameter, size="size" if planes else "1u")
    x, y = np.random.default_rng(0).uniform(1, 2, (2, _UNITS_SEEN)).astype(np.float32)
    data = np.zeros((3, _UNITS_SEEN, 4), np.float32)
    data[0] = np.stack([x, y, -(x * y), np.ones_like(x)], axis=1)
    buffer = device.create_buffer_with_data(data=data, usage=STORAGE)
    shader = {"module": module(number, text, "probe"), "entry_point": "main"}
    pipeline = device.create_compute_pipeline(layout="auto", compute=shader)
    entries = [{"binding": 0, "resource": {"buffer": buffer, "offset": 0, "size": data.nbytes}}]
    group = device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
    encoder = device.create_command_encoder()
    commands = encoder.begin_compute_pass()
    commands.set_pipeline(pipeline)
    commands.set_bind_group(0, group)
    commands.dispatch_workgroups(1)
    commands.end()
    device.queue.submit([encoder.finish()])
    found = np.frombuffer(device.queue.read_buffer(buffer), np.float32).reshape(data.shape)
    quotient, root, contracted, near = found[1].T
    large = np.float32(2.0**24)
    changes = "reassociates" if (near != (x + large) - large).any() else ""
    return Seen(
        fused=bool(found[2, :, 0].any()),
        changes=changes or ("contracts" if contracted.any() else ""),
        rounded=bool((quotient == x / y).all() and (root == np.sqrt(x)).all()),
        flushes=not found[2, :, 3].any(),
        limited=bool(found[2, 0, 1] < _TURNS),
        plane=int(found[2, 0, 2]),
    )


def language(device: Any, number: int) -> tuple[WGSL, int]:
    """Return the dialect of a device, and the units of its planes."""
    features, limits, seen = device.features, device.limits, probe(device, number)
    wide = "shader-int64" in features
    info = device.adapter.info
    # One size of planes is sure where the adapter has no other, or is known to have none.
    single = info["adapter_type"] == "CPU" or info["vendor_id"] in _OF_32
    single = single or info["stackgroup_min_size"] == info["stackgroup_max_size"]
    plane = seen.plane if single else 1
    dialect = WGSL(
        wide=wide,
        double=wide and "shader-f64" in features,
        fused=seen.fused,
        changes=seen.changes,
        rounded=seen.rounded,
        flushes=seen.flushes,
        limited=seen.limited,
        atomics_64=wide and "shader-int64-atomic-all-ops" in features,
        float_atomics="shader-float32-atomic" in features,
        subgroups=plane > 1,
        diverges="subgroup-barrier" in features and info["adapter_type"] != "CPU",
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
        cores=_CORES.get(info["adapter_type"], os.cpu_count() or 1),
        caches=(_CACHE,),
        max_cubes=(2**31 - 1, MOST_CUBES, MOST_CUBES),
        # Of a larger piece a binding shows a part, in which a value of this size is whole.
        max_buffer_bytes=binding // 2 // 64 * 64,
        align=max(64, limits["min-storage-buffer-offset-alignment"]),
        native={"driver": info["description"], "wgpu": wgpu.__version__},
    )
