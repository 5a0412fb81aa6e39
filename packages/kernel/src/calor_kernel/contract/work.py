"""What the library says to the planner: which launches do an op, on which memory.

Requirements: a family sees views (buffer, offset, shape, strides), so that movement costs nothing;
a launch is data, and its kernel is named by what it is built from, so that equal kernels are
compiled once and found on disk without being built; sizes are run-time arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from calor.dtypes import DType, int64
from calor.errors import DeviceError
from calor.specs import Spec
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.ir.nodes import Kernel
from calor_kernel.ir.passes.cubes import COUNTS, fold_cubes
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language.kernel import KernelFunction


@dataclass(frozen=True, slots=True)
class View:
    """Elements of a buffer; ``offset`` and ``strides`` are in elements, also 0 or negative."""

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
        """Whether the elements lie one after another in row-major order (from any offset)."""
        step = 1
        for n, s in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if n != 1 and s != step:
                return self.size == 0
            step *= n
        return True


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a dense array in elements."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


@dataclass(frozen=True, slots=True)
class Build:
    """What a kernel is built from; equal builds are one kernel, also in another process.

    ``keywords`` are the build-time arguments: numbers, text, dtypes, tuples of those, functions of
    modules and frozen dataclasses of all these; their ``repr`` is part of the key on disk.
    ``counts``: how many parameters there are in each tuple of declared ones.
    ``folded``: whether the cubes of all axes are launched along x and y; the last three numbers of
    the signature then say how many there are along each, and the function knows nothing of them.
    """

    function: KernelFunction
    signature: tuple[Buffer | Scalar, ...]
    keywords: tuple[tuple[str, Any], ...] = ()
    cube: tuple[int, int, int] = (1, 1, 1)
    plane: int = 1
    index: DType = int64
    folded: bool = False
    counts: tuple[int, ...] = ()

    def kernel(self, features: frozenset[str] = frozenset()) -> Kernel:
        """Build the kernel's intermediate form."""
        made = self.function.build(
            self.signature[: -len(COUNTS)] if self.folded else self.signature,
            cube=self.cube,
            plane=self.plane,
            index=self.index,
            features=features,
            counts=self.counts,
            **dict(self.keywords),
        )
        return fold_cubes(made) if self.folded else made


@dataclass(frozen=True, slots=True)
class Input:
    """A buffer argument: an operand's buffer, from an element of it on.

    The operand itself begins at its view's offset, which is often not 0.
    """

    number: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Output:
    """A buffer argument: a result's buffer, from an element on."""

    number: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Scratch:
    """A buffer argument: memory of the op's own, from an element on."""

    number: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Status:
    """A buffer argument: one int32, which is 0 before the launch.

    A kernel that meets what it cannot do stores there which of its work's ``failures`` it is,
    counted from 1. Cubes may do so at the same time; one of the numbers stays.
    """


@dataclass(frozen=True, slots=True)
class Flags:
    """A buffer argument: ``count`` words of uint32, which are 0 before the launch and after it.

    By them cubes say what they have done. A launch sets back what it set, so that none goes before
    it to clear them, also where a recorded list runs again; launches of a plan have the same words.
    """

    count: int


Argument = Input | Output | Scratch | Status | Flags | int | float
Failure = tuple[type[DeviceError], str]


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: a kernel, the cubes, and an argument per parameter.

    ``flops`` and ``nbytes`` are what the launch computes and moves at least, for profiles and the
    distance to the machine's ceilings. ``label`` names family and blueprint. ``copies``: the
    number of an operand that the launch only copies to the result; it is left out where the work
    is done in place of that operand. ``prepares``: whether what it writes, scratch memory of its
    own, depends on at most one operand and on nothing that changes otherwise, so that it need not
    run again while that operand stays as it is and the scratch is kept.
    """

    build: Build
    cubes: tuple[int, int, int]
    arguments: tuple[Argument, ...]
    flops: int = 0
    nbytes: int = 0
    label: str = ""
    copies: int | None = None
    prepares: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """The launches that do an op. ``scratch``: bytes of each piece of memory that they need.

    Results are dense, and begin at element 0 of their buffers; launches run in order, and each
    sees what those before it wrote. ``in_place``: pairs (operand, result) of the same size that may
    be one memory, because each element of the operand is read before the result's element is
    written there, and by nobody else; it holds where the operand is dense. ``failures``: the errors
    that Status stands for, with what they say.

    ``variant``: what tells it from the family's other candidates, the same at near sizes, so that a
    stored result finds it again. ``group``: how likely it is to be the fastest; the tuner times
    group 0, and a later group only where those before leave something to gain.
    """

    launches: tuple[Launch, ...]
    scratch: tuple[int, ...] = ()
    in_place: tuple[tuple[int, int], ...] = ()
    failures: tuple[Failure, ...] = ()
    variant: str = ""
    group: int = 0


@dataclass(frozen=True, slots=True)
class Dropped:
    """A candidate that a device or a problem cannot have, and why, in words for who tunes."""

    variant: str
    reason: str


class Candidates(tuple[Work, ...]):
    """The ways to do an op, and what dropped out of them."""

    dropped: tuple[Dropped, ...] = ()

    @staticmethod
    def of(works: Iterable[Work], dropped: Iterable[Dropped] = ()) -> Candidates:
        """Return candidates, the likeliest first."""
        made = Candidates(works)
        made.dropped = tuple(dropped)
        return made


@dataclass(frozen=True, slots=True)
class Request:
    """An op to do: its name and attributes, views of the operands, specs of the results.

    ``deterministic``: whether the same input must give the same bits each time. ``kept``: the
    operands of which preparing launches cost nothing, since what they write is kept.
    ``candidates``: whether ways beside the likeliest are wanted, since they are timed or were.
    """

    op: str
    attributes: Mapping[str, Any]
    inputs: tuple[View, ...]
    outputs: tuple[Spec, ...]
    info: DeviceInfo
    deterministic: bool = False
    kept: frozenset[int] = frozenset()
    candidates: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a family does not do an op on this device, in words for the user."""

    reason: str


def flags_of(works: Iterable[Work]) -> int:
    """Return how many words of flags the launches of works need at most."""
    launches = (launch for work in works for launch in work.launches)
    counts = (a.count for launch in launches for a in launch.arguments if isinstance(a, Flags))
    return max(counts, default=0)


Lowering = Callable[[Request], Sequence[Work] | Refusal]
"""Returns candidates, the one that the cost model likes best first; or why there is none.

A lowering may ask for dense operands by ``needs_dense``; the planner copies what is not.
"""

LOWERINGS: dict[str, Lowering] = {}
DENSE: dict[str, frozenset[int] | None] = {}


def lowering(
    *names: str, dense: Sequence[int] | None = None, strided: bool = False
) -> Callable[[Lowering], Lowering]:
    """Register what lowers the named ops.

    ``strided``: operands may be any view; else the planner hands over dense ones. ``dense`` names
    the operands that must be dense where others need not. A dense operand too begins at its view's
    offset, which need not be aligned.
    """

    def register(function: Lowering) -> Lowering:
        for name in names:
            if name in LOWERINGS:
                raise ValueError(f"op {name!r} has a lowering already")
            LOWERINGS[name] = function
            if dense is not None:
                DENSE[name] = frozenset(dense)
            else:
                DENSE[name] = frozenset() if strided else None
        return function

    return register
