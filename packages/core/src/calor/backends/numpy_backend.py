"""The reference backend: NumPy, op by op.

It is the meaning of calor rather than its speed: each op runs its row's ``reference``. Memory is
counted and can be limited, so that running out of it is testable everywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from calor.backends.op_table import OpTable, OpTableExecutable, Sharing
from calor.backends.protocol import FULL, Buffer, Info, MemoryFigures, impossible
from calor.counting import ONE_AT_A_TIME, count
from calor.errors import OutOfMemoryError
from calor.graph.graph import Graph
from calor.graph.op import TABLE
from calor.specs import Spec
from calor.units import bytes_text

Array = np.ndarray[Any, Any]


class Memory:
    """Byte counts of one device; the buffers report to it."""

    __slots__ = ("in_use", "limit", "peak")

    def __init__(self) -> None:
        self.in_use = 0
        self.peak = 0
        self.limit: int | None = None


class NumpyBuffer:
    """An array that calor owns. A view held outside (``numpy()``, DLPack) marks it exported."""

    __slots__ = ("__weakref__", "array", "memory", "nbytes", "owner")

    def __init__(self, array: Array, memory: Memory) -> None:
        self.array = array
        # Views of a view refer to the array at its root, so their number is read there.
        self.owner = array if array.base is None else _root(array)
        self.memory = memory
        self.nbytes = array.nbytes
        # The peak was raised when the memory was reserved.
        if ONE_AT_A_TIME:
            memory.in_use += self.nbytes
        else:
            count(memory, self.nbytes)

    # Names of modules are gone when the last tensors of a process go; those of classes are not.
    _alone: ClassVar = ONE_AT_A_TIME
    _count: ClassVar = staticmethod(count)

    def __del__(self) -> None:
        if self._alone:
            self.memory.in_use -= self.nbytes
        else:
            self._count(self.memory, -self.nbytes)

    @property
    def exported(self) -> bool:
        """True while a view of the array lives outside."""
        return sys.getrefcount(self.owner) > _UNSHARED


class SharedBuffer(NumpyBuffer):
    """A host array that somebody else made; they may look at it, or write to it, at any time.

    Its memory is theirs, and not counted.
    """

    __slots__ = ()

    exported = True

    def __init__(self, array: Array, memory: Memory) -> None:
        super().__init__(array, memory)
        count(memory, -self.nbytes)

    def __del__(self) -> None:
        """Leave the count as it is."""


def _root(array: Array) -> Array:
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    return base


# Two references of the buffer (``owner``, and ``array`` or its base), and the question's own.
_UNSHARED = (lambda b: sys.getrefcount(b.owner))(NumpyBuffer(np.zeros(1), Memory()))


# Which references return views of their first operand.
_VIEWS: Mapping[str, Sharing] = MappingProxyType(
    {
        "expand": "always",
        "permute": "always",
        "slice": "always",
        "dynamic_slice": "always",
        "flip": "always",
        "real": "always",
        "imag": "always",
        "reshape": "maybe",
        "bitcast": "maybe",
        "cast": "maybe",
        "conj": "maybe",
        "round": "maybe",
    }
)


def _full(*, shape: tuple[int, ...], **attributes: Any) -> Array:
    """Return an array of one number in the memory of one element, read-only."""
    one = TABLE["full"].reference(shape=(), **attributes)  # type: ignore[misc]
    return np.broadcast_to(one, shape)


class NumpyBackend(OpTable):
    """The reference backend, one device named ``numpy:0``."""

    name = "numpy"
    views = _VIEWS
    constants = frozenset(("full", "constant"))

    def __init__(self) -> None:
        self._memory = Memory()
        self._table: dict[str, Callable[..., Any]] = {}
        self._rows = 0
        self._info = Info(
            description=f"NumPy {np.__version__} on the host, the reference",
            features={
                "interactive": FULL,
                "dynamic_shapes": FULL,
                "control_flow": FULL,
                "in_place": FULL,
                "host_views": FULL,
                "dlpack": FULL,
                "serialize": FULL,
                "memory_limit": FULL,
                "fork": FULL,
                "collectives": impossible("there is one host"),
                "quantized_only": impossible("it runs graphs of every dtype"),
            },
        )

    def enumerate(self) -> int:
        """Return 1: the host."""
        return 1

    def info(self, index: int) -> Info:
        """Return the reference's description; every dtype and op is full."""
        return self._info

    def table(self, index: int) -> Mapping[str, Callable[..., Any]]:
        """Return the references of the op table; rows added later are picked up."""
        if self._rows != len(TABLE):
            self._table = {n: r.reference for n, r in TABLE.items() if r.reference is not None}
            self._table["full"] = _full
            self._rows = len(TABLE)
        return self._table

    def reserve(self, index: int, nbytes: int) -> None:
        """Raise OutOfMemoryError when the limit would be passed."""
        memory = self._memory
        total = memory.in_use + nbytes
        if memory.limit is not None and total > memory.limit:
            raise OutOfMemoryError(
                f"{self.name}:{index} needs {bytes_text(nbytes)}, but "
                f"{bytes_text(memory.in_use)} of its limit of {bytes_text(memory.limit)} are in "
                f"use; free tensors, or raise the limit with calor.set_memory_limit"
            )
        memory.peak = max(memory.peak, total)

    def enter(self, index: int, given: Any, spec: Spec) -> Array:
        """Return a buffer's array, or a host number as an array of the spec's dtype."""
        if isinstance(given, NumpyBuffer):
            return given.array
        return np.asarray(given, spec.dtype.numpy)

    def own(self, index: int, values: Sequence[Any], inputs: Sequence[Any]) -> list[Array]:
        """Return each array itself when it is fresh, dense and alone on its memory, else a copy."""
        taken = {id(array if array.base is None else _root(array)) for array in inputs}
        owned: list[Array] = []
        for value in values:
            array = value if type(value) is np.ndarray else np.asarray(value)
            if array.base is None:
                root = array
                fit = array.flags.carray
            else:
                root = _root(array)
                fit = array.flags.carray and root.nbytes == array.nbytes and root.flags.owndata
            if not fit or id(root) in taken:
                array = root = array.copy(order="C")
            taken.add(id(root))
            owned.append(array)
        return owned

    def leave(self, index: int, value: Array, spec: Spec, into: Buffer | None) -> Buffer:
        """Wrap the array, or copy it into the given buffer."""
        if into is None:
            return NumpyBuffer(value, self._memory)
        assert isinstance(into, NumpyBuffer)
        into.array[...] = value
        return into

    def compile(self, index: int, graph: Graph) -> OpTableExecutable:
        """Prepare the list of calls."""
        return NumpyExecutable(self, index, graph)

    def upload(self, index: int, array: Array) -> Buffer:
        """Copy a host array."""
        self.reserve(index, array.nbytes)
        return NumpyBuffer(np.array(array, order="C", copy=True), self._memory)

    def adopt(self, index: int, array: Array) -> Buffer:
        """Share a host array's memory."""
        return SharedBuffer(array, self._memory)

    def download(self, index: int, buffer: Any, spec: Spec) -> Array:
        """Return a read-only view of the buffer."""
        view: Array = buffer.array.view()
        view.flags.writeable = False
        return view

    def copy(self, index: int, buffer: Any, spec: Spec, target: int) -> Buffer:
        """Copy a buffer."""
        return self.upload(target, buffer.array)

    def synchronize(self, index: int) -> None:
        """Return at once: every call is finished when it returns."""

    def memory(self, index: int) -> MemoryFigures:
        """Return the counts of the host device."""
        memory = self._memory
        return MemoryFigures(memory.in_use, memory.peak, memory.limit)

    def set_memory_limit(self, index: int, limit: int | None) -> None:
        """Set the limit that ``reserve`` enforces."""
        self._memory.limit = limit

    def serialize(self, index: int, executable: Any) -> bytes:
        """Return the graph's file form: compiling it again costs nothing."""
        from calor.graph.file import save

        return save(executable.graph)

    def deserialize(self, index: int, data: bytes) -> OpTableExecutable:
        """Compile the stored graph."""
        from calor.graph.file import load

        return self.compile(index, load(data))

    def dlpack(self, index: int, buffer: Any, spec: Spec, **options: Any) -> Any:
        """Return NumPy's capsule of the array, read-only where the consumer can be told so."""
        version = options.get("max_version")
        tells = version is not None and version[0] >= 1
        array = self.download(index, buffer, spec) if tells else buffer.array.view()
        return array.__dlpack__(**options)


class NumpyExecutable(OpTableExecutable):
    """Runs op by op; NaN and infinity are results here, not reasons for NumPy's warnings."""

    def __call__(
        self, inputs: Sequence[Any], into: Sequence[Buffer | None] | None = None
    ) -> list[Buffer]:
        """Run op by op, as OpTableExecutable does."""
        with np.errstate(all="ignore"):
            return OpTableExecutable.__call__(self, inputs, into)
