"""What trains in its other forms: defaults, half and complex parameters, loaders, and refusals.

Steps of half types are computed in float32 and rounded once, steps of complex parameters are those
of their parts, and batches are the same whoever makes them, from whatever samples.
"""

from __future__ import annotations

import csv
import inspect
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import bfloat16, bool_, complex64, float16, float32, int32, int64
from calor.errors import ArgumentError, CalorError

from ..rows.functions.comparing import compare, wide
from ..rows.functions.drawing import Rng, a_shape, source
from .base import Array, Check, Place
from .errors import raised
from .optimizer_formulas import DEFAULTS, REAL_ONLY
from .training import _RULES, CONTRACT, PACKAGE

# Defaults are those of the field.
_DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "SGD": {"lr": 1e-3, "momentum": 0.0, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False},
    "Adam": {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0,
             "amsgrad": False},
    "AdamW": {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1e-2,
              "amsgrad": False},
    **DEFAULTS,
}  # fmt: skip
_NEAR: Final = {float16: 2e-3, bfloat16: 2e-2}


def _steps(
    name: str, optimizer: Any, p: Any, how: dict[str, Any], rng: Rng, what: str, near: float = 2e-5
) -> None:
    """Compare a few steps of one parameter with the rule, rounded as the parameter is."""
    rule, kind = _RULES[name][0], p.dtype
    want = wide(p.numpy()).astype(np.float64)
    state: dict[str, Any] = {}
    for turn in range(4):
        g = np.asarray(rng.normal(size=want.shape), np.float32).astype(kind.numpy)
        p.grad = calor.asarray(g)
        optimizer.step()
        made = rule(want, wide(g).astype(np.float64), state, how, turn + 1)
        want = wide(made.astype(kind.numpy)).astype(np.float64)
        found = p.numpy()
        assert p.dtype is kind, f"{what} is {p.dtype.name} after a step"
        compare(wide(found), want, f"{what} after step {turn + 1}", near)


def _plain(package: Any, rng: Rng, place: Place) -> None:
    """Arguments by place, by name, and left out."""
    for name, defaults in _DEFAULTS.items():
        how = _RULES[name][1](rng)
        names = list(defaults)
        every = {**defaults, **how}
        given = [
            ({}, [], defaults), (how, [], every), ({}, [every[n] for n in names], every),
        ]  # fmt: skip
        for options, places, meant in given:
            start = np.asarray(rng.normal(size=(3,)), np.float32)
            p = calor.asarray(start, requires_grad=True)
            optimizer = getattr(package, name)([p], *places, **options)
            _steps(name, optimizer, p, meant, rng, f"{name} of {places or options or 'defaults'}")


def _halves(package: Any, rng: Rng, place: Place) -> None:
    for kind in (float16, bfloat16):
        if not place.plain.info.dtypes.get(kind):
            continue
        for name, (_, settings) in _RULES.items():
            how = settings(rng)
            how |= {"weight_decay": 0.1} if "weight_decay" in how else {}
            p = calor.asarray(np.asarray(rng.normal(size=(5,))).astype(kind.numpy),
                              requires_grad=True)  # fmt: skip
            optimizer = getattr(package, name)([p], **how)
            _steps(name, optimizer, p, how, rng, f"{name} of {how} in {kind.name}", _NEAR[kind])
        # Steps below the precision add up in master weights, and are lost without.
        for master in (True, False):
            p = calor.asarray(np.ones(2).astype(kind.numpy), requires_grad=True)
            optimizer = package.SGD([p], lr=2e-4, master_weights=master)
            for _ in range(100):
                p.grad = calor.asarray(np.ones(2).astype(kind.numpy))
                optimizer.step()
            want = 0.98 if master else 1.0
            assert np.abs(wide(p.numpy()) - want).max() < 6e-3, (
                f"100 small steps in {kind.name}, master_weights={master}: {p}, not {want}"
            )
        g = np.full(3, 4.0).astype(kind.numpy)
        norm = package.global_norm([calor.asarray(g)])
        assert norm.dtype is float32, f"a norm of {kind.name} is {norm.dtype.name}"
        made, _ = package.clip_by_global_norm([calor.asarray(g)], 1.0)
        assert made[0].dtype is kind, f"clipped {kind.name} is {made[0].dtype.name}"
        compare(wide(made[0].numpy()), np.full(3, 3**-0.5), f"clipped {kind.name}", _NEAR[kind])


def _complex(package: Any, rng: Rng, place: Place) -> None:
    if not place.plain.info.dtypes.get(complex64):
        return
    for name, (rule, settings) in _RULES.items():
        how = settings(rng)
        if name in REAL_ONLY:
            continue
        parts = rng.normal(size=(3, 2))
        p = calor.asarray((parts[:, 0] + 1j * parts[:, 1]).astype(np.complex64),
                          requires_grad=True)  # fmt: skip
        optimizer = getattr(package, name)([p], **how)
        state: dict[str, Any] = {}
        for turn in range(3):
            g = rng.normal(size=(3, 2)).astype(np.float32).astype(np.float64)
            p.grad = calor.asarray((g[:, 0] + 1j * g[:, 1]).astype(np.complex64))
            optimizer.step()
            parts = rule(parts, g, state, how, turn + 1)
            compare(p.numpy(), parts[:, 0] + 1j * parts[:, 1],
                    f"{name} of {how}, complex, after step {turn + 1}")  # fmt: skip


def _updates(package: Any, rng: Rng, place: Place) -> None:
    """Gradients in a tree beside that of the parameters, of which some may be missing."""
    arrays = [np.asarray(rng.normal(size=a_shape(rng, 0, 2)), np.float32) for _ in range(3)]
    tensors = [calor.asarray(a, requires_grad=True) for a in arrays]
    optimizer = package.SGD(tensors, 0.5)
    grads = [np.asarray(rng.normal(size=a.shape), np.float32) for a in arrays]
    missing = int(rng.integers(3))
    given = [None if n == missing else calor.asarray(g) for n, g in enumerate(grads)]
    optimizer.update(tensors, given)
    for n, (t, a, g) in enumerate(zip(tensors, arrays, grads, strict=True)):
        want = a.astype(np.float64) - (0 if n == missing else 0.5) * g
        compare(t.numpy(), want, f"parameter {n} after an update without gradient {missing}")
        t.grad = calor.asarray(g)
    optimizer.zero_grad(set_to_none=False)
    assert all((t.grad is not None and not t.grad.numpy().any()) for t in tensors), (
        "zero_grad(set_to_none=False) leaves no gradients of zeros"
    )
    optimizer.zero_grad()
    assert all(t.grad is None for t in tensors), "zero_grad leaves gradients"


# Samples of every structure, and what a batch of them is.
def _samples(rng: Rng, count: int) -> list[Any]:
    return [
        {
            "image": np.asarray(rng.normal(size=(2, 3)), np.float32), "number": n, "share": n / 4,
            "known": n % 2 == 0, "pair": (n, [float(n), str(n)]),
        }
        for n in range(count)
    ]  # fmt: skip


def _same_batch(batch: Any, samples: list[Any], what: str) -> None:
    image = np.stack([s["image"] for s in samples])
    for name, want, kind in (
        ("image", image, np.float32), ("number", [s["number"] for s in samples], np.int64),
        ("share", [s["share"] for s in samples], np.float32),
        ("known", [s["known"] for s in samples], np.bool_),
    ):  # fmt: skip
        got = batch[name].numpy()
        assert got.dtype == kind, f"{what}, {name}: {got.dtype}"
        assert np.array_equal(got, np.asarray(want, kind)), f"{what}, {name}: {got}, not {want}"
    number, (real, text) = batch["pair"]
    assert isinstance(batch["pair"], tuple), f"{what}: a pair became {type(batch['pair'])}"
    assert number.tolist() == [s["number"] for s in samples], f"{what}: {number}"
    assert real.tolist() == [float(s["number"]) for s in samples], f"{what}: {real}"
    assert list(text) == [str(s["number"]) for s in samples], f"{what}: {text}"


def _loading(package: Any, rng: Rng, place: Place) -> None:
    count, size = int(rng.integers(9, 20)), int(rng.integers(1, 4))
    samples = _samples(rng, count)
    loader = package.DataLoader(samples, size, workers=int(rng.integers(0, 3)),
                                prefetch=int(rng.integers(1, 3)))  # fmt: skip
    for _ in range(2):
        batches = list(loader)
        assert len(batches) == -(-count // size), f"{count} by {size}: {len(batches)} batches"
        for k, batch in enumerate(batches):
            told = f"batch {k} of {count} samples by {size}"
            _same_batch(batch, samples[k * size : (k + 1) * size], told)
    assert [int(v) for b in package.DataLoader(list(range(3))) for v in b.numpy()] == [0, 1, 2]
    # Augmentation is that of the seed, the epoch and the batch, whoever makes it.
    data = package.ArrayDataset(np.zeros((count, 2), np.float32), np.arange(count))

    def noisy(batch: Any, generator: np.random.Generator) -> Any:
        return generator.random(batch[0].shape).astype(np.float32), batch[1]

    def run(workers: int, seed: int) -> list[list[Array]]:
        loader = package.DataLoader(data, size, shuffle=True, seed=seed, transform=noisy,
                                    workers=workers)  # fmt: skip
        return [[x.numpy() for x, _ in loader] for _ in range(2)]

    one, other, apart = run(0, 7), run(2, 7), run(0, 8)
    for a, b in zip(one, other, strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True)), "workers change noise"
    every = [x for epoch in (*one, *apart) for x in epoch]
    firsts = {float(x[0, 0]) for x in every}
    assert len(firsts) == len(every), "two batches have the same noise"
    # The sum of each batch, by a function of the caller.
    loader = package.DataLoader(data, size, collate=lambda some: np.int64(len(some)))
    assert sum(int(n) for n in loader) == count
    _resumed(package, data, size, int(rng.integers(0, 3)))


def _resumed(package: Any, data: Any, size: int, workers: int) -> None:
    """A loader that stops in its second epoch, and another that goes on."""

    def numbers(loader: Any) -> list[list[int]]:
        return [batch[1].numpy().tolist() for batch in loader]

    options = {"shuffle": True, "seed": 3, "workers": workers}
    whole = package.DataLoader(data, size, **options)
    wants = [numbers(whole) for _ in range(3)]
    loader = package.DataLoader(data, size, **options)
    assert numbers(loader) == wants[0]
    iterator = iter(loader)
    for k in range(2):
        assert next(iterator)[1].numpy().tolist() == wants[1][k], "the second epoch has changed"
    other = package.DataLoader(data, size, **options)
    other.load_state_dict(loader.state_dict())
    found = numbers(other)
    assert found == wants[1][2:], (
        f"after 2 batches of the second epoch: {found}, not {wants[1][2:]}"
    )
    assert numbers(other) == wants[2], "the epoch after one that was resumed has changed"
    last = package.DataLoader(data, size, **options)
    last.load_state_dict(other.state_dict())
    assert last.state_dict()["epoch"] == 3, f"{last.state_dict()} after three epochs"


def _disabled(package: Any, rng: Rng, place: Place) -> None:
    scaler = package.GradScaler(8.0, enabled=False)
    p = calor.asarray(np.arange(1, 3, dtype=np.float32), requires_grad=True)
    optimizer = package.SGD([p], 0.5)
    loss = calor.sum(p)
    assert scaler.scale(loss).item() == 3.0, "a scaler that is not enabled scales"
    assert scaler.get_scale() == 1.0
    assert not scaler.is_enabled()
    assert scaler.state_dict() == {}
    p.grad = calor.asarray(np.array([1, np.inf], np.float32))
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [0.5, -np.inf], f"a step that is not looked at: {p.tolist()}"
    scaler = package.GradScaler(8.0)
    scaler.update(new_scale=3.0)
    assert scaler.get_scale() == 3.0, f"a scale of 3 is {scaler.get_scale()}"
    assert package.GradScaler().get_scale() == 65536.0


def _details(package: Any, rng: Rng, place: Place) -> None:
    """What is named, counted, and given by names, modules and seeds."""
    p = package
    state = p.GradScaler(4.0, 3.0, 0.125, 5).state_dict()
    scaler = p.GradScaler(1.0)
    scaler.load_state_dict(state)
    assert scaler.state_dict() == state, f"a state {state} is loaded as {scaler.state_dict()}"
    names = {
        p.Accuracy(): "accuracy", p.TopK(3): "top3", p.TopK(2, "two"): "two", p.Loss(): "loss",
        p.ConfusionMatrix(2): "confusion", p.RunningMean("r"): "r",
    }  # fmt: skip
    for metric, name in names.items():
        assert metric.name == name, f"{type(metric).__name__} is named {metric.name!r}, not {name}"
    for level in (0.0, 0.5):
        y = np.array([-1.0, 0.2, 0.7, level, 0.9], np.float32)
        t = np.array([0, 1, 1, 0, 0], np.int32)
        share = p.Accuracy(threshold=level)
        share.update(calor.asarray(y), calor.asarray(t), calor.asarray(np.float32(0)))
        want = np.mean((y > level) == (t > 0.5))
        assert abs(share.compute() - want) < 1e-6, f"{share.compute()} of {y} above {level}"
    assert p.Constant().table(3) == [1.0, 1.0, 1.0], "rates of no base are those of 1"
    data = p.ArrayDataset(np.zeros((4, 2)), np.arange(4))
    assert len(data) == 4, f"4 samples of 2 numbers are {len(data)}"
    part = p.Subset(data, [-1, 0])
    assert [int(part[k][1]) for k in range(2)] == [3, 0], "negative numbers count from the end"
    parts = p.random_split(data, [1, 3], seed=3)
    found = [int(one[k][1]) for one in parts for k in range(len(one))]
    assert [len(one) for one in parts] == [1, 3], "parts have other lengths"
    assert sorted(found) == [0, 1, 2, 3], f"parts hold {found}"
    orders = []
    for seed in (1, 1, 2):
        calor.random.seed(seed)
        orders.append(p.DataLoader(list(range(40)), shuffle=True).order(0).tolist())
    assert orders[0] == orders[1] != orders[2], "the global seed does not decide on the order"
    w = calor.asarray(np.ones(2, np.float32), requires_grad=True)
    named = p.SGD([("weight", w)], 0.5)
    named.update([w], [calor.asarray(np.ones(2, np.float32))])
    assert w.tolist() == [0.5, 0.5], f"a named parameter is {w.tolist()} after a step"
    _tabled(package, rng)


def _tabled(package: Any, rng: Rng) -> None:
    """A table has a column for each name of any row, in the order of their coming."""
    names = ["epoch", "loss", "valid_loss", "a, b", "lr"]
    rows = [{"epoch": n, **{k: n / 4 for k in names[1:] if rng.random() < 0.5}} for n in range(5)]
    with tempfile.TemporaryDirectory() as folder:
        log = package.CSVLog(Path(folder) / "within" / "history.csv")
        log.on_fit_begin(SimpleNamespace(history=[]))
        for n in range(1, 6):
            log.on_epoch_end(SimpleNamespace(history=rows[:n]))
            with log.path.open(newline="") as file:
                found = list(csv.DictReader(file))
            columns = list(dict.fromkeys(k for row in rows[:n] for k in row))
            wants = [{k: str(row.get(k, "")) for k in columns} for row in rows[:n]]
            assert found == wants, f"a table of {found}, not {wants}"
            left = [p.name for p in log.path.parent.iterdir()]
            assert left == ["history.csv"], f"beside a table there are {left}"


def _made(name: str, given: tuple[Any, ...], package: Any, w: Any) -> Any:
    return getattr(package, name)(*given)


_REFUSED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "a negative rate": lambda p, w: p.SGD([w], lr=-1.0),
    "a negative momentum": lambda p, w: p.SGD([w], momentum=-0.1),
    "a negative decay": lambda p, w: p.Adam([w], weight_decay=-0.1),
    "nesterov without momentum": lambda p, w: p.SGD([w], nesterov=True),
    "nesterov with dampening": lambda p, w: p.SGD([w], momentum=0.9, dampening=0.1, nesterov=True),
    "beta of 1": lambda p, w: p.Adam([w], betas=(1.0, 0.9)),
    "beta below 0": lambda p, w: p.AdamW([w], betas=(0.9, -0.1)),
    "no parameters": lambda p, w: p.SGD([]),
    "a tensor": lambda p, w: p.SGD(w),
    "an unknown option": lambda p, w: p.SGD([{"params": [w], "speed": 1.0}]),
    "a parameter twice": lambda p, w: p.SGD([{"params": [w]}, {"params": [w]}]),
    "integers": lambda p, w: p.SGD([calor.asarray(np.arange(3, dtype=np.int32))]),
    "a negative limit": lambda p, w: p.clip_by_global_norm([w], -1.0),
    "a negative bound": lambda p, w: p.clip_by_value([w], -1.0),
    "a norm of 0": lambda p, w: p.global_norm([w], 0.0),
    "no gradient": lambda p, w: p.clip_grad_norm_([w], 1.0),
    **{f"{name}{given}": partial(_made, name, given) for name, given in (
        ("StepDecay", (0,)), ("Cosine", (0,)), ("CosineRestarts", (0,)),
        ("CosineRestarts", (2, 0)), ("LinearWarmup", (0,)), ("LinearRamp", (0,)),
        ("Polynomial", (0,)), ("OneCycle", (1,)), ("OneCycle", (5, 1.5)), ("OneCycle", (5, -0.1)),
        ("OneCycle", (5, 0.3, "cubic")), ("MultiStep", ((3, 2),)), ("Chained", ()),
        ("Joined", ([], [1])), ("TopK", (0,)), ("ConfusionMatrix", (0,)), ("GradScaler", (0.0,)),
        ("GradScaler", (1.0, 1.0)), ("GradScaler", (1.0, 2.0, 1.0)),
        ("GradScaler", (1.0, 2.0, 0.0)), ("GradScaler", (1.0, 2.0, 0.5, 0)),
        ("DataLoader", ([1, 2], 0)), ("DataLoader", ([1, 2], 1.5)), ("Subset", ([1, 2], [2])),
        ("Subset", ([1, 2], [-3])), ("ArrayDataset", ([1, 2], [1])))},
    "milestones that fall": lambda p, w: p.Joined([p.Constant()] * 3, [3, 2]),
    "no schedule": lambda p, w: p.Scheduler(p.SGD([w])),
    "fading by 1": lambda p, w: p.RunningMean("x", decay=1.0),
    "fading below 0": lambda p, w: p.RunningMean("x", decay=-0.1),
    "workers below 0": lambda p, w: p.DataLoader([1, 2], workers=-1),
    "nothing ahead": lambda p, w: p.DataLoader([1, 2], prefetch=0),
    "a seed below 0": lambda p, w: p.DataLoader([1, 2], shuffle=True, seed=-1),
    "a position too far": lambda p, w: p.DataLoader([1, 2]).load_state_dict(
        {"seed": 0, "epoch": 0, "position": 3}),
    "samples of several lengths": lambda p, w: p.default_collate([(1, 2), (1,)]),
}  # fmt: skip
# What is just inside of what is refused.
_ALLOWED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "beta of 0": lambda p, w: p.Adam([w], betas=(0.0, 0.0)),
    "a rate of 0": lambda p, w: p.SGD([w], lr=0.0),
    "one step": lambda p, w: (p.StepDecay(1), p.Cosine(1), p.LinearWarmup(1), p.OneCycle(2)),
    "shares at the ends": lambda p, w: (p.OneCycle(5, 0.0), p.OneCycle(5, 1.0)),
    "the smallest": lambda p, w: (p.TopK(1), p.ConfusionMatrix(1), p.RunningMean("x", decay=0.0)),
    "the last position": lambda p, w: p.DataLoader([1, 2]).load_state_dict(
        {"seed": 0, "epoch": 0, "position": 2}),
    "a limit of 0": lambda p, w: p.clip_by_global_norm([w], 0.0),
}  # fmt: skip


def _refusals(package: Any, rng: Rng, place: Place) -> None:
    for what, call in _REFUSED.items():
        w = calor.asarray(np.ones(3, np.float32), requires_grad=True)
        error = raised(partial(call, package, w))
        assert isinstance(error, CalorError), f"{what} is not refused: {error!r}"
    for what, call in _ALLOWED.items():
        w = calor.asarray(np.ones(3, np.float32), requires_grad=True)
        try:
            call(package, w)
        except ArgumentError as error:
            raise AssertionError(f"{what} is refused: {error}") from error


# Each way with the number of its turns.
_SUBJECTS: Final[dict[str, tuple[Callable[[Any, Rng, Place], None], int]]] = {
    "arguments": (_plain, 2), "half-parameters": (_halves, 1), "complex-parameters": (_complex, 1),
    "updates": (_updates, 3), "loading": (_loading, 3), "scaling-switched-off": (_disabled, 1),
    "details": (_details, 1), "refusals": (_refusals, 1),
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    package = import_module(PACKAGE)
    run, turns = _SUBJECTS[name]
    for turn in range(turns):
        run(package, source([place.seed, crc32(name.encode()), turn]), place)


def checks_of(
    subjects: Mapping[str, tuple[Callable[..., Any], Any]],
    run: Callable[[str, Place], None],
    contract: str,
) -> Iterator[Check]:
    """Yield a check of training for each subject, if the package is installed."""
    if find_spec(PACKAGE) is None:
        return
    for name, (told, _) in subjects.items():
        yield Check(
            kind="functions",
            subject=f"{PACKAGE}.{name}",
            tier="training",
            contract=contract,
            run=partial(run, name),
            text=partial(inspect.getsource, told),
            dtypes=(float32, int32, int64, bool_),
            looks=True,
        )


def training_forms() -> Iterator[Check]:
    """Yield a check of each form, if the package is installed."""
    yield from checks_of(_SUBJECTS, _run, CONTRACT)
