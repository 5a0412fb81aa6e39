"""The engine of an open device: its tuner, its plans for new sizes, and what core asks of it.

Requirements: no capability is declared by hand. A missing one has a reason that users understand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Final

from calor import dtypes
from calor.backends.protocol import FULL, NOT_YET, Info, State, Tuned, impossible, partial
from calor.dtypes import DType, float32, float64, uint8, uint16
from calor.errors import DeviceLostError
from calor.ops.base import TABLE
from calor.plugins.discovery import fusers as installed_fusers
from calor_kernel.contract.cost import Ceilings
from calor_kernel.contract.fuser import Fuser
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.movement import MOVEMENTS
from calor_kernel.contract.work import LOWERINGS
from calor_kernel.device.protocol import Device
from calor_kernel.library.attention import CacheFuser, DeltaFuser
from calor_kernel.library.fft import ModesFuser
from calor_kernel.library.indexing import EmbeddingBagFuser
from calor_kernel.library.sort import SortFuser
from calor_kernel.planning import engine
from calor_kernel.planning.compiling import STRUCTURAL
from calor_kernel.planning.flows import FLOWS
from calor_kernel.planning.lowering import Lowerings, load_families
from calor_kernel.planning.replanning import Replanning
from calor_kernel.runtime.autotune import Tuner, deterministic
from calor_kernel.runtime.ceilings import measured

# The dtypes for computing with a dtype that the device does not support itself.
_STANDS_FOR: Final[Mapping[DType, tuple[DType, ...]]] = {
    dtypes.float16: (float32, uint16),
    dtypes.bfloat16: (float32, uint16),
    dtypes.complex64: (float32,),
    dtypes.complex128: (float64,),
    dtypes.float8_e4m3fn: (float32, uint8),
    dtypes.float8_e5m2: (float32, uint8),
}
# Dtypes computed in float32 that have its subnormals.
_FLUSHED: Final = frozenset((float32, dtypes.bfloat16, dtypes.complex64))


class Engine(engine.Engine):
    """A device with everything needed to run graphs on it."""

    tuner: Tuner
    replanning: Replanning

    def __init__(self, device: Device, fusers: Sequence[Fuser] | None = None) -> None:
        load_families()
        super().__init__(device)
        self.own_fusers = fusers
        self.deterministic = deterministic()
        self.tuner = Tuner(self)
        self.lowerings = Lowerings(device.info, self.tuner.wants)
        self.replanning = Replanning(self)

    @cached_property
    def fusers(self) -> tuple[Fuser, ...]:
        """The library's own, without which ops would do what is not needed, and others."""
        others = installed_fusers().values() if self.own_fusers is None else self.own_fusers
        own = SortFuser(), ModesFuser(), CacheFuser(), DeltaFuser(), EmbeddingBagFuser()
        return (*own, *others)

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Name the ops that ran last in a device error that is detected only now."""
        try:
            yield
        except DeviceLostError as error:
            if error.op is None and self.last is not None:
                error.op = self.last.named
            raise

    def synchronize(self) -> None:
        """Wait for all work, and raise the first error since the last wait that nobody received."""
        with self.naming():
            self.queue.synchronize()
            failed = self.board.settle()
        if failed is not None:
            raise failed

    @contextmanager
    def tuning(self, seconds: float) -> Iterator[Tuned]:
        """Time the candidates of all tasks planned in a context, for at most ``seconds``."""
        self.forget()
        try:
            with self.tuner.timing(seconds) as tuned:
                yield tuned
        finally:
            self.forget()

    def forget(self) -> None:
        """Forget what depends on the fusers, on which ops want candidates, and on their choice."""
        self.lowerings.forget()
        self.replanning.forget()
        self.bodies.clear()
        self.body_refusals.clear()
        self.flow_refusals.clear()
        self.staged = None
        for name in ("coverings", "drafts"):
            self.__dict__.pop(name, None)

    @cached_property
    def ceilings(self) -> Ceilings:
        """The device's peak rates, measured on first use."""
        return measured(self, self.tuner.lines)

    @cached_property
    def described(self) -> Info:
        return _described(self)

    def restart(self) -> None:
        """Resume in a forked child."""
        self.device.restart()
        self.pool.unlock()
        self.kernels.unlock()
        self.replanning.unlock()


def _described(engine: Engine) -> Info:
    info = engine.device.info
    known = {*STRUCTURAL, *FLOWS, *LOWERINGS, *MOVEMENTS}
    host = FULL if engine.host_memory else impossible("the device has memory of its own")
    return Info(
        description=info.description,
        dtypes={d: _dtype(d, info) for d in dtypes.ALL},
        features={
            "interactive": FULL,
            "dynamic_shapes": FULL,
            "in_place": FULL,
            "control_flow": FULL,
            "host_views": host,
            "dlpack": FULL if engine.device.exchange is not None else host,
            "serialize": FULL,
            "memory_limit": FULL,
            "fork": FULL if info.has("fork") else impossible("its driver does not survive a fork"),
            "collectives": FULL if info.has("links") else impossible("it has no links to others"),
            "quantized_only": impossible("it runs graphs of every dtype that it has"),
        },
        ops={n: NOT_YET for n, op in TABLE.items() if n not in known and op.decompose is None},
        limits={"max_buffer_bytes": info.max_buffer_bytes},
        flushes=_FLUSHED if info.flushes else frozenset(),
    )


def _dtype(dtype: DType, info: DeviceInfo) -> State:
    if dtype in _FLUSHED and info.flushes and float32 in info.dtypes:
        return partial("numbers below 1.2e-38 may be taken for zeros")
    if dtype in info.dtypes:
        return FULL
    parts = _STANDS_FOR.get(dtype)
    if parts is not None and all(d in info.dtypes for d in parts):
        return FULL
    missing = dtype if parts is None else next(d for d in parts if d not in info.dtypes)
    return impossible(f"the device does not compute with {missing.name}")
