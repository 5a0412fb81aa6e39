"""The library's answer to the planner: the launches of an op, and their memory.

A family sees views (buffer, offset, shape, strides), so data movement is free. A launch
is data; its kernel is identified by its build arguments, so equal kernels are compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from math import prod
from typing import Any

from calor.config import HIGHEST
from calor.dtypes import DType, int64
from calor.interning import remember
from calor.precision import rounds
from calor.specs import Spec
from calor_kernel.contract.choices import greatest
from calor_kernel.contract.failures import Failure
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.ir.nodes import Kernel
from calor_kernel.ir.passes.beside import Beside
from calor_kernel.ir.passes.cubes import COUNTS, fold_cubes
from calor_kernel.ir.passes.early import with_early_reads
from calor_kernel.ir.passes.guard import GUARD, guard
from calor_kernel.ir.passes.mixed import mixed
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language.kernel import KernelFunction


@dataclass(frozen=True, slots=True)
class View:
    """Elements of a buffer; ``offset`` and ``strides`` are in elements and may be negative or 0."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    offset: int = 0

    @staticmethod
    def dense(spec: Spec) -> View:
        """Return the row-major view of a whole buffer."""
        return View(spec.shape, row_major(spec.shape), spec.dtype)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def is_dense(self) -> bool:
        """Whether the elements are contiguous in row-major order (from any offset)."""
        step = 1
        for n, s in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if n != 1 and s != step:
                return self.size == 0
            step *= n
        return True

    def pitched(self, length: int, pitch: int) -> View | None:
        """Return the view of the same elements of memory whose lines get a pitch.

        The lines have ``length`` elements. None if an axis of the view runs across their ends.

        >>> from calor.dtypes import float32
        >>> View((4, 2, 3), (6, 3, 1), float32, 6).pitched(3, 8).strides
        (16, 8, 1)
        >>> View((24,), (1,), float32).pitched(3, 8)
        """
        strides, end = [], self.offset % length
        for n, s in zip(self.shape, self.strides, strict=True):
            lines, rest = divmod(s, length)
            if n > 1 and (s < 0 or (rest and lines)):
                return None
            strides.append(s if n == 1 or not lines else lines * pitch)
            end += 0 if n == 1 or lines else (n - 1) * s
        if end >= length:
            return None
        offset = self.offset // length * pitch + self.offset % length
        return View(self.shape, tuple(strides), self.dtype, offset)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a dense array in elements."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


@dataclass(frozen=True, slots=True)
class Build:
    """The arguments that build a kernel; equal builds are one kernel, also across processes.

    ``keywords`` are the build-time arguments: numbers, text, dtypes, tuples of those, module-level
    functions and frozen dataclasses of all these; their ``repr`` is part of the key on disk.
    ``counts``: the number of parameters in each declared tuple. ``beside``: the launches side by
    side, hidden from the kernel function. ``folded``: whether the grid of all axes is launched
    along x and y; the last three numbers of the signature are then the cubes along each axis,
    hidden too. ``guarded``: whether the launch does nothing unless a word is 0, which is then the
    last parameter, also hidden. ``mixed``: the builds of unlike launches, whose arguments follow
    each other; the function and keywords beside it only tell the build apart.
    """

    function: KernelFunction
    signature: tuple[Buffer | Scalar, ...]
    keywords: tuple[tuple[str, Any], ...] = ()
    cube: tuple[int, int, int] = (1, 1, 1)
    plane: int = 1
    index: DType = int64
    folded: bool = False
    counts: tuple[int, ...] = ()
    beside: Beside | None = None
    guarded: bool = False
    mixed: Mixed | None = None

    def kernel(self, features: frozenset[str] = frozenset()) -> Kernel:
        """Build the kernel's IR."""
        made = self._made(features) if self.mixed is None else self.mixed.kernel(features)
        made = fold_cubes(made) if self.folded else made
        return with_early_reads(guard(made) if self.guarded else made)

    def _made(self, features: frozenset[str]) -> Kernel:
        """Build the kernel without what a recording adds."""
        hidden = len(COUNTS) * self.folded + self.guarded
        signature = self.signature[: len(self.signature) - hidden]
        if self.beside is not None:
            signature = tuple(same[0] for same in self.beside.gathered(signature))
        made = self.function.build(
            signature,
            cube=self.cube,
            plane=self.plane,
            index=self.index,
            features=features,
            counts=self.counts,
            **dict(self.keywords),
        )
        return made if self.beside is None else self.beside.kernel(made)


@dataclass(frozen=True, slots=True)
class Mixed:
    """Launches of several kernels in one (:mod:`calor_kernel.ir.passes.mixed`).

    ``deep``: which of them have cubes along y or z.
    """

    builds: tuple[Build, ...]
    deep: tuple[bool, ...]

    def kernel(self, features: frozenset[str]) -> Kernel:
        """Build the kernel's IR."""
        return mixed([build.kernel(features) for build in self.builds], self.deep)


# Guarded builds by the identity of a build, which families keep. It is held beside them.
_GUARDED: dict[int, tuple[Build, Build]] = {}


@dataclass(frozen=True, slots=True)
class Input:
    """A buffer argument: an operand's buffer, from a given element.

    The operand itself begins at its view's offset, which is often not 0.
    """

    number: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Output:
    """A buffer argument: a result's buffer, from a given element."""

    number: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Scratch:
    """A buffer argument: scratch memory of the op, from a given element."""

    number: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Status:
    """A buffer argument: one int32, which is 0 before the launch.

    On an error the kernel stores the number of one of its work's ``failures``, counted from 1, in
    the low bits, and a number that caused it above them (:mod:`calor_kernel.contract.failures`). If
    several cubes store at the same time, one word remains.
    """


@dataclass(frozen=True, slots=True)
class Guard:
    """A buffer argument: the word of a guarded launch, which is 0 unless the run failed."""


@dataclass(frozen=True, slots=True)
class Flags:
    """A buffer argument: ``count`` words of uint32, which are 0 before and after the launch.

    Cubes use them to signal progress. A launch resets the words that it set, so no clearing launch
    is needed, also when a recorded list runs again. All launches of a plan share the same words,
    from a given one.
    """

    count: int
    offset: int = 0


Argument = Input | Output | Scratch | Status | Guard | Flags | int | float


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: a kernel, the cubes, and an argument per parameter.

    ``flops`` and ``nbytes`` are lower bounds of the work and traffic, for profiles and the
    roofline. ``label`` names family and blueprint. ``copies``: the number of the operand if the
    launch only copies that operand to the result; the launch is omitted when the op runs in place.
    ``prepares``: the launch writes only scratch memory, as a function of at most one operand and of
    constants. Its result can be cached while that operand is unchanged. ``alone``: the kernel is
    never computed beside others of its kind, because the host makes tensor maps of its arguments.
    ``loop`` and ``moves`` are those of :class:`calor_kernel.device.protocol.Step`.
    """

    build: Build
    cubes: tuple[int, int, int]
    arguments: tuple[Argument, ...]
    flops: int = 0
    nbytes: int = 0
    label: str = ""
    copies: int | None = None
    prepares: bool = False
    alone: bool = False
    loop: tuple[int, int] | None = None
    moves: tuple[tuple[int, int], ...] = ()

    def guarded(self) -> Launch:
        """Return the launch that does nothing in a failed run."""
        known = _GUARDED.get(id(self.build))
        if known is None:
            plain, signature = self.build, (*self.build.signature, GUARD)
            made = plain, replace(plain, signature=signature, guarded=True)
            known = remember(_GUARDED, id(plain), made)
        return replace(self, build=known[1], arguments=(*self.arguments, Guard()))


@dataclass(frozen=True, slots=True)
class Work:
    """The launches of an op. ``scratch``: the bytes of each scratch block.

    Results are dense, or have the request's pitches, and begin at element 0 of their buffers.
    Launches run in order; each sees the writes of the earlier ones. ``in_place``: pairs (operand,
    result) of the same size that may share memory, because each element of the operand is read only
    by the writer of the result's element, before the write; valid for an operand that lies as the
    result does. ``failures``: the errors that Status encodes, with their messages.

    ``variant``: distinguishes this candidate from the family's others; it is the same at similar
    sizes, so stored tuning results apply. ``group``: the priority; the tuner times group 0 first,
    and a later group only if the earlier ones leave something to gain. ``way``: the row of the
    family's table that made it (:class:`calor_kernel.contract.ways.Way`).
    """

    launches: tuple[Launch, ...]
    scratch: tuple[int, ...] = ()
    in_place: tuple[tuple[int, int], ...] = ()
    failures: tuple[Failure, ...] = ()
    variant: str = ""
    group: int = 0
    way: object = None


@dataclass(frozen=True, slots=True)
class Dropped:
    """A rejected candidate, with the reason in words for the person who tunes."""

    variant: str
    reason: str


class Candidates(tuple[Work, ...]):
    """The ways to do an op, and the rejected ones."""

    dropped: tuple[Dropped, ...] = ()

    @staticmethod
    def of(works: Iterable[Work], dropped: Iterable[Dropped] = ()) -> Candidates:
        """Return candidates, the most promising first."""
        made = Candidates(works)
        made.dropped = tuple(dropped)
        return made


Line = tuple[int, int]
"""The elements of a line of a result, and those from line to line; (0, 0) if it is dense."""


@dataclass(frozen=True, slots=True)
class Request:
    """An op to do: its name and attributes, views of the operands, specs of the results.

    ``deterministic``: whether the same input must give the same bits in every run. ``kept``: the
    operands whose preparing launches are free, because their output is cached. ``candidates``:
    whether alternatives to the most promising way are needed, for timing or for a stored result.
    ``pitches``: for each result the elements of a line, of its last axes, and those from line to
    line, (0, 0) if it is dense; () if all are. Only families that are registered for it are asked
    for one. ``lean``: whether scratch memory of the size of the operands is worse than time.
    ``room``: the bytes of scratch memory that a plan has left, None if there is no limit; a way
    that can takes less by chunks. Only families that are registered for it are asked for that.
    """

    op: str
    attributes: Mapping[str, Any]
    inputs: tuple[View, ...]
    outputs: tuple[Spec, ...]
    info: DeviceInfo
    deterministic: bool = False
    kept: frozenset[int] = frozenset()
    candidates: bool = False
    pitches: tuple[Line, ...] = ()
    lean: bool = False
    room: int | None = None

    @property
    def rounds(self) -> bool:
        """Whether factors of float32 may be rounded."""
        return rounds(self.attributes.get("precision", HIGHEST))


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a family cannot do an op on this device, in words for the user."""

    reason: str


def flags_of(works: Iterable[Work]) -> int:
    """Return the largest number of flag words that the launches of these works need."""
    launches = (launch for work in works for launch in work.launches)
    flags = (a for launch in launches for a in launch.arguments if isinstance(a, Flags))
    return greatest(0, *(a.offset + a.count for a in flags))


Lowering = Callable[[Request], Sequence[Work] | Refusal]
"""Returns candidates, the cost model's favourite first; or the reason why there is none.

A lowering asks for dense operands by ``dense`` of :func:`lowering`; the planner copies them.
"""

LOWERINGS: dict[str, Lowering] = {}
DENSE: dict[str, frozenset[int] | None] = {}
# The ops whose results may have a pitch.
PITCHED: set[str] = set()
# The ops with ways that take less scratch memory where a request has little room.
ROOMY: set[str] = set()


def lowering(
    *names: str,
    dense: Sequence[int] | None = None,
    strided: bool = False,
    pitched: bool = False,
    roomy: bool = False,
) -> Callable[[Lowering], Lowering]:
    """Register the lowering of the named ops.

    ``strided``: operands may be any view; otherwise the planner passes dense operands. ``dense``
    lists the operands that must be dense when the others need not be. A dense operand too begins at
    its view's offset, which need not be aligned. ``pitched``: results may have a pitch. ``roomy``:
    some way takes less scratch memory where the ``room`` of a request is small.
    """

    def register(function: Lowering) -> Lowering:
        for name in names:
            if name in LOWERINGS:
                raise ValueError(f"op {name!r} has a lowering already")
            LOWERINGS[name] = function
            if pitched:
                PITCHED.add(name)
            if roomy:
                ROOMY.add(name)
            if dense is not None:
                DENSE[name] = frozenset(dense)
            else:
                DENSE[name] = frozenset() if strided else None
        return function

    return register


def deferred(module: str, name: str) -> Lowering:
    """Return the lowering of this name in a module, which its first request imports."""

    def lower(request: Request) -> Sequence[Work] | Refusal:
        made: Sequence[Work] | Refusal = getattr(import_module(module), name)(request)
        return made

    lower.__module__ = module
    return lower
