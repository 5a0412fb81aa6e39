"""Options of sessions and runs.

calor chooses kernels, fusion and memory itself. These settings of ONNX Runtime's engine are
accepted, stored, and have no effect: ``enable_cpu_mem_arena``, ``enable_mem_pattern``,
``enable_mem_reuse``, ``execution_mode``, ``execution_order``, ``graph_optimization_level``,
``inter_op_num_threads``, ``intra_op_num_threads`` (CALOR_CPU_THREADS sets the number of threads of
the process), ``use_per_session_threads``, and logging. As in ONNX Runtime, an unknown attribute is
an error. An unsupported setting that would change results raises an error.
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
    """Level of ONNX Runtime's graph optimization; calor's simplification does not depend on it.

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.GraphOptimizationLevel.ORT_ENABLE_ALL.value
    99
    """

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """ONNX Runtime's parallel execution of nodes; calor's plans decide instead.

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.ExecutionMode.ORT_PARALLEL.value
    1
    """

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """ONNX Runtime's order of nodes; calor's plans decide instead.

    Examples
    --------
    >>> import calor_onnx
    >>> calor_onnx.ExecutionOrder.MEMORY_EFFICIENT.value
    2
    """

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class _Entries:
    """Configuration entries by key, which are stored and can be read back."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[str, str] = {}


class SessionOptions(_Entries):
    """Options of a session; see the module for the settings without effect.

    Examples
    --------
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
        # Values that replace initializers of the model.
        self.initializers: dict[str, Any] = {}
        # Contents of files of weights, by their names in the model.
        self.files: dict[str, Any] = {}
        # Names of providers with their options, and a function that selects one without them.
        self.providers: list[tuple[str, dict[str, Any]]] = []
        self.select: Callable[[], str] | None = None
        self.cancelled = False

    @property
    def enable_profiling(self) -> bool:
        """Whether a profile is requested. None is written; setting it to True warns."""
        return self._profiling

    @enable_profiling.setter
    def enable_profiling(self, value: bool) -> None:
        if value:
            warnings.warn(
                "calor-onnx writes no profile of a session; measure with calor's timing functions",
                stacklevel=2,
            )
        self._profiling = value

    @property
    def optimized_model_filepath(self) -> str:
        """Path for a rewritten model. None is written; setting a path warns."""
        return self._optimized

    @optimized_model_filepath.setter
    def optimized_model_filepath(self, value: str) -> None:
        if value:
            warnings.warn(
                "calor-onnx writes no optimized model; load the original file, which is simplified "
                "at each load",
                stacklevel=2,
            )
        self._optimized = value

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Store a configuration entry; no entry has an effect.

        Parameters
        ----------
        key : str
            The key.
        value : str
            The value.
        """
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """Return a stored configuration entry.

        Parameters
        ----------
        key : str
            The key.

        Returns
        -------
        str
            The value.

        Raises
        ------
        KeyError
            If there is no such entry.
        """
        return self._entries[key]

    def add_initializer(self, name: str, value: Any) -> None:
        """Replace the value of an initializer.

        Parameters
        ----------
        name : str
            Name of the initializer.
        value : OrtValue
            The new value.
        """
        self.initializers[name] = value

    def add_external_initializers(self, names: list[str], values: list[Any]) -> None:
        """Replace the values of initializers.

        Parameters
        ----------
        names : list of str
            Names of the initializers.
        values : list of OrtValue
            The new values.

        Raises
        ------
        ValueError
            If names and values differ in number.
        """
        self.initializers.update(zip(names, values, strict=True))

    def add_external_initializers_from_files_in_memory(
        self, names: Sequence[str], buffers: Sequence[Any], lengths: Sequence[int]
    ) -> None:
        """Give the contents of files of weights, so that they are not read from disk.

        Parameters
        ----------
        names : sequence of str
            Names of the files, as in the model.
        buffers : sequence of bytes-like
            Their contents.
        lengths : sequence of int
            Their lengths in bytes.

        Raises
        ------
        ValueError
            If the sequences differ in length.
        """
        for name, buffer, length in zip(names, buffers, lengths, strict=True):
            self.files[name] = memoryview(buffer).cast("B")[:length]

    def add_provider(self, name: str, options: Mapping[str, str]) -> None:
        """Add a provider for sessions without their own.

        Parameters
        ----------
        name : str
            Name of the provider.
        options : mapping of str
            Options of the provider.
        """
        self.providers.append((name, dict(options)))

    def add_provider_for_devices(
        self, devices: Sequence[OrtEpDevice], options: Mapping[str, str]
    ) -> None:
        """Add the provider of devices for sessions without their own.

        Parameters
        ----------
        devices : sequence of OrtEpDevice
            Devices of one provider, from :func:`get_ep_devices`.
        options : mapping of str
            Options of the provider.

        Raises
        ------
        InvalidArgument
            If the devices belong to several providers or there are none.
        """
        names = {device.ep_name for device in devices}
        if len(names) != 1:
            raise faults.InvalidArgument(
                f"the devices belong to {', '.join(sorted(names)) or 'no provider'}; pass devices "
                f"of one provider"
            )
        self.add_provider(names.pop(), options)

    def has_providers(self) -> bool:
        """Return whether a provider was added or a selection policy was set.

        Returns
        -------
        bool
            True if so.
        """
        return bool(self.providers) or self.select is not None

    def set_provider_selection_policy(self, policy: int) -> None:
        """Select a device by a policy: the CPU if the policy prefers it, else the fastest.

        Parameters
        ----------
        policy : int
            An OrtExecutionProviderDevicePolicy.
        """
        self.select = partial(preferred, policy)

    def set_provider_selection_policy_delegate(self, delegate: Callable[..., Any]) -> None:
        """Let a function select the device.

        Parameters
        ----------
        delegate : callable
            Called as ``delegate(devices, model_metadata, runtime_metadata, most)`` when a session
            is created. It returns a list of devices; the session takes the first.

        Raises
        ------
        Fail
            If the function returns an empty list; the new session raises it.
        """

        def select() -> str:
            found = delegate(get_ep_devices(), {}, {}, 1)
            if not found:
                raise faults.Fail(
                    "the selection delegate returned no device; return at least one of its argument"
                )
            return str(found[0].ep_name)

        self.select = select

    def set_load_cancellation_flag(self, is_cancel: bool) -> None:
        """Cancel or allow the loading of models with these options.

        Parameters
        ----------
        is_cancel : bool
            With True, a new session raises Fail.
        """
        self.cancelled = is_cancel

    def set_ep_context_data_read_func(self, read_func: Any, max_data_size: int) -> None:
        """Raise an error: calor-onnx reads no compiled models.

        Parameters
        ----------
        read_func : object
            Ignored.
        max_data_size : int
            Ignored.

        Raises
        ------
        NotImplemented
            Always.
        """
        raise refused("set_ep_context_data_read_func", COMPILER)

    def clear_ep_context_data_read_func(self) -> None:
        """Do nothing: there is no such function."""

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Do nothing: graphs are compiled for the sizes of the given inputs.

        Parameters
        ----------
        name : str
            Ignored.
        size : int
            Ignored.
        """

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Do nothing: graphs are compiled for the sizes of the given inputs.

        Parameters
        ----------
        denotation : str
            Ignored.
        size : int
            Ignored.
        """

    def register_custom_ops_library(self, path: str) -> None:
        """Raise an error: custom operators are Python functions, see :func:`calor_onnx.operator`.

        Parameters
        ----------
        path : str
            Path of the library.

        Raises
        ------
        NotImplemented
            Always.
        """
        raise faults.NotImplemented(
            f"calor-onnx cannot load {path}, a library of operators for ONNX Runtime; define the "
            f"operators in Python with @calor_onnx.operator(name, domain=...)"
        )


class RunOptions(_Entries):
    """Options of one run. With ``terminate`` the run raises Fail; the others have no effect.

    Examples
    --------
    >>> import calor_onnx
    >>> options = calor_onnx.RunOptions()
    >>> options.terminate = True
    """

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
        """Check whether a run is allowed.

        Raises
        ------
        Fail
            If ``terminate`` is set.
        """
        if self.terminate:
            raise faults.Fail(
                "Exiting due to terminate flag being set to true; set terminate = False to run"
            )

    def add_active_adapter(self, adapter: Any) -> None:
        """Raise an error: adapters are applied before a model is loaded.

        Parameters
        ----------
        adapter : object
            Ignored.

        Raises
        ------
        NotImplemented
            Always.
        """
        raise refused("add_active_adapter", ADAPTER)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Store a configuration entry; no entry has an effect.

        Parameters
        ----------
        key : str
            The key.
        value : str
            The value.
        """
        self._entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """Return a stored configuration entry.

        Parameters
        ----------
        key : str
            The key.

        Returns
        -------
        str
            The value.

        Raises
        ------
        KeyError
            If there is no such entry.
        """
        return self._entries[key]
