"""Objects that keep state, driven through drawn events beside a model of a few lines.

A driven object has a method for each event. An event does something to the object and the same to
the model in plain numbers, and may compare what it gets. After each event all that a user can
observe of the object is compared; a failure names the events that led to it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any, ClassVar, Final

import numpy as np

from calor.dtypes import bool_, float32, int32, int64
from calor.errors import CalorError

from ..rows.functions.drawing import Rng, source
from .base import Array, Check, Place

_PREFIX: Final = "do_"
Look = tuple[Any, Any] | tuple[Any, Any, float]


class Driven:
    """An object under test with its model; a method ``do_NAME`` is an event.

    Parameters
    ----------
    rng : Rng
        Draws the object, and what its events do.
    place : Place
        The device under test.
    """

    # How many events a history has, and how many histories are drawn.
    events: ClassVar[int] = 12
    histories: ClassVar[int] = 6

    def __init__(self, rng: Rng, place: Place) -> None:
        self.rng, self.place = rng, place
        self.build()

    def build(self) -> None:
        """Make the object and its model."""
        raise NotImplementedError

    def told(self) -> str:
        """Return what was drawn of the object."""
        return ""

    def look(self) -> Mapping[str, Look]:
        """Return each observable by name: what it is, what it should be, and the room of arrays."""
        return {}

    def one(self, *among: Any) -> Any:
        """Return one of some things."""
        return among[int(self.rng.integers(len(among)))]

    def numbers(self, *shape: int, scale: float = 1.0) -> Array:
        """Return float32 numbers that need few bits, so that sums of them are exact."""
        return (self.rng.integers(-8, 9, shape) / 4 * scale).astype(np.float32)


def equal(found: Any, due: Any, what: str, room: float = 0.0) -> None:
    """Assert that two things are equal; arrays within a share of the largest number."""
    if not isinstance(due, np.ndarray):
        assert found == due, f"{what} is {found}, not {due}"
        return
    found = np.asarray(found)
    assert found.shape == due.shape, f"{what} has shape {found.shape}, not {due.shape}"
    finite = np.abs(due[np.isfinite(due)])
    bound = room * (1 + float(np.max(finite, initial=0.0)))
    near = np.allclose(found, due, rtol=0, atol=bound, equal_nan=True)
    assert near, f"{what} is {found.tolist()}, not {due.tolist()}"


def refused(call: Callable[[], Any], what: str) -> None:
    """Assert that an error of calor is raised."""
    try:
        call()
    except CalorError:
        return
    raise AssertionError(f"{what} is not refused")


def drive(kind: type[Driven], rng: Rng, place: Place) -> None:
    """Drive an object through drawn events, each of which is compared."""
    driven = kind(rng, place)
    names = [n.removeprefix(_PREFIX) for n in dir(kind) if n.startswith(_PREFIX)]
    done: list[str] = []
    for _ in range(kind.events):
        done.append(str(rng.choice(names)))
        try:
            getattr(driven, _PREFIX + done[-1])()
            for name, (found, due, *room) in driven.look().items():
                equal(found, due, name, *room)
        except CalorError as error:
            error.add_note(f"{driven.told()} after {', '.join(done)}")
            raise
        except AssertionError as error:
            raise AssertionError(f"{error}; {driven.told()} after {', '.join(done)}") from None


def _run(kind: type[Driven], number: int, place: Place) -> None:
    for turn in range(kind.histories):
        if place.tries(turn, kind.histories):
            drive(kind, source([place.seed, 733, number, turn]), place)


def checks_of(
    package: str, kinds: Mapping[str, type[Driven]], contract: str, number: int
) -> Iterator[Check]:
    """Yield a check of each kind of object, if its package is installed."""
    if find_spec(package) is None:
        return
    for place, (name, kind) in enumerate(kinds.items()):
        run: Callable[[Place], None] = partial(_run, kind, 100 * number + place)
        yield Check(
            kind="state",
            subject=f"{package}.driven-{name}",
            tier="training",
            contract=contract,
            run=run,
            text=partial(inspect.getsource, kind),
            dtypes=(float32, int32, int64, bool_),
            looks=True,
        )
