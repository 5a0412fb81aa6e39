"""States that were saved once: no later step changes them, and what is loaded is a copy as well.

Each class that gives its state gives copies, at any depth: of tensors, lists and dictionaries. So
an object goes on and a state that it gave before keeps its bytes; another object loads the state,
goes on, and the state keeps them again; and what a caller does to each part of a state that was
given or loaded changes no object.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import bool_, float32, int32, int64, uint32

from ..rows.functions.drawing import Rng, source
from .base import Check, Place
from .several_of_a_class import _KINDS, _Kind
from .training import _RULES, PACKAGE

CONTRACT: Final = "a state that was saved is a copy, and so is what is loaded of it"
_NN: Final = "calor_nn"


class _Of(NamedTuple):
    """How an object is made, goes on, gives its state and loads one."""

    kind: _Kind
    save: Callable[[Any], Any] = lambda made: made.state_dict()
    load: Callable[[Any, Any], None] = lambda made, state: made.load_state_dict(state)


def _parameters(rng: Rng, count: int) -> list[Any]:
    shapes = [(2,), (3, 2), ()]
    given = [rng.integers(-3, 4, shapes[k % 3]).astype(np.float32) for k in range(count)]
    return [calor.asarray(a, requires_grad=True) for a in given]


def _optimizer(name: str, package: Any, rng: Rng) -> Any:
    """Return an optimizer of two groups, each of two parameters."""
    held, how = _parameters(rng, 4), _RULES[name][1](source([3]))
    groups = [{"params": held[:2]}, {"params": held[2:]}]
    return getattr(package, name)(groups, **how)


def _steps(made: Any, n: int) -> None:
    for k, p in enumerate(made.params):
        p.grad = calor.full_like(p.detach(), 0.5 + n + k)
    made.step()


def _newton(search: str | None, package: Any, rng: Rng) -> Any:
    how: dict[str, Any] = {"max_iter": 3, "line_search_fn": search, "history_size": 4}
    return package.LBFGS(_parameters(rng, 2), 0.1, **how)


def _descends(made: Any, n: int) -> None:
    def loss() -> Any:
        made.zero_grad()
        terms = [calor.sum((p - 0.5 - n) ** 2 * (k + 1) + (p - n) ** 4)
                 for k, p in enumerate(made.params)]  # fmt: skip
        total = sum(terms[1:], terms[0])
        total.backward()
        return total

    made.step(loss)


def _scheduler(package: Any, rng: Rng) -> Any:
    optimizer = _optimizer("SGD", package, rng)
    schedule = package.Chained(package.LinearWarmup(3), package.Exponential(0.9))
    return package.Scheduler(optimizer, lr=schedule, weight_decay=package.Exponential(0.8))


def _scheduled(made: Any, n: int) -> None:
    made.step()
    if n % 2:
        made.optimizer.add_param_group({"params": _parameters(source([n]), 1)})
        made.optimizer.param_groups.pop()


def _batches(made: Any, n: int) -> None:
    batches = iter(made)
    for _ in range(n % 3 + 1):
        next(batches, None)


class _Holder:
    """What a callback needs of a learner."""

    def __init__(self, value: float) -> None:
        self.history, self.epoch, self.steps = [{"loss": value}], 1, 1
        self.callbacks: tuple[Any, ...] = ()

    def stop(self, reason: str) -> None:
        """Take a reason to stop."""

    def save(self, path: Any) -> None:
        """Write nothing."""


def _watched(made: Any, n: int) -> None:
    made.on_epoch_end(_Holder(float(n * 5 % 7)))


def _layers(package: Any, rng: Rng) -> Any:
    nn = import_module(_NN)
    made = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Sequential(nn.Linear(4, 2)))
    made.register_buffer("count", calor.zeros((), dtype=int32))
    nn.parametrize.weight_norm(made[0])
    return made


def _trained(made: Any, n: int) -> None:
    made(calor.asarray(np.arange(6, dtype=np.float32).reshape(2, 3) + n))
    with calor.no_grad():
        made.count += 1
        for p in made.parameters():
            p -= 0.25 + n


def _matrices(package: Any, rng: Rng) -> Any:
    given = [rng.integers(-3, 4, (3, 2)).astype(np.float32) for _ in range(2)]
    return package.Muon([calor.asarray(a, requires_grad=True) for a in given], 0.1)


def _mean(package: Any, rng: Rng) -> Any:
    return package.AveragedModel(import_module(_NN).Linear(3, 2))


def _averaged(made: Any, n: int) -> None:
    model = import_module(_NN).Linear(3, 2)
    with calor.no_grad():
        for p in model.parameters():
            p[...] = calor.full_like(p.detach(), float(n))
    made.update_parameters(model)


KINDS: Final[dict[str, _Of]] = {
    **{name: _Of(kind) for name, kind in _KINDS.items()},
    **{name: _Of(_Kind(partial(_optimizer, name), _steps)) for name in _RULES},
    "LBFGS": _Of(_Kind(partial(_newton, None), _descends)),
    "LBFGS with a line search": _Of(_Kind(partial(_newton, "strong_wolfe"), _descends)),
    "Muon": _Of(_Kind(_matrices, _steps)),
    "AveragedModel": _Of(_Kind(_mean, _averaged)),
    "DataLoader": _Of(_KINDS["DataLoader"]._replace(step=_batches)),
    "Scheduler": _Of(_Kind(_scheduler, _scheduled)),
    "EarlyStopping": _Of(_Kind(lambda package, rng: package.EarlyStopping("loss", 9), _watched)),
    "Checkpoint": _Of(_Kind(lambda package, rng: package.Checkpoint("unused", monitor="loss",
                                                                    every_epochs=99), _watched)),
    "Module": _Of(_Kind(_layers, _trained)),
}  # fmt: skip


def _image(state: Any) -> Any:
    """Return a state as numbers and bytes that nothing else holds."""
    if isinstance(state, dict):
        return {k: _image(v) for k, v in state.items()}
    if isinstance(state, list | tuple):
        return [_image(v) for v in state]
    if isinstance(state, calor.Tensor):
        state = state.numpy()
    return (state.shape, state.tobytes()) if isinstance(state, np.ndarray) else state


def _spoiled(state: Any) -> None:
    """Write to each part of a state: numbers of tensors, and all of lists and dictionaries."""
    parts = state.values() if isinstance(state, dict) else state
    if isinstance(state, dict | list | tuple):
        for part in parts:
            _spoiled(part)
    if isinstance(state, calor.Tensor | np.ndarray):
        with calor.no_grad():
            state[...] = 1 if state.dtype in (bool_, np.bool_) else 7
    elif isinstance(state, list):
        state.append("what a caller adds")
    elif isinstance(state, dict):
        state.clear()


def _first_apart(got: Any, want: Any, path: str = "") -> str:
    """Return where two images differ."""
    if isinstance(want, dict) and isinstance(got, dict) and got.keys() == want.keys():
        pairs: Any = [(k, got[k], want[k]) for k in want]
    elif isinstance(want, list) and isinstance(got, list) and len(got) == len(want):
        pairs = [(k, a, b) for k, (a, b) in enumerate(zip(got, want, strict=True))]
    else:
        return f"at {path or 'its top'}"
    return next((_first_apart(a, b, f"{path}[{k!r}]") for k, a, b in pairs if a != b), "nowhere")


def _same(got: Any, want: Any, what: str) -> None:
    assert got == want, f"{what}: it differs {_first_apart(got, want)}"


def _run(name: str, place: Place) -> None:
    package, of = import_module(PACKAGE), KINDS[name]
    seeds = [place.seed, 418, crc32(name.encode())]
    rng = source(seeds)

    def made() -> Any:
        return of.kind.make(package, source(seeds))

    def go(one: Any, least: int = 1) -> None:
        for n in rng.integers(0, 5, int(rng.integers(least, 4))):
            of.kind.step(one, int(n))

    first = made()
    go(first, 2)
    saved = of.save(first)
    want, spare = _image(saved), copy.deepcopy(saved)
    _same(_image(spare), want, f"a deep copy of a state of {name}")
    go(first)
    of.save(first)
    _same(_image(saved), want, f"a state of {name} after later steps of what gave it")
    second = made()
    of.load(second, saved)
    _same(_image(of.save(second)), want, f"what {name} has loaded")
    go(second)
    of.save(second)
    _same(_image(saved), want, f"a state of {name} after later steps of what loaded it")
    third = made()
    of.load(third, spare)
    _spoiled(spare)
    given = of.save(third)
    _same(_image(given), want, f"{name} after a write to the state that it has loaded")
    _spoiled(given)
    _same(_image(of.save(third)), want, f"{name} after a write to the state that it gave")


def _generators(place: Place) -> None:
    """The state of a generator is two tensors, which no later draw changes."""
    made = calor.random.Generator(place.seed)
    made.uniform((2,))
    saved = made.state
    want = _image(saved)
    after = [_image(made.uniform((2,))) for _ in range(3)]
    _same(_image(saved), want, "a state of Generator after later draws")
    other = calor.random.Generator(place.seed + 1)
    other.set_state(saved)
    _same(
        [_image(other.uniform((2,))) for _ in range(3)], after, "draws of a state that was loaded"
    )
    _same(_image(saved), want, "a state of Generator after later draws of what loaded it")
    made.set_state(saved)
    _spoiled(saved)
    _same([_image(made.uniform((2,))) for _ in range(3)], after, "draws after a write to a state")


def states_saved_once() -> Iterator[Check]:
    """Yield a check of each class that gives a state, if the packages are installed."""
    runs: list[tuple[str, Callable[[Place], None], Any]]
    runs = [("Generator", _generators, _generators)]
    if find_spec(PACKAGE) is not None and find_spec(_NN) is not None:
        runs += [(name, partial(_run, name), _run) for name in KINDS]
    for name, run, text in runs:
        yield Check(
            kind="state",
            subject=f"saved-once-{name.replace(' ', '-')}",
            tier="training",
            contract=CONTRACT,
            run=run,
            text=partial(inspect.getsource, text),
            dtypes=(float32, int32, int64, uint32, bool_),
            looks=True,
        )
