"""Memory, devices and assigned nodes as ONNX Runtime describes them.

Requirements: programs that ask which devices there are, and where inputs and outputs lie, get an
answer in ONNX Runtime's classes; what would hand out streams of a device is refused by its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from calor.backends.device import Device
from calor_onnx.session import faults
from calor_onnx.session.providers import CPU, chosen, get_available_providers


class OrtMemType(IntEnum):
    """What memory of a device is for."""

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtAllocatorType(IntEnum):
    """How memory is allocated; here by calor's pools."""

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtDeviceMemoryType(IntEnum):
    """Whether the host can reach memory of a device."""

    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtDeviceVendorId(IntEnum):
    """Who made a device."""

    NONE = 0
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


class OrtHardwareDeviceType(IntEnum):
    """Kinds of processors."""

    CPU = 0
    GPU = 1
    NPU = 2


class OrtMemoryInfoDeviceType(IntEnum):
    """Kinds of processors, in the numbers that memory has for them."""

    CPU = 0
    GPU = 1
    FPGA = 2
    NPU = 3


class OrtExecutionProviderDevicePolicy(IntEnum):
    """Which device a session takes when no provider is named."""

    DEFAULT = 0
    PREFER_CPU = 1
    PREFER_NPU = 2
    PREFER_GPU = 3
    MAX_PERFORMANCE = 4
    MAX_EFFICIENCY = 5
    MIN_OVERALL_POWER = 6


class OrtMemoryInfo:
    """Which memory: the name of its kind of device, the device's number, what it is for."""

    def __init__(
        self, name: str, allocator_type: int, device_id: int, mem_type: int = OrtMemType.DEFAULT
    ) -> None:
        self.name = name
        self.allocator_type = OrtAllocatorType(allocator_type)
        self.device_id = device_id
        self.mem_type = OrtMemType(mem_type)
        self.device_mem_type = OrtDeviceMemoryType.DEFAULT
        self.device_vendor_id = 0


@dataclass(frozen=True)
class OrtArenaCfg:
    """Settings of an arena, which are kept and change nothing: calor's pools size themselves."""

    max_mem: int = 0
    arena_extend_strategy: int = -1
    initial_chunk_size_bytes: int = -1
    max_dead_bytes_per_chunk: int = -1
    initial_growth_chunk_size_bytes: int = -1
    max_power_of_two_extend_bytes: int = -1


@dataclass(frozen=True)
class OrtHardwareDevice:
    """A processor; calor does not ask for the numbers of its maker."""

    type: OrtHardwareDeviceType
    vendor: str = ""
    vendor_id: int = 0
    device_id: int = 0
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OrtEpDevice:
    """A provider with a device of calor's that it stands for.

    >>> import calor_onnx
    >>> [found.device.type.name for found in calor_onnx.get_ep_devices()
    ...  if found.ep_name == "CPUExecutionProvider"]
    ['CPU']
    """

    ep_name: str
    device: OrtHardwareDevice
    ep_vendor: str = "calor"
    ep_metadata: dict[str, str] = field(default_factory=dict)
    ep_options: dict[str, str] = field(default_factory=dict)

    def memory_info(self, memory_type: int = OrtDeviceMemoryType.DEFAULT) -> OrtMemoryInfo:
        """Return the memory of the device."""
        made = memory_of(self.ep_name)
        made.device_mem_type = OrtDeviceMemoryType(memory_type)
        return made

    def create_sync_stream(self, stream_options: Any = None) -> Any:
        """Raise NotImplemented: a device's order of work is calor's own."""
        raise faults.NotImplemented(
            "calor-onnx gives out no stream of a device; calor.synchronize(device) waits for it"
        )


@dataclass(frozen=True)
class OrtEpAssignedNode:
    """A node of a model's graph."""

    name: str
    domain: str
    op_type: str


@dataclass(frozen=True)
class OrtEpAssignedSubgraph:
    """The nodes that a provider computes; here one computes all."""

    ep_name: str
    nodes: Sequence[OrtEpAssignedNode]

    def get_nodes(self) -> list[OrtEpAssignedNode]:
        """Return the nodes."""
        return [*self.nodes]


def get_ep_devices() -> list[OrtEpDevice]:
    """Return each provider that is here with its device, the fastest first."""
    return [ep_device(name, chosen([name], None)[1]) for name in get_available_providers()]


def ep_device(provider: str, device: Device) -> OrtEpDevice:
    """Return a provider with a device."""
    kind = OrtHardwareDeviceType.CPU if provider == CPU else OrtHardwareDeviceType.GPU
    metadata = {"name": device.name, "description": device.info.description}
    return OrtEpDevice(provider, OrtHardwareDevice(kind, metadata=metadata))


def memory_of(provider: str, number: int = 0) -> OrtMemoryInfo:
    """Return the memory of a provider's device."""
    name = "Cpu" if provider == CPU else provider.removesuffix("ExecutionProvider")
    return OrtMemoryInfo(name, OrtAllocatorType.ORT_ARENA_ALLOCATOR, number)


def preferred(policy: int) -> str:
    """Return the provider that a policy takes among those that are here."""
    here = get_available_providers()
    cpu = {
        OrtExecutionProviderDevicePolicy.PREFER_CPU,
        OrtExecutionProviderDevicePolicy.MAX_EFFICIENCY,
        OrtExecutionProviderDevicePolicy.MIN_OVERALL_POWER,
    }
    return CPU if OrtExecutionProviderDevicePolicy(policy) in cpu else here[0]


def create_and_register_allocator(mem_info: OrtMemoryInfo, arena_cfg: Any = None) -> None:
    """Do nothing: memory is that of calor's pools, which all sessions share."""


def create_and_register_allocator_v2(
    provider_type: str, mem_info: OrtMemoryInfo, options: Any = None, arena_cfg: Any = None
) -> None:
    """Do nothing: memory is that of calor's pools, which all sessions share."""
