"""Random bits of keys, and of generators, whose counter a jitted function reads and advances."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calor import dtypes
from calor.backends.protocol import Backend
from calor.device_selection import as_device, current_device
from calor.errors import ArgumentError, ArgumentTypeError, DeviceLostError, ShapeError
from calor.functions.arguments import integer, sizes_of
from calor.functions.conversion import to_device
from calor.functions.creation import asarray
from calor.local import local
from calor.ops import elementwise as e
from calor.ops.spectral import random_bits
from calor.random import from_bits
from calor.recording.journal import note
from calor.recording.record import host
from calor.specs import spec
from calor.tensor.tensor import Tensor
from calor.transforms.following import followers
from calor.transforms.state import Stateful

Shape = int | Sequence[int]

COUNTER = spec((4,), dtypes.uint32)
# A draw of up to 2³² blocks counts in word 0; draws count in word 1, splits in word 3.
_NEXT_DRAW = np.array([0, 1, 0, 0], np.uint32)
_SPLIT = np.array([0, 0, 0, 1], np.uint32)
_SEED_MIX = 0x9E3779B97F4A7C15


def key_words(number: int) -> np.ndarray[Any, Any]:
    word = integer(number, "the seed") & 0xFFFFFFFFFFFFFFFF
    return np.array([word & 0xFFFFFFFF, word >> 32], np.uint32)


@dataclass(frozen=True)
class _Seed:
    """The number that a generator began with. No program depends on it, so all are equal."""

    number: int = field(compare=False)


class Generator(Stateful):
    """A stream of random numbers: a key, and a counter that each draw advances.

    Parameters
    ----------
    seed : int, optional
        The seed; its lowest 64 bits count. By default 0.
    device : Device or str, optional
        Where the state is. By default the current device.

    Raises
    ------
    TypeError
        If the seed is not a whole number.

    Examples
    --------
    >>> import calor
    >>> a, b = calor.random.Generator(7), calor.random.Generator(7)
    >>> calor.random.normal((3,), generator=a).tolist() == b.normal((3,)).tolist()
    True
    """

    def __init__(self, seed: int = 0, *, device: Any = None) -> None:
        self.initial = _Seed(integer(seed, "the seed"))
        self.place = None if device is None else as_device(device)
        self.key: Any = None
        self.counter: Any = None
        self._ready()

    def __repr__(self) -> str:
        return f"Generator(seed={self.initial.number})"

    @classmethod
    def deferred(cls, seed: int) -> Generator:
        """Return a generator whose state is made at the first draw: importing needs no device.

        Parameters
        ----------
        seed : int
            The seed.

        Returns
        -------
        Generator
            The generator.
        """
        made = cls.__new__(cls)
        made.initial, made.place, made.key, made.counter = _Seed(seed), None, None, None
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
                self.key = asarray(key_words(self.initial.number), device=device)
                self.counter = asarray(np.zeros(4, np.uint32), device=device)
            else:
                # A trace is for one device; the state follows, on the handles that others know.
                device = traces[-1].device
                for t in (self.key, self.counter):
                    t._value = to_device(t, device)._value
        finally:
            local.jit, local.trace = traces, previous

    def seed(self, number: int) -> None:  # numpydoc ignore=RS01
        """Start again from a seed.

        Parameters
        ----------
        number : int
            The seed; its lowest 64 bits count.
        """
        self._ready()
        self.initial = _Seed(integer(number, "the seed"))
        key = key_words(number)

        def made(device: Any) -> Iterator[Tensor]:
            return (asarray(words, device=device) for words in (key, np.zeros(4, np.uint32)))

        self._take(made)

    @property
    def state(self) -> tuple[Any, Any]:
        """The key uint32[2] and the counter uint32[4] as they are now, for ``set_state``."""
        self._ready()
        return self.key.detach(), self.counter.detach()

    def set_state(self, state: tuple[Any, Any]) -> None:
        """Continue from an earlier state.

        Parameters
        ----------
        state : tuple of Tensor
            What the property ``state`` gave: key and counter.
        """
        self._ready()
        self._take(lambda device: (to_device(words, device) for words in state))

    def _take(self, made: Callable[[Any], Iterable[Tensor]]) -> None:
        """Take another state, where the present one is; if that was lost, on the current device."""
        held = (self.key, self.counter)
        try:
            for old, new in zip(held, made(self.counter.device), strict=True):
                old._rebind(new)
        except DeviceLostError:
            if self.place is not None:
                raise
            for old, new in zip(held, made(current_device()), strict=True):
                old._value = new._value

    @contextlib.contextmanager
    def at(self, state: tuple[Any, Any]) -> Iterator[None]:
        """Draw from an earlier state inside a context, then continue from the present one.

        Parameters
        ----------
        state : tuple of Tensor
            What the property ``state`` gave: key and counter.

        Yields
        ------
        None
            The context has no value.
        """
        now = self.state
        self.set_state(state)
        try:
            yield
        finally:
            self.set_state(now)

    def draw(self) -> tuple[Any, Any]:
        """Return the key and the counter of one draw, and advance.

        Returns
        -------
        tuple of Tensor
            The key, ``uint32[2]``, and the counter, ``uint32[4]``, before the draw.
        """
        self._ready()
        # Seeding gives the key another value, and a recomputation wants the one that is read here.
        note(self.key)
        now = self.counter.detach()
        for trace in local.jit:
            trace.drawn.append(self.counter)
        step = host(_NEXT_DRAW, COUNTER, self.counter.device)
        self.counter._rebind(e.add(self.counter, step))
        return self.key, now

    def normal(
        self,
        shape: Shape = (),
        mean: Any = 0.0,
        std: Any = 1.0,
        *,
        dtype: Any = None,
        device: Any = None,
    ) -> Tensor:
        """Return normally distributed numbers from this stream; see `calor.random.normal`.

        Parameters
        ----------
        shape : int or tuple of int, optional
            The shape of the result; by default a single number.
        mean : float or Tensor, optional
            The mean. By default 0.
        std : float or Tensor, optional
            The standard deviation. By default 1.
        dtype : DType or str, optional
            One of float16, bfloat16, float32 (the default) and float64.
        device : Device or str, optional
            Where the result is. By default the current device.

        Returns
        -------
        Tensor
            The given shape and dtype.

        Raises
        ------
        DTypeError
            If ``dtype`` is not one of these.
        """
        known = from_bits.float_type(dtype)
        drawn = bits(shape, width=from_bits.width(known), generator=self, device=device)
        return from_bits.normal(drawn, known, mean, std)

    def uniform(
        self,
        shape: Shape = (),
        low: Any = 0.0,
        high: Any = 1.0,
        *,
        dtype: Any = None,
        device: Any = None,
    ) -> Tensor:
        """Return uniform numbers from this stream; see `calor.random.uniform`.

        Parameters
        ----------
        shape : int or tuple of int, optional
            The shape of the result; by default a single number.
        low : float or Tensor, optional
            The lower end, included. By default 0.
        high : float or Tensor, optional
            The upper end, excluded. By default 1.
        dtype : DType or str, optional
            One of float16, bfloat16, float32 (the default) and float64.
        device : Device or str, optional
            Where the result is. By default the current device.

        Returns
        -------
        Tensor
            The given shape and dtype.

        Raises
        ------
        DTypeError
            If ``dtype`` is not one of these.
        """
        known = from_bits.float_type(dtype)
        drawn = bits(shape, width=from_bits.width(known), generator=self, device=device)
        return from_bits.uniform(drawn, known, low, high)


default_generator = Generator.deferred(0)
followers.append(default_generator)


def leave(backend: Backend) -> None:
    """Move the global generator's state to the host, if it is on a backend that is to end."""
    held = (default_generator.key, default_generator.counter)
    if held[1] is None or held[1].device.backend is not backend:
        return
    with contextlib.suppress(DeviceLostError):
        for old, new in zip(held, [to_device(words, "numpy") for words in held], strict=True):
            old._value = new._value


def seed(number: int) -> None:
    """Seed the global generator; the same seed gives the same numbers on every device.

    Parameters
    ----------
    number : int
        The seed; its lowest 64 bits count.

    Raises
    ------
    TypeError
        If the seed is not a whole number.

    Examples
    --------
    >>> import calor
    >>> calor.random.seed(1); a = calor.random.uniform((2,)).tolist()
    >>> calor.random.seed(1); a == calor.random.uniform((2,)).tolist()
    True
    """
    default_generator.seed(number)


def key(number: int, *, device: Any = None) -> Tensor:
    """Return a key for explicit use.

    Parameters
    ----------
    number : int
        The seed; its lowest 64 bits count.
    device : Device or str, optional
        Where the result is. By default the current device, which ``with calor.device(...)`` sets.

    Returns
    -------
    Tensor
        Dtype uint32, of shape (2,).

    Examples
    --------
    >>> import calor
    >>> calor.random.key(3).shape
    (2,)
    """
    return asarray(key_words(number), device=device)


def split(key: Tensor, count: int = 2) -> Tensor:
    """Return independent keys derived from one.

    Parameters
    ----------
    key : Tensor
        A key, ``uint32[2]``. Do not draw from it as well.
    count : int, optional
        How many keys. By default 2.

    Returns
    -------
    Tensor
        Dtype uint32, of shape (count, 2); iterate over it for the keys.

    Raises
    ------
    DTypeError
        If the key is not ``uint32[2]``.
    ArgumentTypeError
        If the key is no tensor.
    TypeError
        If ``count`` is not a whole number.

    Examples
    --------
    >>> import calor
    >>> a, b = calor.random.split(calor.random.key(0))
    >>> a.tolist() == b.tolist()
    False
    """
    counter = host(_SPLIT, COUNTER, as_key(key).device)
    made: Tensor = random_bits(key, counter, shape=(integer(count, "split: count"), 2), bits=32)
    return made


def as_key(given: Any) -> Tensor:
    """Return a key; ArgumentTypeError for what is no tensor."""
    if isinstance(given, Tensor):
        return given
    raise ArgumentTypeError(
        f"a key is a tensor, not a {type(given).__name__}; make one with calor.random.key(seed)"
    )


def source_of(given: Tensor | None, generator: Generator | None, device: Any) -> tuple[Any, Any]:
    if given is not None and generator is not None:
        raise ArgumentError("give a key or a generator, not both")
    if given is not None:
        if as_key(given).shape != (2,) or given.dtype is not dtypes.uint32:
            raise ShapeError(
                f"a key is uint32[2], not {given.dtype.name}{list(given.shape)}; make one with "
                f"calor.random.key(seed)"
            )
        return given, host(np.zeros(4, np.uint32), COUNTER, given.device)
    stream = default_generator if generator is None else generator
    if not isinstance(stream, Generator):
        raise ArgumentTypeError(
            f"a generator is a calor.random.Generator, not a {type(stream).__name__}; make one "
            f"with calor.random.Generator(seed)"
        )
    found = stream.draw()
    wanted = current_device() if device is None else as_device(device)
    if found[0].device is not wanted:
        found = (to_device(found[0], wanted), to_device(found[1], wanted))
    return found


def shape_of(shape: Any) -> tuple[int, ...]:
    if isinstance(shape, Iterable) and not isinstance(shape, str | Tensor):
        shape = tuple(shape)
    return sizes_of(shape, "random")


def bits(
    shape: Shape = (),
    *,
    width: int = 32,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return random bits as unsigned integers.

    Parameters
    ----------
    shape : int or tuple of int, optional
        The shape of the result; by default a single number.
    width : {8, 16, 32, 64}, optional
        The number of bits of each integer. By default 32.
    key : Tensor, optional
        A key, ``uint32[2]``. The same key gives the same numbers. By default the generator is used.
    generator : Generator, optional
        The stream to draw from. By default the global one, which `seed` sets.
    device : Device or str, optional
        Where the result is when no key is given. By default the current device.

    Returns
    -------
    Tensor
        The given shape; uint8, uint16, uint32 or uint64.

    Raises
    ------
    ArgumentError
        If ``width`` is another number, or both a key and a generator are given.
    ShapeError
        If the key is not ``uint32[2]``.
    TypeError
        If ``width`` or a size is not a whole number.

    References
    ----------
    Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

    Examples
    --------
    >>> import calor
    >>> x = calor.random.bits((3,), width=8, key=calor.random.key(0))
    >>> x.shape, x.dtype
    ((3,), calor.uint8)
    """
    source, counter = source_of(key, generator, device)
    width = integer(width, "bits: width")
    made: Tensor = random_bits(source, counter, shape=shape_of(shape), bits=width)
    return made
