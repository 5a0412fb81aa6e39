"""Random bits of keys, and of generators, whose counter a jitted function reads and advances."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calor import dtypes
from calor.backends.selection import as_device, current_device
from calor.errors import ArgumentError, ShapeError
from calor.functions.conversion import to_device
from calor.functions.creation import asarray
from calor.graph.record import host
from calor.graph.trace import local
from calor.ops import elementwise as e
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


def key_words(number: int) -> np.ndarray[Any, Any]:
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

    def __repr__(self) -> str:
        return f"Generator(seed={self.initial})"

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
                self.key = asarray(key_words(self.initial), device=device)
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
        self.key._rebind(asarray(key_words(number), device=device))
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
        from calor.random.distributions import normal

        return normal(shape, generator=self, **options)

    def uniform(self, shape: Shape = (), **options: Any) -> Tensor:
        """Return uniform numbers from this generator; see :func:`uniform`."""
        from calor.random.distributions import uniform

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
    return asarray(key_words(number), device=device)


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


def shape_of(shape: Shape) -> tuple[int, ...]:
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
    made: Tensor = random_bits(source, counter, shape=shape_of(shape), bits=width)
    return made
