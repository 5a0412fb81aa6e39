"""Memory, devices and assigned nodes in ONNX Runtime's terms.

Requirements: programs that query devices and the memory of inputs and outputs get answers in ONNX
Runtime's classes. A request for a device's stream is an error.
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
    """Purpose of a device's memory.

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.OrtMemType.DEFAULT.value
    0
    """

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtAllocatorType(IntEnum):
    """Kind of allocator; calor's memory pools allocate in any case.

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.OrtAllocatorType.ORT_ARENA_ALLOCATOR.value
    1
    """

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtDeviceMemoryType(IntEnum):
    """Whether the host can access memory of a device.

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.OrtDeviceMemoryType.HOST_ACCESSIBLE.value
    5
    """

    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtDeviceVendorId(IntEnum):
    """PCI number of a device's vendor.

    Examples
    --------
    >>> import calor_onnx
    >>> hex(calor_onnx.OrtDeviceVendorId.NVIDIA)
    '0x10de'
    """

    NONE = 0
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


class OrtHardwareDeviceType(IntEnum):
    """Kind of processor.

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.OrtHardwareDeviceType.GPU.value
    1
    """

    CPU = 0
    GPU = 1
    NPU = 2


class OrtMemoryInfoDeviceType(IntEnum):
    """Kind of processor, in the numbering of memory.

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.OrtMemoryInfoDeviceType.NPU.value
    3
    """

    CPU = 0
    GPU = 1
    FPGA = 2
    NPU = 3


class OrtExecutionProviderDevicePolicy(IntEnum):
    """Rule that selects a device for a session without providers.

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.OrtExecutionProviderDevicePolicy.PREFER_GPU.value
    3
    """

    DEFAULT = 0
    PREFER_CPU = 1
    PREFER_NPU = 2
    PREFER_GPU = 3
    MAX_PERFORMANCE = 4
    MAX_EFFICIENCY = 5
    MIN_OVERALL_POWER = 6


class OrtMemoryInfo:
    """Description of a memory.

    Parameters
    ----------
    name : str
        Kind of device, such as "Cpu" or "CUDA".
    allocator_type : int
        An OrtAllocatorType.
    device_id : int
        Number of the device.
    mem_type : int, default 0
        An OrtMemType.

    Examples
    --------
    >>> import calor_onnx
    >>> info = calor_onnx.OrtMemoryInfo("Cpu", calor_onnx.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0)
    >>> info.device_id
    0
    """

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
    """Settings of an arena. They are stored and have no effect; calor's pools choose their size.

    Parameters
    ----------
    max_mem : int
        Ignored.
    arena_extend_strategy : int
        Ignored.
    initial_chunk_size_bytes : int
        Ignored.
    max_dead_bytes_per_chunk : int
        Ignored.
    initial_growth_chunk_size_bytes : int
        Ignored.
    max_power_of_two_extend_bytes : int
        Ignored.

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.OrtArenaCfg(max_mem=1 << 30).max_mem
    1073741824
    """

    max_mem: int = 0
    arena_extend_strategy: int = -1
    initial_chunk_size_bytes: int = -1
    max_dead_bytes_per_chunk: int = -1
    initial_growth_chunk_size_bytes: int = -1
    max_power_of_two_extend_bytes: int = -1


@dataclass(frozen=True)
class OrtHardwareDevice:
    """A processor. Vendor and device numbers are not filled in.

    Parameters
    ----------
    type : OrtHardwareDeviceType
        Kind of processor.
    vendor : str
        Always empty.
    vendor_id : int
        Always 0.
    device_id : int
        Always 0.
    metadata : dict of str
        Name and description of calor's device.

    Examples
    --------
    >>> import calor_onnx
    >>> {found.device.type.name for found in calor_onnx.get_ep_devices()} >= {"CPU"}
    True
    """

    type: OrtHardwareDeviceType
    vendor: str = ""
    vendor_id: int = 0
    device_id: int = 0
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OrtEpDevice:
    """A provider with its device.

    Parameters
    ----------
    ep_name : str
        Name of the provider.
    device : OrtHardwareDevice
        The device.
    ep_vendor : str
        Always "calor".
    ep_metadata : dict of str
        Always empty.
    ep_options : dict of str
        Always empty.

    Examples
    --------
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
        """Return the memory of the device.

        Parameters
        ----------
        memory_type : int, default 0
            An OrtDeviceMemoryType.

        Returns
        -------
        OrtMemoryInfo
            The memory.
        """
        made = memory_of(self.ep_name)
        made.device_mem_type = OrtDeviceMemoryType(memory_type)
        return made

    def create_sync_stream(self, stream_options: Any = None) -> Any:
        """Raise an error: calor does not expose streams of a device.

        Parameters
        ----------
        stream_options : object, default None
            Ignored.

        Raises
        ------
        NotImplemented
            Always.
        """
        raise faults.NotImplemented(
            "calor-onnx exposes no streams of a device; wait with calor.synchronize(device)"
        )


@dataclass(frozen=True)
class OrtEpAssignedNode:
    """A node of a model's graph.

    Parameters
    ----------
    name : str
        Name of the node.
    domain : str
        Domain of the operator.
    op_type : str
        Name of the operator.

    Examples
    --------
    >>> import calor_onnx, onnx
    >>> proto = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 17]>
    ...     double (float[N] x) => (float[N] y) { y = Add (x, x) }''')
    >>> session = calor_onnx.InferenceSession(proto.SerializeToString())
    >>> session.get_provider_graph_assignment_info()[0].get_nodes()[0].op_type
    'Add'
    """

    name: str
    domain: str
    op_type: str


@dataclass(frozen=True)
class OrtEpAssignedSubgraph:
    """The nodes that a provider runs.

    Parameters
    ----------
    ep_name : str
        Name of the provider.
    nodes : sequence of OrtEpAssignedNode
        All nodes of the graph.

    Examples
    --------
    >>> import calor_onnx, onnx
    >>> proto = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 17]>
    ...     double (float[N] x) => (float[N] y) { y = Add (x, x) }''')
    >>> session = calor_onnx.InferenceSession(proto.SerializeToString())
    >>> [len(part.nodes) for part in session.get_provider_graph_assignment_info()]
    [1]
    """

    ep_name: str
    nodes: Sequence[OrtEpAssignedNode]

    def get_nodes(self) -> list[OrtEpAssignedNode]:
        """Return the nodes.

        Returns
        -------
        list of OrtEpAssignedNode
            The nodes.
        """
        return [*self.nodes]


def get_ep_devices() -> list[OrtEpDevice]:
    """Return the available providers with their devices, the fastest first.

    Returns
    -------
    list of OrtEpDevice
        One entry for each provider.

    Examples
    --------
    >>> import calor_onnx
    >>> "CPUExecutionProvider" in {found.ep_name for found in calor_onnx.get_ep_devices()}
    True
    """
    return [ep_device(name, chosen([name], None)[1]) for name in get_available_providers()]


def ep_device(provider: str, device: Device) -> OrtEpDevice:
    """Return a provider with its device."""
    kind = OrtHardwareDeviceType.CPU if provider == CPU else OrtHardwareDeviceType.GPU
    metadata = {"name": device.name, "description": device.info.description}
    return OrtEpDevice(provider, OrtHardwareDevice(kind, metadata=metadata))


def memory_of(provider: str, number: int = 0) -> OrtMemoryInfo:
    """Return the memory of a provider's device."""
    name = "Cpu" if provider == CPU else provider.removesuffix("ExecutionProvider")
    return OrtMemoryInfo(name, OrtAllocatorType.ORT_ARENA_ALLOCATOR, number)


def preferred(policy: int) -> str:
    """Return the available provider that a policy selects."""
    here = get_available_providers()
    cpu = {
        OrtExecutionProviderDevicePolicy.PREFER_CPU,
        OrtExecutionProviderDevicePolicy.MAX_EFFICIENCY,
        OrtExecutionProviderDevicePolicy.MIN_OVERALL_POWER,
    }
    return CPU if OrtExecutionProviderDevicePolicy(policy) in cpu else here[0]


def create_and_register_allocator(mem_info: OrtMemoryInfo, arena_cfg: Any = None) -> None:
    """Do nothing: all sessions share calor's memory pools.

    Parameters
    ----------
    mem_info : OrtMemoryInfo
        Ignored.
    arena_cfg : OrtArenaCfg, default None
        Ignored.

    Examples
    --------
    >>> import calor_onnx
    >>> info = calor_onnx.OrtMemoryInfo("Cpu", calor_onnx.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0)
    >>> calor_onnx.create_and_register_allocator(info)
    """


def create_and_register_allocator_v2(
    provider_type: str, mem_info: OrtMemoryInfo, options: Any = None, arena_cfg: Any = None
) -> None:
    """Do nothing: all sessions share calor's memory pools.

    Parameters
    ----------
    provider_type : str
        Ignored.
    mem_info : OrtMemoryInfo
        Ignored.
    options : dict, default None
        Ignored.
    arena_cfg : OrtArenaCfg, default None
        Ignored.

    Examples
    --------
    >>> import calor_onnx
    >>> info = calor_onnx.OrtMemoryInfo("Cpu", calor_onnx.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0)
    >>> calor_onnx.create_and_register_allocator_v2("CPUExecutionProvider", info)
    """
