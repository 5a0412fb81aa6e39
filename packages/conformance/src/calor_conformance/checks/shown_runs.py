"""What is shown of training: paces, texts, lines, the live screen, plots and interruptions.

Clocks are set by hand, screens write into memory, and axes note what is drawn on them, so each
text and point is compared with the one that the history and the clock give.
"""

from __future__ import annotations

import contextlib
import io
import math
import re
import signal
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.errors import ArgumentError

from ..rows.functions.drawing import Rng, coin, source
from .base import Place
from .training import PACKAGE
from .training_forms import checks_of

CONTRACT: Final = "what is shown of a run is its numbers, and how long it took and will take"


class _Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 10.0

    def __call__(self) -> float:
        return self.now


def _paces(package: Any, rng: Rng, place: Place) -> None:
    """Throughput of the last seconds, and the time left, of drawn batches and evaluations."""
    pace, clock = import_module(f"{PACKAGE}.pace"), _Clock()
    made = pace.Pace(clock)
    started, timed, spent, evaluated = clock.now, 0, 0.0, 0.0
    last: float | None = None
    points: list[tuple[float, int]] = []
    samples = batches = 0
    for _ in range(int(rng.integers(3, 25))):
        kind = rng.random()
        clock.now += float(rng.choice([0.25, 1.0, 3.0]))
        if kind < 0.75:
            count = int(rng.integers(1, 9))
            made.batch(count)
            samples, batches = samples + count, batches + 1
            if last is not None and batches > 1:
                spent, timed = spent + clock.now - last, timed + 1
            last = clock.now
            points = ([] if batches == 1 else points) + [(clock.now, samples)]
            while len(points) > 2 and clock.now - points[0][0] > pace.WINDOW:
                points.pop(0)
        elif kind < 0.9:
            begin = clock.now
            made.evaluation_began()
            clock.now += float(rng.choice([0.5, 2.0]))
            made.evaluation_ended()
            evaluated = clock.now - begin
        else:
            made.resume()
            last, points = clock.now, [(clock.now, samples)]
        elapsed = clock.now - started
        assert made.elapsed == elapsed, f"{made.elapsed} s since the start, not {elapsed}"
        rate = math.nan
        if len(points) > 1 and points[-1][0] > points[0][0]:
            rate = (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])
        got = made.samples_per_second
        assert got == rate or (got != got and rate != rate), f"{got} samples/s, not {rate}"
        want = 7 * spent / timed + 2 * evaluated if timed else math.nan
        left = made.left(7, 2)
        assert abs(left - want) < 1e-9 or (left != left and want != want), f"{left}, not {want}"
        assert math.isnan(made.left(None, 2)), "what is not known is told"


def _texts(package: Any, rng: Rng, place: Place) -> None:
    """Durations and numbers as texts, read again."""
    duration = import_module(f"{PACKAGE}.pace").duration
    number_text = import_module(f"{PACKAGE}.screens").number_text
    seconds = float(10.0 ** rng.uniform(-4, 5.5))
    text = duration(seconds)
    parts = text.split(":")
    if text.endswith(" ms"):
        value, near, within = float(text[:-3]) / 1e3, 5.1e-4, (0.0, 0.1)
    elif text.endswith(" s"):
        value, within = float(text[:-2]), (0.1, 60.0)
        near = 0.051 if "." in text else 0.51
        assert ("." in text) == (seconds < 10), f"{seconds} s are {text!r}"
    else:
        value = sum(int(p) * 60**n for n, p in enumerate(reversed(parts)))
        near, within = 0.51, (59.4, math.inf)
        assert all(len(p) == 2 for p in parts[1:]), f"{seconds} s are {text!r}"
        assert (len(parts) == 3) == (round(seconds) >= 3600), f"{seconds} s are {text!r}"
    assert within[0] <= seconds < within[1], f"{seconds} s are {text!r}"
    assert abs(value - seconds) <= near, f"{seconds} s are {text!r}"
    for none in (math.nan, math.inf, -math.inf):
        assert duration(none) == "?", duration(none)
    value = float(rng.choice([-1, 1]) * 10.0 ** rng.uniform(-6, 7))
    text = number_text(value)
    plain = 1e-3 <= abs(value) < 1e4
    assert ("e" in text) != plain, f"{value} is {text!r}"
    assert abs(float(text) - value) <= (5.1e-5 if plain else 0.0051 * abs(value)), text
    assert (number_text(0.0), number_text(math.inf)) == ("0.0000", "inf")


def _learner(package: Any, rng: Rng, **options: Any) -> tuple[Any, list[Any], list[Any]]:
    """Return a learner of a classifier, and batches to train and to evaluate on."""
    nn = import_module("calor_nn")
    model = nn.Linear(3, 4)
    metrics = [package.Accuracy()] if coin(rng) else []
    learner = package.Learner(
        model, package.SGD(model, 0.05), nn.functional.cross_entropy, metrics=metrics, jit=False,
        **options,
    )  # fmt: skip

    def batches(count: int) -> list[Any]:
        return [
            (np.asarray(rng.normal(size=(2, 3)), np.float32), rng.integers(0, 4, 2))
            for _ in range(count)
        ]

    return learner, batches(int(rng.integers(1, 5))), batches(int(rng.integers(1, 3)))


def _lines(package: Any, rng: Rng, place: Place) -> None:
    """One line for each epoch with the numbers of its row, and one at the end."""
    learner, train, valid = _learner(package, rng, display="lines")
    epochs, validates = int(rng.integers(1, 4)), coin(rng)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        learner.fit(train, valid if validates else None, epochs=epochs)
    *rows, last = out.getvalue().splitlines()
    assert last.startswith(f"finished {epochs} of {epochs} epochs in "), last
    assert len(rows) == epochs, f"{len(rows)} lines of {epochs} epochs: {rows}"
    percent = {m.name for m in learner.metrics if m.percent}
    for number, (line, row) in enumerate(zip(rows, learner.history, strict=True), 1):
        assert line.startswith(f"epoch {number}/{epochs}  "), line
        assert f"lr {row['lr']:.2e}" in line, line
        assert f"{row['samples_per_second']:,.0f} samples/s" in line, line
        assert ("left" in line) == (number < epochs and "left" in line), line
        for name, value in row.items():
            if name in ("epoch", "lr", "seconds", "samples_per_second"):
                continue
            plain = name.removeprefix("valid_")
            shown = f"valid {plain}" if plain != name else name
            told = f"{100 * value:.2f} %" if plain in percent else _number(value)
            assert f"{shown} {told}" in line.split("  "), f"{shown} {told} is not in {line!r}"


def _number(value: float) -> str:
    plain = value == 0 or 1e-3 <= abs(value) < 1e4
    return f"{value:.4f}" if plain else f"{value:.2e}"


def _screen(package: Any, rng: Rng, place: Place) -> None:
    """The live screen in a terminal of some width: a table of the epochs, and how it ended."""
    console = import_module("rich.console").Console
    live = import_module(f"{PACKAGE}.live_screen")
    out = io.StringIO()
    width = int(rng.choice([60, 200]))
    screen = live.LiveScreen(console(file=out, force_terminal=True, width=width, color_system=None))
    learner, train, valid = _learner(package, rng, display="quiet")
    epochs = int(rng.integers(1, 4))
    shown = screen_of(package, screen)
    learner.callbacks.append(shown)
    learner.fit(train, valid if coin(rng) else None, epochs=epochs)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue())
    lines = [line.strip() for line in re.split(r"[\r\n]+", text) if line.strip()]
    count = sum(p.size for p in learner.optimizer.params)
    head = f"Training Linear  {count:,} parameters  SGD  on {learner.device.name}"
    # A device of another machine has a long name; lines break between words.
    said = " ".join(head.split())
    found = lines[0] if len(head) <= width else " ".join(" ".join(lines).split())[: len(said)]
    assert found == (head if len(head) <= width else said), f"{found!r}, not {head!r}"
    assert lines[-1] == "the end", lines[-1]
    at = next(n for n, line in enumerate(lines) if line.split()[0] == "epoch"
              and not re.match(r"epoch \d", line))  # fmt: skip
    columns = lines[at]
    assert ("time" in columns) <= (width > 60 or len(columns) <= width), columns
    for number in range(1, epochs + 1):
        found = [line for line in lines if re.match(rf"{number}/{epochs}\b", line)]
        assert found, f"no row of epoch {number} in {lines}"
        assert len(found[0]) <= width, f"{found[0]!r} is wider than {width}"


def screen_of(package: Any, screen: Any) -> Any:
    """Return a callback that shows a run on a screen.

    Parameters
    ----------
    package : module
        The package of training.
    screen : Screen
        The screen.

    Returns
    -------
    Callback
        The callback.
    """
    status = import_module(f"{PACKAGE}.screens").Status

    class Shown(package.Callback):  # type: ignore[misc]
        """Shows each step."""

        def on_fit_begin(self, learner: Any) -> None:
            screen.begin(learner)

        def on_step_end(self, learner: Any) -> None:
            screen.progress(status(
                epoch=learner.epoch + 1, epochs=learner.epochs, phase="training",
                batch=learner.batch, batches=learner.train_batches, values={"loss": "1.0"},
                rate=3.0, left=math.nan,
            ))  # fmt: skip

        def on_epoch_end(self, learner: Any) -> None:
            screen.epoch(learner, 1.0)

        def on_fit_end(self, learner: Any) -> None:
            screen.end("the end")

    return Shown()


def _status(package: Any, rng: Rng, place: Place) -> None:
    screens = import_module(f"{PACKAGE}.screens")
    rate = float(rng.choice([math.nan, 1234.4]))
    left = float(rng.choice([math.nan, 67.0]))
    batches = None if coin(rng) else 8
    made = screens.Status(
        epoch=2, epochs=5, phase="training", batch=3, batches=batches, values={"loss": "0.5"},
        rate=rate, left=left,
    )  # fmt: skip
    want = ["loss 0.5", *(["1,234 samples/s"] if rate == rate else []),
            *(["1:07 left"] if left == left else [])]  # fmt: skip
    assert made.parts() == want, f"{made.parts()}, not {want}"
    place_of = f"epoch 2/5  training 3/{batches or '?'}"
    assert made.place() == place_of, f"{made.place()!r}, not {place_of!r}"


class _Axes:
    """Axes that note what is drawn on them."""

    def __init__(self) -> None:
        self.lines: list[tuple[list[float], list[float], dict[str, Any]]] = []
        self.calls: dict[str, Any] = {}
        self.name, self.above = "", self

    def plot(self, x: Any, y: Any, *style: str, **how: Any) -> None:
        self.lines.append((np.ravel(x).tolist(), np.ravel(y).tolist(), {**how, "style": style}))

    def __getattr__(self, name: str) -> Any:
        """Return what notes a call by its name; all may be asked of a part, such as an axis."""
        part = _Axes()
        part.name, part.above = name, self
        return part

    def __call__(self, *given: Any, **how: Any) -> Any:
        self.above.calls[self.name] = given
        return _Axes()


def _curves(package: Any, rng: Rng, place: Place) -> None:
    """Curves of a history: points, percentages, and the best of validation."""
    plots = import_module(f"{PACKAGE}.plots")
    name = str(rng.choice(["loss", "accuracy", "top5", "error"]))
    percent = name in ("accuracy", "top5")
    history, shown = [], coin(rng)
    for epoch in range(1, int(rng.integers(2, 7))):
        row: dict[str, Any] = {"epoch": epoch, name: float(rng.uniform(0.1, 0.9))}
        if shown and (epoch == 1 or coin(rng)):
            row[f"valid_{name}"] = float(rng.uniform(0.1, 0.9))
        history.append(row)
    axes = _Axes()
    plots._curves(axes, history, name, "held out")
    wants: list[tuple[list[Any], list[Any], str | None]] = []
    for key, label in ((name, "training"), (f"valid_{name}", "held out")):
        points = [(float(r["epoch"]), r[key] * (100 if percent else 1))
                  for r in history if key in r]  # fmt: skip
        if not points:
            continue
        x, y = (list(p) for p in zip(*points, strict=True))
        if key != name:
            best = (max if percent else min)(y)
            at = y.index(best)
            wants.append(([x[at]], [best], None))
            label += f", best {best:.2f} %" if percent else f", best {best:#.3g}"
        wants.append((x, y, label))
    assert len(axes.lines) == len(wants), f"{len(axes.lines)} curves, not {len(wants)}"
    for (x, y, how), (a, b, want) in zip(axes.lines, wants, strict=True):
        assert x == a, f"epochs {x}, not {a}"
        assert np.allclose(y, b), f"numbers {y}, not {b}"
        assert how.get("label") == want, f"a label {how.get('label')!r}, not {want!r}"
    title = f"{name} (%)" if percent else name
    assert axes.calls["set_title"][0] == title, axes.calls["set_title"]


def _chosen(package: Any, rng: Rng, place: Place) -> None:
    """Which predictions are shown: wrong ones first, then the least certain, each once."""
    plots = import_module(f"{PACKAGE}.plots")
    count, classes = int(rng.integers(1, 30)), 3
    shares = rng.dirichlet(np.ones(classes), count)
    true = np.where(rng.random(count) < 0.7, shares.argmax(1), rng.integers(0, classes, count))
    most = int(rng.integers(1, 25))
    made = plots._selection(shares, true, most)
    assert len(set(made)) == len(made), f"{made} has one twice"
    sure = shares.max(1)
    wrong = [int(i) for i in np.argsort(sure, kind="stable") if shares[i].argmax() != true[i]]
    first = wrong[: most // 2]
    assert made[: len(first)] == first, f"{made} begins otherwise than with {first}"
    right = [i for i in range(count) if i not in wrong]
    assert set(made[len(first) :]) <= set(right), f"{made} has others than {right}"
    want = min(most, len(first) + len(right))
    assert len(made) == want, f"{len(made)} are shown, not {want}"
    unsure = sorted(right, key=lambda i: sure[i])[: min(most // 5, most - len(first))]
    assert made[len(first) : len(first) + len(unsure)] == unsure, f"{made} misses {unsure}"
    others = made[len(first) + len(unsure) :]
    rest = sorted(set(right) - set(unsure))
    assert others == sorted(others), f"others are in the order {others}"
    if len(others) > 1:
        assert [others[0], others[-1]] == [rest[0], rest[-1]], f"{others} of {rest}"


def _annealed(package: Any, rng: Rng, place: Place) -> None:
    """A rate that ends at one of its own, on a line or half a wave."""
    rate, base, steps = float(rng.uniform(0, 1)), float(rng.uniform(0, 1)), int(rng.integers(0, 9))
    curve = str(rng.choice(["cos", "linear"]))
    made = package.AnnealTo(rate, steps, curve)
    for step in range(steps + 3):
        share = 1.0 if step >= steps else step / steps
        if curve == "cos":
            share = (1 - math.cos(math.pi * share)) / 2
        want = base + (rate - base) * share
        got = made.value(step, base)
        assert abs(got - want) < 1e-12, f"{got} at step {step} of {made} from {base}, not {want}"
    for wrong in ((0.1, -1), (0.1, 3, "square")):
        refused = False
        try:
            package.AnnealTo(*wrong)
        except ArgumentError:
            refused = True
        assert refused, f"AnnealTo{wrong} is not refused"


def _plateaus(package: Any, rng: Rng, place: Place) -> None:
    """A rate that is reduced while a learner trains, by the numbers of its history."""
    learner, train, _ = _learner(package, rng, display="quiet")
    factor, patience = 0.5, int(rng.integers(0, 3))
    numbers = [float(n) for n in rng.integers(0, 4, 8)]
    watcher = package.ReduceLROnPlateau(
        learner.optimizer, factor=factor, patience=patience, threshold=0.0, monitor="number"
    )

    class Numbers(package.Callback):  # type: ignore[misc]
        """Puts numbers into the history before others look."""

        priority = 100

        def on_epoch_end(self, learner: Any) -> None:
            learner.history[-1]["number"] = numbers[learner.epoch - 1]

    learner.callbacks += [Numbers(), watcher]
    rate, best, bad, wants = 0.05, math.inf, 0, []
    for number in numbers:
        best, bad = (number, 0) if number < best else (best, bad + 1)
        if bad > patience:
            rate, bad = rate * factor, 0
        wants.append(rate)
    found = []

    class Rates(package.Callback):  # type: ignore[misc]
        """Notes the rates."""

        priority = -1000

        def on_epoch_end(self, learner: Any) -> None:
            found.append(float(learner.optimizer.param_groups[0].lr))

    learner.callbacks.append(Rates())
    learner.fit(train, epochs=len(numbers))
    assert np.allclose(found, wants), f"rates {found} of {numbers}, patience {patience}: {wants}"


def _interrupted(package: Any, rng: Rng, place: Place) -> None:
    """The first Ctrl-C lets the step finish, the second stops at once, and then it is as before."""
    interruption = import_module(f"{PACKAGE}.interruption").Interruption
    if threading.current_thread() is not threading.main_thread():
        return
    before = signal.getsignal(signal.SIGINT)
    if not callable(before):
        return
    with interruption() as made:
        assert not made.requested, "it is requested at first"
        signal.raise_signal(signal.SIGINT)
        assert made.requested, "a signal is not noted"
        stopped = False
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            stopped = True
        assert stopped, "the second signal stops nothing"
    assert signal.getsignal(signal.SIGINT) is before, "signals are not as before"
    with interruption() as made:
        pass
    assert not made.requested, "an earlier request is noted"


# Each with the number of its turns.
_SUBJECTS: Final[dict[str, tuple[Callable[[Any, Rng, Place], None], int]]] = {
    "paces": (_paces, 12), "texts": (_texts, 30), "lines": (_lines, 4), "status": (_status, 8),
    "screen": (_screen, 4 if find_spec("rich") else 0), "curves": (_curves, 12),
    "chosen-predictions": (_chosen, 20), "annealed-rates": (_annealed, 8),
    "plateaus-of-runs": (_plateaus, 3), "interruptions": (_interrupted, 1),
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    package = import_module(PACKAGE)
    run, turns = _SUBJECTS[name]
    state = calor.random.default_generator.state
    try:
        for turn in range(turns):
            run(package, source([place.seed, crc32(name.encode()), turn]), place)
    finally:
        calor.random.default_generator.set_state(state)


def shown_runs() -> Iterator[Any]:
    """Yield a check of each thing that is shown, if the package is installed."""
    yield from checks_of(_SUBJECTS, _run, CONTRACT)
