"""Options of sessions and runs: which have a meaning here, and which have none.

calor chooses kernels, fuses and plans memory on its own, so the settings of ONNX Runtime's engine
are accepted, kept, and change nothing: ``enable_cpu_mem_arena``, ``enable_mem_pattern``,
``enable_mem_reuse``, ``execution_mode``, ``execution_order``, ``graph_optimization_level``,
``inter_op_num_threads``, ``intra_op_num_threads`` (the number of threads belongs to the device and
the process: CALOR_CPU_THREADS), ``use_per_session_threads``, logging. An attribute that ONNX
Runtime does not have is refused, as there. What would change results and is not supported raises.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Any

from calor_onnx.session import faults
from calor_onnx.session.absent import ADAPTER, COMPILER, refused
from calor_onnx.session.hardware import OrtEpDevice, get_ep_devices, preferred


class GraphOptimizationLevel(IntEnum):
    """How much ONNX Runtime would rewrite a graph; calor's clean-up does not depend on it."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Whether ONNX Runtime would run nodes side by side; calor's plans decide that."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """In which order ONNX Runtime would run nodes; calor's plans decide that."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class _Entries:
    """Configuration by key and value, which is kept and read back."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[str, str] = {}


class SessionOptions(_Entries):
    """Options of a session, see the module for what they mean.

    >>> import calor_onnx
    >>> options = calor_onnx.SessionOptions()
    >>> options.intra_op_num_threads = 1
    """

    __slots__ = (
        "_optimized",
        "_profiling",
        "cancelled",
        "enable_cpu_mem_arena",
        "enable_mem_pattern",
        "enable_mem_reuse",
        "execution_mode",
        "execution_order",
        "files",
        "graph_optimization_level",
        "initializers",
        "inter_op_num_threads",
        "intra_op_num_threads",
        "log_severity_level",
        "log_verbosity_level",
        "logid",
        "profile_file_prefix",
        "providers",
        "select",
        "use_deterministic_compute",
        "use_per_session_threads",
    )

    def __init__(self) -> None:
        super().__init__()
        self.enable_cpu_mem_arena = True
        self.enable_mem_pattern = True
        self.enable_mem_reuse = True
        self._profiling = False
        self.execution_mode: Any = ExecutionMode.ORT_SEQUENTIAL
        self.execution_order: Any = ExecutionOrder.DEFAULT
        self.graph_optimization_level: Any = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.inter_op_num_threads = 0
        self.intra_op_num_threads = 0
        self.log_severity_level = -1
        self.log_verbosity_level = 0
        self.logid = ""
        self._optimized = ""
        self.profile_file_prefix = "onnxruntime_profile_"
        self.use_deterministic_compute = False
        self.use_per_session_threads = True
        # Values that stand for initializers of the model.
        self.initializers: dict[str, Any] = {}
        # Contents of files of weights, by the names that the model has for them.
        self.files: dict[str, Any] = {}
        # Names of providers with their options, and what chooses one where none is named.
        self.providers: list[tuple[str, dict[str, Any]]] = []
        self.select: Callable[[], str] | None = None
        self.cancelled = False

    @property
    def enable_profiling(self) -> bool:
        """Whether a profile is asked for; there is none here, which a warning says."""
        return self._profiling

    @enable_profiling.setter
    def enable_profiling(self, value: bool) -> None:
        if value:
            warnings.warn(
                "calor-onnx writes no profile of a session; use calor's own timing", stacklevel=2
            )
        self._profiling = value

    @property
    def optimized_model_filepath(self) -> str:
        """Where a rewritten model is asked for; none is written here, which a warning says."""
        return self._optimized

    @optimized_model_filepath.setter
    def optimized_model_filepath(self, value: str) -> None:
        if value:
            warnings.warn(
                "calor-onnx writes no optimized model; load the file as it is, which is simplified "
                "each time",
                stacklevel=2,
            )
        self._optimized = value

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keep an entry; none has a meaning here."""
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """Return an entry that was added; KeyError where none was."""
        return self._entries[key]

    def add_initializer(self, name: str, value: Any) -> None:
        """Give an initializer of the model another value, an OrtValue."""
        self.initializers[name] = value

    def add_external_initializers(self, names: list[str], values: list[Any]) -> None:
        """Give initializers of the model the values of OrtValues."""
        self.initializers.update(zip(names, values, strict=True))

    def add_external_initializers_from_files_in_memory(
        self, names: Sequence[str], buffers: Sequence[Any], lengths: Sequence[int]
    ) -> None:
        """Give the contents of files of weights, by the names that the model has for them."""
        for name, buffer, length in zip(names, buffers, lengths, strict=True):
            self.files[name] = memoryview(buffer).cast("B")[:length]

    def add_provider(self, name: str, options: Mapping[str, str]) -> None:
        """Add a provider, which counts where the session is given none."""
        self.providers.append((name, dict(options)))

    def add_provider_for_devices(
        self, devices: Sequence[OrtEpDevice], options: Mapping[str, str]
    ) -> None:
        """Add the provider of devices, all of one provider; :func:`get_ep_devices` has them."""
        names = {device.ep_name for device in devices}
        if len(names) != 1:
            raise faults.InvalidArgument(
                f"devices of one provider are wanted, not of {', '.join(sorted(names)) or 'none'}"
            )
        self.add_provider(names.pop(), options)

    def has_providers(self) -> bool:
        """Return whether a provider was added, or something that chooses one."""
        return bool(self.providers) or self.select is not None

    def set_provider_selection_policy(self, policy: int) -> None:
        """Choose among the devices that are here: the fastest, or the CPU where that is meant."""
        self.select = partial(preferred, policy)

    def set_provider_selection_policy_delegate(self, delegate: Callable[..., Any]) -> None:
        """Let ``delegate(devices, model_metadata, runtime_metadata, most)`` choose devices.

        The session takes the first of those that it returns.
        """

        def select() -> str:
            found = delegate(get_ep_devices(), {}, {}, 1)
            if not found:
                raise faults.Fail("the delegate that chooses among devices has chosen none")
            return str(found[0].ep_name)

        self.select = select

    def set_load_cancellation_flag(self, is_cancel: bool) -> None:
        """With True a session that is made with these options raises Fail."""
        self.cancelled = is_cancel

    def set_ep_context_data_read_func(self, read_func: Any, max_data_size: int) -> None:
        """Raise NotImplemented: there are no compiled models to be read here."""
        raise refused("set_ep_context_data_read_func", COMPILER)

    def clear_ep_context_data_read_func(self) -> None:
        """Do nothing: there is none."""

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Do nothing: graphs are compiled for the sizes that inputs have."""

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Do nothing: graphs are compiled for the sizes that inputs have."""

    def register_custom_ops_library(self, path: str) -> None:
        """Raise NotImplemented: operators of one's own are written in Python here."""
        raise faults.NotImplemented(
            f"calor-onnx does not load {path}, a library of operators for ONNX Runtime; define its "
            f"operators with @calor_onnx.operator(name, domain=...)"
        )


class RunOptions(_Entries):
    """Options of one run: with ``terminate`` it raises Fail; the others change nothing."""

    __slots__ = (
        "log_severity_level",
        "log_verbosity_level",
        "logid",
        "only_execute_path_to_fetches",
        "terminate",
    )

    def __init__(self) -> None:
        super().__init__()
        self.log_severity_level = -1
        self.log_verbosity_level = 0
        self.logid = ""
        self.only_execute_path_to_fetches = False
        self.terminate = False

    def check(self) -> None:
        """Raise Fail where runs are to end."""
        if self.terminate:
            raise faults.Fail(
                "Exiting due to terminate flag being set to true; set terminate = False to run"
            )

    def add_active_adapter(self, adapter: Any) -> None:
        """Raise NotImplemented: weights are changed before a model is loaded."""
        raise refused("add_active_adapter", ADAPTER)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keep an entry; none has a meaning here."""
        self._entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """Return an entry that was added; KeyError where none was."""
        return self._entries[key]
