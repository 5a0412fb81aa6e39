"""Random numbers: counter-based, so the same bits on every device.

Bits come from Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
2011). Each function draws from an explicit ``key``, or from the global generator that
:func:`seed` sets. A key gives the same numbers at each use; :func:`split` makes independent ones.
The generator's counter is a tensor, so a jitted function that draws reads and advances it like any
state.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calor import dtypes
from calor.backends.selection import as_device, current_device
from calor.dtypes import DType, as_dtype
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.functions.creation import asarray, astype, to_device
from calor.graph.record import host
from calor.graph.trace import local
from calor.ops import elementwise as e
from calor.ops import indexing, movement, reductions
from calor.ops.spectral import random_bits
from calor.specs import spec
from calor.transforms.journal import note
from calor.transforms.state import Stateful

if TYPE_CHECKING:
    from calor.tensor.tensor import Tensor

Shape = int | Sequence[int]

_COUNTER = spec((4,), dtypes.uint32)
# A draw of up to 2³² blocks counts in word 0; draws count in word 1, splits in word 3.
_NEXT_DRAW = np.array([0, 1, 0, 0], np.uint32)
_SPLIT = np.array([0, 0, 0, 1], np.uint32)
_SEED_MIX = 0x9E3779B97F4A7C15


def _key_words(number: int) -> np.ndarray[Any, Any]:
    word = number & 0xFFFFFFFFFFFFFFFF
    return np.array([word & 0xFFFFFFFF, word >> 32], np.uint32)


class Generator(Stateful):
    """A stream of random numbers: a key, and a counter that each draw advances.

    >>> import calor
    >>> a, b = calor.random.Generator(7), calor.random.Generator(7)
    >>> calor.random.normal((3,), generator=a).tolist() == b.normal((3,)).tolist()
    True
    """

    def __init__(self, seed: int = 0, *, device: Any = None) -> None:
        self.initial = seed
        self.place = None if device is None else as_device(device)
        self.key: Any = None
        self.counter: Any = None
        self._ready()

    @classmethod
    def deferred(cls, seed: int) -> Generator:
        """Return a generator that is made at its first draw, so that importing needs no device."""
        made = cls.__new__(cls)
        made.initial, made.place, made.key, made.counter = seed, None, None, None
        return made

    def _ready(self) -> None:
        if self.counter is not None and (
            not local.jit or self.counter.device is local.jit[-1].device
        ):
            return
        device = self.place or current_device()
        traces, local.jit = local.jit, []
        previous, local.trace = local.trace, local.traces.get(device, local.trace)
        try:
            if self.counter is None:
                self.key = asarray(_key_words(self.initial), device=device)
                self.counter = asarray(np.zeros(4, np.uint32), device=device)
            else:
                # A trace is for one device; the state follows, on the handles that others know.
                device = traces[-1].device
                for t in (self.key, self.counter):
                    t._value = to_device(t, device)._value
        finally:
            local.jit, local.trace = traces, previous

    def seed(self, number: int) -> None:
        """Start again from a seed."""
        self._ready()
        self.initial = number
        device = self.counter.device
        self.key._rebind(asarray(_key_words(number), device=device))
        self.counter._rebind(asarray(np.zeros(4, np.uint32), device=device))

    @property
    def state(self) -> tuple[Any, Any]:
        """The key uint32[2] and the counter uint32[4] as they are now, for ``set_state``."""
        self._ready()
        return self.key.detach(), self.counter.detach()

    def set_state(self, state: tuple[Any, Any]) -> None:
        """Continue from an earlier ``state``."""
        self._ready()
        self.key._rebind(to_device(state[0], self.key.device))
        self.counter._rebind(to_device(state[1], self.counter.device))

    @contextlib.contextmanager
    def at(self, state: tuple[Any, Any]) -> Iterator[None]:
        """Draw as from an earlier state inside the context, then continue from the present one."""
        now = self.state
        self.set_state(state)
        try:
            yield
        finally:
            self.set_state(now)

    def draw(self) -> tuple[Any, Any]:
        """Return (key, counter) for one draw and advance."""
        self._ready()
        # Seeding gives the key another value, and a recomputation wants the one that is read here.
        note(self.key)
        now = self.counter.detach()
        step = host(_NEXT_DRAW, _COUNTER, self.counter.device)
        self.counter._rebind(e.add(self.counter, step))
        return self.key, now

    def normal(self, shape: Shape = (), **options: Any) -> Tensor:
        """Return normal numbers from this generator; see :func:`normal`."""
        return normal(shape, generator=self, **options)

    def uniform(self, shape: Shape = (), **options: Any) -> Tensor:
        """Return uniform numbers from this generator; see :func:`uniform`."""
        return uniform(shape, generator=self, **options)


default_generator = Generator.deferred(0)


def seed(number: int) -> None:
    """Seed the global generator; the same seed gives the same numbers on every device.

    >>> import calor
    >>> calor.random.seed(1); a = calor.random.uniform((2,)).tolist()
    >>> calor.random.seed(1); a == calor.random.uniform((2,)).tolist()
    True
    """
    default_generator.seed(number)


def follow(held: Iterable[Any], device: Any) -> bool:
    """Bring the global state to a device; False if other tensors of those held are elsewhere too.

    A program whose turn it is after one of another device goes on with the numbers that come next.
    """
    strays = [t for t in held if t._value.device is not device]
    if any(t is not default_generator.key and t is not default_generator.counter for t in strays):
        return False
    for t in strays:
        t._value = to_device(t, device)._value
    return True


def key(number: int, *, device: Any = None) -> Tensor:
    """Return a key, uint32[2], for explicit use.

    >>> import calor
    >>> calor.random.key(3).shape
    (2,)
    """
    return asarray(_key_words(number), device=device)


def split(key: Tensor, count: int = 2) -> Tensor:
    """Return ``count`` independent keys derived from one, uint32[count, 2].

    >>> import calor
    >>> a, b = calor.random.split(calor.random.key(0))
    >>> a.tolist() == b.tolist()
    False
    """
    counter = host(_SPLIT, _COUNTER, key.device)
    made: Tensor = random_bits(key, counter, shape=(count, 2), bits=32)
    return made


def _source(given: Tensor | None, generator: Generator | None, device: Any) -> tuple[Any, Any]:
    if given is not None and generator is not None:
        raise ArgumentError("give a key or a generator, not both")
    if given is not None:
        if given.shape != (2,) or given.dtype is not dtypes.uint32:
            raise ShapeError(
                f"a key is uint32[2], not {given.dtype.name}{list(given.shape)}; make one with "
                f"calor.random.key(seed)"
            )
        return given, host(np.zeros(4, np.uint32), _COUNTER, given.device)
    stream = default_generator if generator is None else generator
    found = stream.draw()
    wanted = current_device() if device is None else as_device(device)
    if found[0].device is not wanted:
        found = (to_device(found[0], wanted), to_device(found[1], wanted))
    return found


def _shape(shape: Shape) -> tuple[int, ...]:
    if isinstance(shape, int | np.integer):
        return (int(shape),)
    return tuple(int(n) for n in shape)


def bits(
    shape: Shape = (),
    *,
    width: int = 32,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return random bits as unsigned integers of 8, 16, 32 or 64 bits."""
    source, counter = _source(key, generator, device)
    made: Tensor = random_bits(source, counter, shape=_shape(shape), bits=width)
    return made


# Bits drawn and bits kept for a uniform number of each type: as many as its significand has.
_UNIFORM = {
    dtypes.float16: (16, 11),
    dtypes.bfloat16: (16, 8),
    dtypes.float32: (32, 24),
    dtypes.float64: (64, 53),
}


def _float_type(dtype: Any) -> DType:
    known = dtypes.DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
    if known not in _UNIFORM:
        raise DTypeError(f"random numbers are real floating, not {known.name}")
    return known


def uniform(
    shape: Shape = (),
    low: Any = 0.0,
    high: Any = 1.0,
    *,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return numbers uniform in [low, high), evenly spaced as finely as the type's significand.

    >>> import calor
    >>> x = calor.random.uniform((1000,), key=calor.random.key(0))
    >>> bool(calor.all(x >= 0)), bool(calor.all(x < 1))
    (True, True)
    """
    known = _float_type(dtype)
    width, kept = _UNIFORM[known]
    drawn = bits(shape, width=width, key=key, generator=generator, device=device)
    unit = astype(drawn >> (width - kept), known) * 2.0**-kept
    if type(low) is float and type(high) is float and low == 0.0 and high == 1.0:
        return unit
    made: Tensor = unit * (high - low) + low
    return made


def normal(
    shape: Shape = (),
    mean: Any = 0.0,
    std: Any = 1.0,
    *,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return normally distributed numbers, by the inverse of the distribution function.

    >>> import calor
    >>> x = calor.random.normal((10000,), key=calor.random.key(0))
    >>> abs(x.mean().item()) < 0.05
    True
    """
    known = _float_type(dtype)
    unit = _open_unit(shape, known, key, generator, device)
    made = e.erfinv(unit) * math.sqrt(2.0)
    if type(mean) is float and type(std) is float and mean == 0.0 and std == 1.0:
        return made  # type: ignore[no-any-return]
    return made * std + mean  # type: ignore[no-any-return]


def _open_unit(shape: Shape, known: DType, key: Any, generator: Any, device: Any) -> Any:
    """Return numbers uniform in (−1, 1), both ends excluded."""
    width, kept = _UNIFORM[known]
    drawn = bits(shape, width=width, key=key, generator=generator, device=device)
    # Odd multiples of half a step: symmetric, and never 0 or ±1.
    kept -= 1
    return astype(drawn >> (width - kept), known) * 2.0 ** (1 - kept) + (2.0**-kept - 1.0)


def truncated_normal(
    shape: Shape = (),
    mean: Any = 0.0,
    std: Any = 1.0,
    *,
    low: float = -2.0,
    high: float = 2.0,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return normal numbers cut at ``mean + low·std`` and ``mean + high·std``."""
    known = _float_type(dtype)
    if not low < high:
        raise ArgumentError(f"truncated_normal: low {low} is not below high {high}")
    a, b = math.erf(low / math.sqrt(2.0)), math.erf(high / math.sqrt(2.0))
    unit = (_open_unit(shape, known, key, generator, device) + 1.0) * (0.5 * (b - a)) + a
    x = e.erfinv(unit) * math.sqrt(2.0)
    x = e.where(x < low, x - x + low, e.where(x > high, x - x + high, x))
    return x * std + mean  # type: ignore[no-any-return]


def integers(
    low: int,
    high: int | None = None,
    shape: Shape = (),
    *,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return integers of [low, high), or [0, low) when ``high`` is None.

    The bias is below (high − low) / 2⁶⁴, and below (high − low) / 2³² for ranges under 2¹⁶.
    """
    if high is None:
        low, high = 0, low
    known = dtypes.DEFAULT_INT if dtype is None else as_dtype(dtype)
    span = high - low
    if span <= 0:
        raise ArgumentError(f"integers: the range [{low}, {high}) is empty")
    width = 32 if span < 1 << 16 else 64
    drawn = bits(shape, width=width, key=key, generator=generator, device=device) % span
    return astype(astype(drawn, dtypes.int64) + low, known)


def bernoulli(
    shape: Shape = (),
    p: Any = 0.5,
    *,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return truth values that are True with probability ``p``."""
    made: Tensor = uniform(shape, key=key, generator=generator, device=device) < p
    return made


def exponential(
    shape: Shape = (),
    scale: Any = 1.0,
    *,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return exponentially distributed numbers with mean ``scale``."""
    unit = uniform(shape, dtype=dtype, key=key, generator=generator, device=device)
    return -e.log1p(-unit) * scale  # type: ignore[no-any-return]


def gumbel(
    shape: Shape = (),
    *,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return standard Gumbel numbers, −log(−log u)."""
    known = _float_type(dtype)
    unit = (_open_unit(shape, known, key, generator, device) + 1.0) * 0.5
    return -e.log(-e.log(unit))  # type: ignore[no-any-return]


def categorical(
    logits: Tensor,
    *,
    axis: int = -1,
    key: Tensor | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Return indices drawn with probabilities softmax(logits) along an axis (Gumbel maximum)."""
    axis = axis % logits.ndim
    noise = gumbel(
        logits.shape, dtype=logits.dtype, key=key, generator=generator, device=logits.device
    )
    made: Tensor = reductions.argmax(logits + noise, axis=axis)
    return made


def permutation(
    count: int,
    *,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return the numbers 0 … count−1 in random order, int64.

    >>> import calor
    >>> sorted(calor.random.permutation(5).tolist())
    [0, 1, 2, 3, 4]
    """
    drawn = bits((count,), width=64, key=key, generator=generator, device=device)
    made: Tensor = indexing.sort(drawn, axis=0, descending=False)[1]
    return made


def shuffle(
    x: Tensor,
    *,
    axis: int = 0,
    key: Tensor | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Return the tensor with the slices along an axis in random order."""
    axis = axis % x.ndim
    order = permutation(x.shape[axis], key=key, generator=generator, device=x.device)
    made: Tensor = indexing.gather(x, order, axis=axis)
    return made


def choice(
    x: Tensor,
    shape: Shape = (),
    *,
    replace: bool = True,
    key: Tensor | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Return elements of a 1-D tensor drawn at random, with or without replacement."""
    count, wanted = x.shape[0], _shape(shape)
    total = math.prod(wanted)
    if replace:
        picks = integers(count, shape=wanted, key=key, generator=generator, device=x.device)
    elif total > count:
        raise ArgumentError(f"choice: {total} of {count} elements need replace=True")
    else:
        order = permutation(count, key=key, generator=generator, device=x.device)
        first = movement.slice_(order, starts=(0,), stops=(total,), steps=(1,))
        picks = movement.reshape(first, shape=wanted)
    made: Tensor = indexing.gather(x, picks, axis=0)
    return made
