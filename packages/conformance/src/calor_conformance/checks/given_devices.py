"""Devices and dtypes that are given: what is made of operands elsewhere is there, and so typed.

Most programs have one device, so what forgets to pass it on is seen nowhere. Here another device is
the current one: functions of tensors, in each way to call them, distributions, layers, and all that
takes a ``device`` give what is on the device of the operands or on the one that was named. What a
file holds comes where it was asked for.
"""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable, Iterator
from functools import cache, partial, reduce
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.backends.device import Device, device_of
from calor.backends.numpy_backend import NumpyBackend
from calor.dtypes import bool_, float32, float64, int32, int64
from calor.errors import CalorError, DeviceError, UnsupportedError

from ..rows.functions.comparing import quiet, tensors
from ..rows.functions.drawing import Arguments, source
from ..rows.functions.printed import GIVEN
from ..rows.recorded.subjects import Subject, subjects
from .base import Check, Place
from .defaults import MODULES
from .evaluated_modules import PACKAGE, fitting

OPERANDS: Final = "what is computed of operands is on their device, whatever the current one is"
NAMED: Final = "what is made with a device and a dtype is there, of that dtype, and is the same"
_DRAWS: Final = 2
_SLOW: Final = ("calor_special", "calor.Tensor")
_COMPILED: Final = 40
_REFUSED: Final = (CalorError, TypeError, ValueError, IndexError, NotImplementedError,
                   AttributeError, OverflowError, ZeroDivisionError)  # fmt: skip


# The packages of functions; those of random numbers and of layers have other checks here.
_PACKAGES: Final = ("calor", "calor.Tensor", *(n for n in MODULES if n != "calor"))
_WITHOUT: Final = ("calor_distributions", "calor_nn", "calor_nn.init", "calor_nn.parametrize",
                   "calor.random", "calor_numerics.random")  # fmt: skip


class _Elsewhere(NumpyBackend):
    """The reference under another name, so that no program is on two devices by chance."""

    name = "elsewhere"


@cache
def _elsewhere() -> Device:
    return device_of(_Elsewhere(), 0)


def _tensors(made: Any) -> list[Any]:
    return [t for t in calor.tree.leaves(made) if isinstance(t, calor.Tensor)]


def _strays(made: Any, device: Device) -> list[Any]:
    """Return the tensors of a result that are not on a device, after all were computed."""
    found = _tensors(made)
    for one in found:
        one.numpy()
    return [one for one in found if one.device != device]


def _plain(subject: Subject, given: list[Any], options: dict[str, Any]) -> Any:
    return subject.call(*given, **options)


def _differentiated(subject: Subject, given: list[Any], options: dict[str, Any]) -> Any:
    """Return results and the gradients of their sum by the floating operands."""
    moved = [t for t in given if isinstance(t, calor.Tensor) and t.dtype.is_floating]
    for one in moved:
        one.requires_grad = True
    made = subject.call(*given, **options)
    sums = [calor.sum(calor.real(t).astype("float32")) for t in _tensors(made)
            if t.dtype.is_inexact and t.requires_grad]  # fmt: skip
    if sums:
        reduce(calor.add, sums).backward()
    return [made, *(one.grad for one in moved if one.grad is not None)]


def _jitted(subject: Subject, given: list[Any], options: dict[str, Any]) -> Any:
    return calor.jit(lambda given: subject.call(*given, **options))(given)


def _mapped(subject: Subject, given: list[Any], options: dict[str, Any]) -> Any:
    """Map over two copies of the tensors that are operands."""
    places = [n for n, one in enumerate(given) if isinstance(one, calor.Tensor)]

    def call(*moved: Any) -> Any:
        every = list(given)
        for n, one in zip(places, moved, strict=True):
            every[n] = one
        return subject.call(*every, **options)

    return calor.vmap(call)(*(calor.stack([given[n], given[n]]) for n in places))


def _beside_arrays(subject: Subject, given: list[Any], options: dict[str, Any]) -> Any:
    """Give all operands but the first as the host's arrays."""
    first = next(n for n, one in enumerate(given) if isinstance(one, calor.Tensor))
    rest = [one.numpy() if n != first and isinstance(one, calor.Tensor) else one
            for n, one in enumerate(given)]  # fmt: skip
    return subject.call(*rest, **options)


def _beside_numbers(subject: Subject, given: list[Any], options: dict[str, Any]) -> Any:
    """Give the first of several operands as a number."""
    first, *others = [n for n, one in enumerate(given) if isinstance(one, calor.Tensor)]
    rest = list(given)
    if others and given[first].size:
        rest[first] = given[first].numpy().flat[0].item()
    return subject.call(*rest, **options)


_WAYS: Final[tuple[Callable[[Subject, list[Any], dict[str, Any]], Any], ...]] = (
    _plain, _differentiated, _beside_arrays, _jitted, _mapped, _differentiated, _beside_numbers,
)  # fmt: skip


def _made(
    way: Any, subject: Subject, given: Arguments, place: Place, current: Device
) -> tuple[Any, Exception | None]:
    """Return what a call gives while a device is the current one, or why it does not."""
    with calor.device(place.device):
        positional = [tensors(one) for one in given[0]]
        options = {name: tensors(one) for name, one in given[1].items()}
    try:
        with calor.device(current), quiet():
            calor.random.seed(5)
            made = way(subject, positional, options)
            _strays(made, place.device)  # What fails does so when it is computed.
            return made, None
    except _REFUSED as error:
        return None, error


def _of_operands(package: str, place: Place) -> None:
    for number, subject in enumerate(_subjects(package)):
        if not place.tries(number, _COMPILED):
            continue
        rng = source([place.seed, 223, crc32(subject.label.encode())])
        for draw in range(1 if package in _SLOW else _DRAWS):
            given = subject.draw(rng)
            if not any(isinstance(one, np.ndarray) for one in given[0]):
                break
            way = _WAYS[(number + draw * 3 + place.seed) % len(_WAYS)]
            made, error = _made(way, subject, given, place, _elsewhere())
            what = f"{subject.label}{way.__name__}"
            own = package in ("calor", "calor.Tensor")
            if way is _beside_arrays and isinstance(error, DeviceError) and not own:
                continue  # It says so: an array is where it is put.
            if error is not None:
                _, here = _made(way, subject, given, place, place.device)
                assert here is not None, f"{what}, with another current device: {error!r}"
            strays = _strays(made, place.device)
            assert not strays, (
                f"{what}: a {strays[0].dtype} of {strays[0].shape} is on {strays[0].device}"
            )


@cache
def _subjects(package: str) -> list[Subject]:
    """Return the functions of a package, or the methods of tensors, once each and as rows tell."""
    return [one for one in subjects().values()
            if _package(one.label) == package and not one.label.startswith(_OWN)
            and "-at points" not in one.label]  # fmt: skip


# Rows that make tensors themselves, where they are called.
_OWN: Final = (
    *(f"calor.{kind}" for kind in ("creation-",)),
    "calor_linalg.svd_lowrank", "calor_linalg.pca_lowrank",
    *(f"calor_nn.functional.{name}" for name in ("dropout", "channel_dropout", "alpha_dropout",
      "feature_alpha_dropout", "rrelu", "gumbel_softmax")),
)  # fmt: skip


def _package(label: str) -> str:
    """Return the longest name of a package with which a label begins."""
    return max((p for p in _PACKAGES if label.startswith(f"{p}.")), key=len, default="")


def _takes_device(module: str) -> Iterator[tuple[str, Any]]:
    """Yield the public functions of a module that take a device: the name, and what returns it."""
    for name in sorted(getattr(import_module(module), "__all__", ())):
        one = getattr(import_module(module), name)
        if inspect.isfunction(one) and one.__module__.startswith(module.partition(".")[0]):
            kinds = inspect.signature(one).parameters
            if "device" in kinds and name not in _OTHER:
                yield name, partial(_same, one)
    for name in _OF_GENERATORS if module == "calor.random" else ():
        yield f"Generator.{name}", partial(_method_of_generator, name)


_OF_GENERATORS: Final = ("normal", "uniform")


def _same(function: Any) -> Any:
    return function


def _method_of_generator(name: str) -> Any:
    return getattr(calor.random.Generator(5), name)


# These take a device for something else, or have checks of their own.
_OTHER: Final = frozenset((
    "device", "memory", "profile", "set_memory_limit", "synchronize", "load", "from_dlpack", "bits",
))  # fmt: skip
# What required parameters get by their names; the rest has a default, or is a share.
_VALUES: Final[dict[str, Any]] = {
    "shape": (6, 4), "fill_value": 2, "start": 1, "stop": 5, "obj": [1.5, 2.5], "n_rows": 4, "n": 5,
    "count": 7, "length": 6, "ndim": 2, "low": 2, "high": 9, "value": 3.0, "number": 5, "std": 1.5,
    "a": 1.5, "b": 2.5, "alpha": 0.5,
    "df": 3.0, "rate": 4.0, "concentration": 2.0, "p": 0.5, "axis": -1, "beta": 3.0,
}  # fmt: skip
_BY_FUNCTION: Final[dict[str, dict[str, Any]]] = {
    "dirac": {"shape": (4, 4, 3)}, "general_cosine": {"a": [0.5, 0.5]},
    "uniform": {"low": 0.5, "high": 2.0}, "truncated_normal": {"low": -1.0, "high": 1.0},
    "dirichlet": {"concentration": [1.0, 2.0, 3.0]}, "binomial": {"n": 6},
}  # fmt: skip


def _needed(name: str, function: Any) -> dict[str, Any] | None:
    """Return values of the required parameters of a function, None if one is unknown."""
    made = {}
    for p in inspect.signature(function).parameters.values():
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            values = {**_VALUES, **_BY_FUNCTION.get(name, {})}
            if p.name == "x":
                made[p.name] = calor.asarray([[1.0, 2.0], [3.0, 4.0]])
            elif p.name in values:
                made[p.name] = values[p.name]
            else:
                return None
    return made


def _call(make: Any, given: dict[str, Any], **more: Any) -> Any:
    function = make()
    if "generator" in more:
        more["generator"] = calor.random.Generator(7)
    kinds = inspect.signature(function).parameters
    first = [v for n, v in given.items() if kinds[n].kind is inspect.Parameter.POSITIONAL_ONLY]
    rest = {
        n: v for n, v in given.items() if kinds[n].kind is not inspect.Parameter.POSITIONAL_ONLY
    }
    calor.random.seed(5)
    return function(*first, **rest, **more)


def _named(module: str, place: Place) -> None:
    """Make things on the device while another is current, and there without a name."""
    for name, make in _takes_device(module):
        with calor.device(_elsewhere()):
            kinds = inspect.signature(make()).parameters
            given = _needed(name, make())
            if given is None:
                continue
            for dtype in (None, *_DTYPES) if "dtype" in kinds else (None,):
                more = {} if dtype is None else {"dtype": dtype}
                _both(f"{module}.{name}", make, given, more, place)
            if "generator" in kinds:
                _both(f"{module}.{name}", make, given, {"generator": True}, place)


_DTYPES: Final = (float64, float32, int32)


def _both(what: str, make: Any, given: dict[str, Any], more: Any, place: Place) -> None:
    try:
        made = _call(make, given, **more, device=place.device)
    except _REFUSED as error:
        with calor.device(place.device):
            there = {n: v.to(place.device) if isinstance(v, calor.Tensor) else v
                     for n, v in given.items()}  # fmt: skip
            try:
                _call(make, there, **more)
            except _REFUSED:
                return
        raise AssertionError(f"{what} on a given device: {error!r}") from error
    strays = _strays(made, place.device)
    assert not strays, f"{what}, {more}: it is on {strays[0].device}, not {place.device}"
    for one in _tensors(made) if "dtype" in more else ():
        assert one.dtype is more["dtype"], f"{what}, {more}: its dtype is {one.dtype}"
    with calor.device(place.device):
        there = {n: v.to(place.device) if isinstance(v, calor.Tensor) else v
                 for n, v in given.items()}  # fmt: skip
        same = _call(make, there, **more)
    for a, b in zip(_tensors(made), _tensors(same), strict=True):
        alike = a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()
        assert alike or what == "calor.empty", f"{what}, {more}: other numbers with a device named"


# What keeps models small whose arguments all have defaults.
_SMALL: Final = {"d_model": 8, "nhead": 2, "num_encoder_layers": 1, "num_decoder_layers": 1,
                 "dim_feedforward": 12, "max_len": 16, "batch_size": 2, "head_dim": 4,
                 "value_dim": 6}  # fmt: skip


def _layers(place: Place) -> None:
    package = import_module(PACKAGE)
    for number, name in enumerate(sorted(package.__all__)):
        kind = getattr(package, name)
        every = inspect.signature(kind).parameters if inspect.isclass(kind) else {}
        needed = {n: p for n, p in every.items() if p.default is p.empty}
        if "device" not in every or not needed.keys() <= {*GIVEN, *_SMALL}:
            continue
        if not place.tries(number, _COMPILED):
            continue
        rng = np.random.default_rng([place.seed, number, 227])
        given = {n: GIVEN[n] for n in needed if n in GIVEN}
        given |= {n: v for n, v in _SMALL.items() if n in every}
        # One option or the other is given too.
        for n, p in every.items():
            if isinstance(p.default, bool) and rng.random() < 0.3:
                given[n] = not p.default
        _layer(name, kind, given, rng, place)


def _layer(
    name: str, kind: Any, given: dict[str, Any], rng: np.random.Generator, place: Place
) -> None:
    def made(**more: Any) -> Any:
        calor.random.seed(5)
        return kind(**given, **more)

    wide = place.device.info.supports("add", float64)
    dtype = float64 if wide else float32
    try:
        with calor.device(place.device):
            same = made(dtype=dtype)
    except _REFUSED:
        return
    with calor.device(_elsewhere()):
        layer = made(device=place.device, dtype=dtype)
    held = _held(layer)
    for n, tensor in held.items():
        what = f"{name}(**{given}).{n}"
        assert tensor.device == place.device, f"{what} is on {tensor.device}"
        assert not tensor.dtype.is_inexact or tensor.dtype is dtype, f"{what} is {tensor.dtype}"
        other = _held(same)[n].numpy()
        assert tensor.numpy().tobytes() == other.tobytes(), f"{what} begins with other numbers"
    if not hasattr(layer, "forward"):
        return
    with calor.device(place.device):
        layer = made(device=place.device).eval()
        operands = fitting(layer, rng)
    if operands is not None:
        with calor.device(_elsewhere()):
            strays = _strays(layer(*operands), place.device)
        assert not strays, f"{name}(**{given}): its result is on {strays[0].device}"


def _held(layer: Any) -> dict[str, Any]:
    if not hasattr(layer, "named_parameters"):
        return {f"[{n}]": t for n, t in enumerate(_tensors(vars(layer)))}
    return dict([*layer.named_parameters(), *layer.named_buffers()])


def _distributions(place: Place) -> None:
    package = import_module("calor_distributions")
    for number, subject in enumerate(subjects().values()):
        if _package(subject.label) != "calor_distributions" or not place.tries(number, _COMPILED):
            continue
        name = subject.label.rpartition(".")[2].partition("-")[0]
        rng = source([place.seed, 229, crc32(name.encode())])
        for _ in range(1):
            given, options = subject.draw(rng)
            kind: Any = (np.float16, np.float32, np.float64)[int(rng.integers(3))]
            given = [_as(one, kind) for one in given]
            options = {n: _as(one, kind) for n, one in options.items()}
            told = [_asked(getattr(package, name), given, options, place, current)
                    for current in (_elsewhere(), place.device)]  # fmt: skip
            for (what, got), (_, want) in zip(*told, strict=True):
                assert not _odd(got, kind), (
                    f"{name} of {kind.__name__}: {what} is {_odd(got, kind)}"
                )
                assert got == want, (
                    f"{name}(*{given}, **{options}).{what}: {got}, with another current device; "
                    f"{want} with this one"
                )


def _as(one: Any, kind: Any) -> Any:
    """Return numbers as an array, whose device is then that of the distribution."""
    if isinstance(one, float | np.ndarray) and np.asarray(one).dtype.kind == "f":
        with quiet():
            return np.asarray(one, kind)
    return one


_ASKED: Final = ("mean", "variance", "stddev", "mode")


def _asked(kind: Any, given: Any, options: Any, place: Place, current: Device) -> list[Any]:
    """Return what a distribution tells by name: dtypes, shapes and devices, or kinds of errors."""
    with calor.device(place.device):
        given = [tensors(one) for one in given]
        options = {n: tensors(one) for n, one in options.items()}
        key = calor.random.key(3)
    with calor.device(current), quiet():
        calor.random.seed(5)
        try:
            made = kind(*given, **options)
        except _REFUSED as error:
            return [("made", type(error).__name__)]
        drawn = partial(_drawn, made)
        asks: dict[str, Callable[[], Any]] = {
            **{n: partial(getattr, made, n) for n in _ASKED},
            "entropy": lambda: made.entropy(),
            "sample": lambda: drawn("sample", 3),
            "sample with a key": lambda: made.sample((3,), key=key),
            "rsample": lambda: drawn("rsample", 2),
            "log_prob": lambda: made.log_prob(drawn("sample", 2)),
            "log_prob of a number": lambda: made.log_prob(1),
            "cdf": lambda: made.cdf(drawn("sample", 2)),
            "cdf of a number": lambda: made.cdf(0.5),
            "cdf of an array": lambda: made.cdf(np.array([0.5])),
            "survival of a number": lambda: made.survival(0.5),
            "icdf of a number": lambda: made.icdf(0.25),
        }
        return [(name, _told(ask)) for name, ask in asks.items()]


def _odd(told: Any, kind: Any) -> str:
    """Return a floating dtype among what was told that is not that of the parameters."""
    named = (one[0] for one in told) if isinstance(told, list) else ()
    return next((n for n in named if n.startswith("float") and n != kind.__name__), "")


def _drawn(made: Any, name: str, count: int) -> Any:
    calor.random.seed(count)
    return getattr(made, name)((count,))


def _told(ask: Callable[[], Any]) -> Any:
    try:
        return [
            (t.dtype.name, t.shape, t.device.name, t.numpy().tobytes()) for t in _tensors(ask())
        ]
    except UnsupportedError:
        raise
    except _REFUSED as error:
        return type(error).__name__


def _files(place: Place) -> None:
    """Store a tree, and read it while another device is the current one."""
    with calor.device(place.device):
        tree = {"a": calor.asarray([1.5, 2.5]), "b": [calor.asarray([[1, 2]]), 3]}
        stream = io.BytesIO()
        calor.save(tree, stream)
    for current in (_elsewhere(), place.device):
        for wanted in (None, place.device, _elsewhere()):
            stream.seek(0)
            with calor.device(current):
                options = {} if wanted is None else {"device": wanted}
                made = calor.load(stream, **options)
                strays = _strays(made, wanted or current)
            assert not strays, f"a file read for {wanted} on {current}: it is on {strays[0].device}"


def given_devices() -> Iterator[Check]:
    """Yield the checks of each package whose functions or layers take operands or a device."""
    for name in _PACKAGES:
        if find_spec(name.removesuffix(".Tensor").partition(".")[0]) is None:
            continue
        if name not in _WITHOUT:
            yield _check(f"operands-of-{name}", OPERANDS, partial(_of_operands, name), _made)
        if name != "calor.Tensor" and any(_takes_device(name)):
            yield _check(f"named-in-{name}", NAMED, partial(_named, name), _both)
    yield _check("files", NAMED, _files, _files)
    if find_spec(PACKAGE) is not None:
        yield _check("layers", NAMED, _layers, _layer)
    if find_spec("calor_distributions") is not None:
        yield _check("distributions", OPERANDS, _distributions, _asked)


def _check(subject: str, contract: str, run: Callable[[Place], None], text: Any) -> Check:
    return Check(
        kind="devices",
        subject=f"given-{subject}",
        tier="full",
        contract=contract,
        run=run,
        text=partial(inspect.getsource, text),
        dtypes=(float32, int32, int64, bool_),
        looks=True,
    )
