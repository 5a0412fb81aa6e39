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
from enum import IntEnum
from typing import Any

from calor_onnx.session import faults


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
        "enable_cpu_mem_arena",
        "enable_mem_pattern",
        "enable_mem_reuse",
        "execution_mode",
        "execution_order",
        "graph_optimization_level",
        "initializers",
        "inter_op_num_threads",
        "intra_op_num_threads",
        "log_severity_level",
        "log_verbosity_level",
        "logid",
        "profile_file_prefix",
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

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keep an entry; none has a meaning here."""
        self._entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """Return an entry that was added; KeyError where none was."""
        return self._entries[key]
