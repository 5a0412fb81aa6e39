"""The progress display: lines in a file, a live screen in a terminal, silence when asked."""

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import calor_nn as nn
from calor_train import SGD, Accuracy, ArrayDataset, Callback, Checkpoint, DataLoader, Learner
from calor_train import display as displays
from calor_train.live_screen import LiveScreen
from calor_train.pace import Pace
from calor_train.screens import Screen

X = np.random.default_rng(0).normal(size=(48, 2)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64)


def learner(display):
    model = nn.Linear(2, 2)
    return Learner(
        model,
        SGD(model, lr=0.5),
        nn.functional.cross_entropy,
        metrics=[Accuracy()],
        display=display,
    )


def train(display, epochs=2, **options):
    made = learner(display)
    data = ArrayDataset(X, Y)
    made.fit(DataLoader(data, 16), DataLoader(data, 16), epochs=epochs, **options)
    return made


@pytest.fixture
def every_step(monkeypatch):
    """Show every step, however short the time since the last one."""
    monkeypatch.setattr(displays, "LOOK", 0.0)
    monkeypatch.setattr(displays, "LINE", 0.0)
    monkeypatch.setattr(Screen, "interval", 0.0)
    monkeypatch.setattr(displays._Lines, "interval", 0.0)
    monkeypatch.setattr(LiveScreen, "interval", 0.0)


EPOCH = (
    r"epoch {}/2  loss \d+\.\d{{4}}  accuracy \d+\.\d\d %  valid loss \d+\.\d{{4}}  "
    r"valid accuracy \d+\.\d\d %  lr 5\.00e-01  [\d,]+ samples/s  time \d+(\.\d)? m?s"
)


def test_lines_when_output_is_not_a_terminal(capsys):
    train("auto")
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(EPOCH.format(1) + r"  \d+(\.\d)? m?s left", lines[0])
    assert re.fullmatch(EPOCH.format(2), lines[1])
    assert re.fullmatch(r"finished 2 of 2 epochs in \d+(\.\d)? m?s", lines[2])
    assert len(lines) == 3


def test_long_epochs_have_lines_within(capsys, every_step):
    train("lines")
    lines = capsys.readouterr().out.splitlines()
    within = [line for line in lines if line.startswith("epoch 1/2  training 2/3")]
    assert len(within) == 1
    assert re.search(r"loss \d\.\d{4}  accuracy \d+\.\d\d %  [\d,]+ samples/s  ", within[0])
    assert "\x1b" not in "".join(lines)


def test_a_resumed_epoch_shows_no_loss_before_it_has_one(capsys, every_step, tmp_path):
    class Stops(Callback):
        def on_step_end(self, learner):
            if learner.steps == 2:
                learner.stop("enough")

    data = ArrayDataset(X, Y)
    first = learner("quiet")
    first.callbacks += [Stops(), Checkpoint(tmp_path)]
    first.fit(DataLoader(data, 16), epochs=1)
    second = learner("lines")
    second.callbacks += [Checkpoint(tmp_path)]
    second.fit(DataLoader(data, 16), epochs=2, resume=tmp_path)
    assert "nan" not in capsys.readouterr().out


def test_quiet(capsys):
    train("quiet")
    assert capsys.readouterr().out == ""


class Failing:
    def __iter__(self):
        raise RuntimeError("no data")


def test_the_last_line_says_how_it_ended(capsys):
    made = learner("lines")
    with pytest.raises(RuntimeError, match="no data"):
        made.fit(Failing(), epochs=2)
    assert re.search(r"failed after 0 of 2 epochs in ", capsys.readouterr().out)


def screen(width=120):
    console = Console(force_terminal=True, width=width, height=30, color_system="standard")
    return LiveScreen(console)


def test_the_live_screen_draws_the_bar(every_step, capsys, monkeypatch):
    monkeypatch.setattr("calor_train.live_screen.LiveScreen", screen)
    train("live")
    output = capsys.readouterr().out
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output)
    assert "Training Linear  6 parameters  SGD  on numpy:0" in plain
    assert "epoch 1/2 ━" in plain
    assert "3/3 training" in plain
    assert "1/3 evaluating" in plain
    assert re.search(r"loss \d\.\d{4}   accuracy \d+\.\d\d %   [\d,]+ samples/s   .* left", plain)
    assert re.search(r"1/2   \d\.\d{4}  +\d+\.\d\d %", plain)
    assert "finished 2 of 2 epochs" in plain
    # The cursor was hidden and is shown again.
    assert output.rindex("\x1b[?25h") > output.rindex("\x1b[?25l")


def test_the_cursor_comes_back_after_an_error(capsys, monkeypatch):
    monkeypatch.setattr("calor_train.live_screen.LiveScreen", screen)
    with pytest.raises(RuntimeError, match="no data"):
        learner("live").fit(Failing(), epochs=1)
    output = capsys.readouterr().out
    assert output.rindex("\x1b[?25h") > output.rindex("\x1b[?25l")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_rows_fit_the_width(width, capsys, monkeypatch):
    monkeypatch.setattr("calor_train.live_screen.LiveScreen", lambda: screen(width))
    train("live")
    output = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().out)
    rows = [line for line in output.splitlines() if "valid accuracy" in line]
    assert len(rows) == 1
    assert len(rows[0]) <= width
    assert ("samples/s" in rows[0]) is (width == 120)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no pseudo-terminal on Windows")
def test_a_pseudo_terminal_gets_the_live_screen():
    import pty

    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import test_display as t; "
        "t.train('auto', epochs=3)"
    )
    primary, secondary = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "CALOR_DEVICE": "numpy"}
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(Path(__file__).parent)],
        stdin=secondary,
        stdout=secondary,
        stderr=secondary,
        env=environment,
    )
    os.close(secondary)
    output = b""
    while True:
        try:
            part = os.read(primary, 65536)
        except OSError:
            break
        if not part:
            break
        output += part
    os.close(primary)
    assert process.wait(timeout=60) == 0
    text = output.decode()
    assert "\x1b[?25l" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert "Training Linear" in plain
    assert "finished 3 of 3 epochs" in plain


# Pace.


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_pace_measures_lately_and_leaves_out_the_first_batch():
    clock = Clock()
    pace = Pace(clock)
    assert math.isnan(pace.samples_per_second)
    pace.resume()
    clock.now += 60.0
    pace.batch(10)
    assert math.isnan(pace.left(5, 0))
    for _ in range(4):
        clock.now += 0.5
        pace.batch(10)
    assert pace.samples_per_second == pytest.approx(20.0)
    assert pace.left(6, 0) == pytest.approx(3.0)
    for _ in range(20):
        clock.now += 1.0
        pace.batch(10)
    assert pace.samples_per_second == pytest.approx(10.0)
    assert pace.elapsed == pytest.approx(82.0)


def test_pace_counts_evaluations_apart():
    clock = Clock()
    pace = Pace(clock)
    pace.resume()
    for _ in range(3):
        clock.now += 1.0
        pace.batch(4)
    pace.evaluation_began()
    clock.now += 10.0
    pace.evaluation_ended()
    pace.resume()
    clock.now += 1.0
    pace.batch(4)
    assert pace.samples_per_second == pytest.approx(4.0)
    assert pace.left(2, 3) == pytest.approx(32.0)
    assert math.isnan(pace.left(None, 1))
