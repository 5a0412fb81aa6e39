"""The learner: what it computes, how it stops, and that it continues bit for bit."""

import importlib.util
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import calor
import calor_nn as nn
from calor.errors import ArgumentError
from calor_train import (
    SGD,
    Accuracy,
    Adam,
    ArrayDataset,
    Callback,
    Checkpoint,
    CheckpointError,
    ConfusionMatrix,
    CSVLog,
    DataLoader,
    EarlyStopping,
    Learner,
    Loss,
    NonFiniteLossError,
    Scheduler,
    StepDecay,
)

SCRIPT = Path(__file__).with_name("training_run.py")
spec = importlib.util.spec_from_file_location("training_run", SCRIPT)
training_run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(training_run)


def start(folder, *arguments):
    command = [sys.executable, str(SCRIPT), str(folder), *map(str, arguments)]
    environment = {**os.environ, "CALOR_DEVICE": "numpy"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def run(folder, *arguments):
    process = start(folder, *arguments)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return json.loads(output.splitlines()[-1])


def fit(epochs=2, **options):
    made = training_run.learner(None, **options)
    made.fit(*training_run.loaders(), epochs=epochs)
    return made


# What it computes.


def linear(optimizer=SGD, **options):
    """A model whose training can be followed by hand: y = w · x, squared error."""
    model = nn.Linear(2, 1, bias=False)
    model.load_state_dict({"weight": np.array([[0.5, -0.5]], np.float32)})
    return model, optimizer(model, **options)


X = np.random.default_rng(0).normal(size=(10, 2)).astype(np.float32)
Y = (X @ np.array([[1.0], [2.0]], np.float32)).astype(np.float32)


def gradient(w, x, y):
    return 2 * (x @ w.T - y).T @ x / len(x)


@pytest.mark.parametrize("jit", [True, False], ids=["jit", "plain"])
def test_training_by_hand(jit):
    model, optimizer = linear(lr=0.1)
    learner = Learner(model, optimizer, nn.functional.mse_loss, jit=jit, display="quiet")
    history = learner.fit(DataLoader(ArrayDataset(X, Y), 4), epochs=2)
    w = np.array([[0.5, -0.5]])
    losses = []
    for _ in range(2):
        total = 0.0
        for i in range(0, 10, 4):
            x, y = X[i : i + 4], Y[i : i + 4]
            total += float(np.mean((x @ w.T - y) ** 2)) * len(x)
            w = w - 0.1 * gradient(w, x, y)
        losses.append(total / 10)
    np.testing.assert_allclose(model.weight.numpy(), w, rtol=1e-5)
    assert [row["loss"] for row in history] == pytest.approx(losses, rel=1e-5)
    assert [row["epoch"] for row in history] == [1, 2]
    assert learner.steps == 6
    assert learner.last_loss > 0
    if jit:
        assert learner.steps_of.train.trace_count == 2


@pytest.mark.parametrize("jit", [True, False], ids=["jit", "plain"])
@pytest.mark.parametrize("clip", [None, 0.5])
def test_accumulated_batches_are_one_large_batch(jit, clip):
    weights = []
    for size, accumulate in ((10, 1), (4, 3)):
        model, optimizer = linear(Adam, lr=0.1)
        learner = Learner(
            model,
            optimizer,
            nn.functional.mse_loss,
            accumulate=accumulate,
            clip_norm=clip,
            jit=jit,
            display="quiet",
        )
        learner.fit(DataLoader(ArrayDataset(X, Y), size), epochs=5)
        assert learner.steps == 5
        weights.append(model.weight.numpy())
    np.testing.assert_allclose(*weights, rtol=1e-4)


def test_an_incomplete_group_at_the_end_of_an_epoch_makes_a_step():
    model, optimizer = linear(lr=0.1)
    learner = Learner(model, optimizer, nn.functional.mse_loss, accumulate=2, display="quiet")
    learner.fit(DataLoader(ArrayDataset(X, Y), 4), epochs=1)
    w = np.array([[0.5, -0.5]])
    for part in (slice(0, 8), slice(8, 10)):
        w = w - 0.1 * gradient(w, X[part], Y[part])
    np.testing.assert_allclose(model.weight.numpy(), w, rtol=1e-5)


def test_a_parameter_that_no_batch_uses_is_left_alone_when_accumulating():
    class Partly(nn.Module):
        def __init__(self):
            self.used = nn.Linear(2, 1)
            self.unused = nn.Linear(2, 1)

        def forward(self, x):
            return self.used(x)

    model = Partly()
    before = model.unused.weight.tolist()
    optimizer = Adam(model, lr=0.1, weight_decay=0.5)
    learner = Learner(model, optimizer, nn.functional.mse_loss, accumulate=2, display="quiet")
    learner.fit(DataLoader(ArrayDataset(X, Y), 5), epochs=2)
    assert model.unused.weight.tolist() == before
    assert model.used.weight.tolist() != before


@pytest.mark.parametrize("every", ["step", "epoch"])
def test_the_schedule_is_stepped(every):
    model, optimizer = linear(lr=1e-3)
    schedule = Scheduler(optimizer, lr=StepDecay(1, 0.5))
    learner = Learner(
        model,
        optimizer,
        nn.functional.mse_loss,
        schedule=schedule,
        schedule_every=every,
        display="quiet",
    )
    learner.fit(DataLoader(ArrayDataset(X, Y), 5), epochs=3)
    assert schedule.count == {"step": 6, "epoch": 3}[every]
    rates = {"step": [0.5, 0.125, 0.03125], "epoch": [1, 0.5, 0.25]}[every]
    assert [row["lr"] for row in learner.history] == pytest.approx([r * 1e-3 for r in rates])


def test_it_learns_with_and_without_jit_alike():
    jitted, plain = fit(jit=True, epochs=3), fit(jit=False, epochs=3)
    for a, b in zip(jitted.history, plain.history, strict=True):
        for name in ("loss", "accuracy", "valid_loss", "valid_accuracy"):
            assert a[name] == pytest.approx(b[name], rel=1e-3), name
    # Two sizes of batches, each traced once.
    assert jitted.steps_of.collect.trace_count == 2
    assert jitted.history[-1]["loss"] < jitted.history[0]["loss"]


def test_evaluation_leaves_everything_as_it_was():
    learner = training_run.learner(None)
    before = training_run.digest(learner)
    random = [x.tolist() for x in calor.random.default_generator.state]
    loader = DataLoader(training_run.data(), 16)
    values = learner.evaluate(loader)
    assert training_run.digest(learner) == before
    assert [x.tolist() for x in calor.random.default_generator.state] == random
    assert learner.model.training
    outputs = learner.predict(loader)
    x, y = training_run.data().arrays
    expected = nn.functional.cross_entropy(outputs, calor.asarray(y)).item()
    assert values["loss"] == pytest.approx(expected, rel=1e-5)
    assert values["accuracy"] == np.mean(outputs.numpy().argmax(1) == y)
    inputs = [calor.asarray(x[:30]), (calor.asarray(x[30:]),)]
    np.testing.assert_array_equal(learner.predict(inputs).numpy(), outputs.numpy())


def test_metrics_that_are_arrays_come_from_evaluate():
    model = training_run.network()
    learner = Learner(
        model,
        SGD(model),
        nn.CrossEntropyLoss(),
        metrics=[ConfusionMatrix(2)],
        display="quiet",
    )
    loader = DataLoader(training_run.data(), 16)
    history = learner.fit(loader, loader, epochs=1)
    assert "confusion" not in history[0]
    assert learner.evaluate(loader)["confusion"].sum() == training_run.SAMPLES


def test_batches_of_any_form():
    model, optimizer = linear(lr=0.1)

    def forward(model, batch):
        return model(batch["x"]), batch["y"]

    batches = [{"x": calor.asarray(X), "y": calor.asarray(Y)}]
    learner = Learner(model, optimizer, nn.functional.mse_loss, forward=forward, display="quiet")
    learner.fit(batches, batches, epochs=100)
    assert learner.history[-1]["valid_loss"] < 0.01


def test_fit_again_goes_on_with_weights_and_optimizer():
    learner = fit(epochs=1)
    steps = learner.optimizer.param_groups[0].counts()[0]
    learner.fit(*training_run.loaders(), epochs=1)
    assert len(learner.history) == 1
    assert learner.optimizer.param_groups[0].counts()[0] == 2 * steps


@pytest.mark.parametrize("accumulate", [1, 2])
def test_nothing_of_a_failed_run_or_an_own_backward_stays(accumulate):
    model, optimizer = linear(lr=0.1)
    learner = Learner(
        model, optimizer, nn.functional.mse_loss, accumulate=accumulate, display="quiet"
    )
    batch = (calor.asarray(X), calor.asarray(Y))
    bad = (calor.asarray(X), calor.asarray(Y[:3]))
    with pytest.raises(ValueError, match="shape"):
        learner.fit([batch, bad] if accumulate == 2 else [bad], epochs=1)
    nn.functional.mse_loss(model(batch[0]), batch[1]).backward()
    learner.fit([batch], epochs=1)
    w = np.array([[0.5, -0.5]])
    np.testing.assert_allclose(model.weight.numpy(), w - 0.1 * gradient(w, X, Y), rtol=1e-5)


# Continuing.


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    return run(tmp_path_factory.mktemp("straight"), 4)


def test_the_same_run_twice_is_the_same(straight, tmp_path):
    assert run(tmp_path, 4) == straight


def test_a_new_process_continues_bit_for_bit(straight, tmp_path):
    half = run(tmp_path, 2)
    assert half["digest"] != straight["digest"]
    assert half["history"] == straight["history"][:2]
    assert run(tmp_path, 4, "--resume") == straight


class StopAt(Callback):
    def __init__(self, step=None, evaluation=None):
        self.step = step
        self.evaluation = evaluation

    def on_step_end(self, learner):
        if learner.steps == self.step:
            signal.raise_signal(signal.SIGINT)

    def on_evaluate_step(self, learner):
        if (learner.epoch, learner.evaluated_batches) == self.evaluation:
            signal.raise_signal(signal.SIGINT)


# Seven batches of an epoch make four steps: in its middle, at its end, and within an evaluation.
@pytest.mark.parametrize(
    "stop",
    [StopAt(1), StopAt(2), StopAt(4), StopAt(7), StopAt(evaluation=(1, 2))],
    ids=["step 1", "step 2", "epoch's end", "step 7", "evaluation"],
)
@pytest.mark.parametrize("jit", [True, False], ids=["jit", "plain"])
def test_an_interrupted_run_continues_bit_for_bit(stop, jit, tmp_path):
    whole = fit(epochs=3, jit=jit)
    first = training_run.learner(tmp_path, callbacks=[stop], jit=jit)
    first.fit(*training_run.loaders(), epochs=3)
    assert first.stop_reason == "interrupted"
    assert not first.completed
    assert training_run.digest(first) != training_run.digest(whole)
    second = training_run.learner(tmp_path, seed=7, jit=jit)
    second.fit(*training_run.loaders(seed=8), epochs=3, resume=tmp_path)
    assert training_run.digest(second) == training_run.digest(whole)
    assert training_run.numbers(second.history) == training_run.numbers(whole.history)


def test_a_run_stored_after_the_last_batch_of_an_epoch_goes_on_with_the_next(tmp_path):
    def learner(stop=0):
        model, optimizer = linear(lr=0.1)

        class Stops(Callback):
            def on_step_end(self, learner):
                if learner.steps == stop:
                    learner.stop("enough")

        keeps = Checkpoint(tmp_path, every_steps=1)
        return Learner(
            model, optimizer, nn.functional.mse_loss, callbacks=[Stops(), keeps], display="quiet"
        )

    loader = DataLoader(ArrayDataset(X, Y), 4, shuffle=True, seed=2)
    whole = learner()
    whole.fit(DataLoader(ArrayDataset(X, Y), 4, shuffle=True, seed=2), epochs=3)
    learner(stop=2 * len(loader)).fit(loader, epochs=3)
    went = learner()
    went.fit(DataLoader(ArrayDataset(X, Y), 4, shuffle=True), epochs=3, resume=tmp_path)
    assert went.steps == whole.steps
    for a, b in zip(went.model.parameters(), whole.model.parameters(), strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()


def test_control_c_stops_cleanly_and_the_run_goes_on(straight, tmp_path):
    process = start(tmp_path, 4, "--slow")
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    stopped = json.loads(output.splitlines()[-1])
    assert stopped["stop_reason"] == "interrupted"
    assert 3 <= stopped["steps"] < straight["steps"]
    assert run(tmp_path, 4, "--resume") == straight


def test_a_second_control_c_stops_at_once():
    class Twice(Callback):
        def on_step_end(self, learner):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fit(callbacks=[Twice()])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_training_in_another_thread_leaves_signals_alone():
    found = []
    thread = threading.Thread(target=lambda: found.append(fit(epochs=1).completed))
    thread.start()
    thread.join()
    assert found == [True]


def test_batches_without_a_position_are_skipped_when_resuming(tmp_path):
    batches = [(calor.asarray(X[i : i + 2]), calor.asarray(Y[i : i + 2])) for i in range(0, 10, 2)]

    def make(callbacks=()):
        model, optimizer = linear(lr=0.1)
        return Learner(
            model,
            optimizer,
            nn.functional.mse_loss,
            callbacks=[*callbacks, Checkpoint(tmp_path)],
            display="quiet",
        )

    whole, first, second = make(), make([StopAt(3)]), make()
    whole.fit(batches, epochs=2)
    first.fit(batches, epochs=2)
    second.fit(batches, epochs=2, resume=tmp_path / "last.ckpt")
    assert second.model.weight.tolist() == whole.model.weight.tolist()


def test_a_broken_or_foreign_checkpoint_is_refused(tmp_path):
    learner = training_run.learner(tmp_path)
    learner.fit(*training_run.loaders(), epochs=1)
    good = (tmp_path / "last.ckpt").read_bytes()
    fresh = training_run.learner(None)
    before = training_run.digest(fresh)

    def refused(path, message, target=fresh):
        with pytest.raises(CheckpointError, match=message):
            target.load(path)

    refused(tmp_path / "none.ckpt", "there is no checkpoint at .*none.ckpt")
    (tmp_path / "cut.ckpt").write_bytes(good[: len(good) // 2])
    refused(tmp_path / "cut.ckpt", "cut.ckpt cannot be read")
    calor.save({"weights": calor.ones(2)}, tmp_path / "other.ckpt")
    refused(tmp_path / "other.ckpt", "is not a checkpoint of a learner")
    assert training_run.digest(fresh) == before

    model = nn.Sequential(nn.Linear(6, 2))
    other = Learner(model, SGD(model), nn.functional.cross_entropy, display="quiet")
    refused(tmp_path / "last.ckpt", "does not fit the model: .*0.weight is float32", other)


# Callbacks.


def test_callbacks_are_called_in_order():
    calls = []

    class Recorder(Callback):
        def __getattribute__(self, name):
            if name.startswith("on_") and name != "on_evaluate_step":
                calls.append(name.removeprefix("on_"))
            return super().__getattribute__(name)

    fit(epochs=2, callbacks=[Recorder()])
    epoch = ["epoch_begin", *["step_end"] * 4, "evaluate_begin", "evaluate_end", "epoch_end"]
    assert calls == ["fit_begin", *epoch, *epoch, "fit_end"]


class Scripted(Callback):
    """Puts numbers of its own into the history."""

    priority = -1

    def __init__(self, values):
        self.values = values

    def on_epoch_end(self, learner):
        learner.history[-1]["score"] = self.values[learner.epoch - 1]


@pytest.mark.parametrize(
    ("options", "values", "epochs"),
    [
        ({"patience": 2}, [1.0, 3.0, 2.0, 3.0, 9.0], 4),
        ({"patience": 2, "direction": "min"}, [3.0, 2.0, 2.0, 2.5, 0.0], 4),
        ({"patience": 1, "min_delta": 0.5}, [1.0, 1.4, 9.0], 2),
        ({"patience": 1}, [1.0, math.nan, 9.0], 2),
        ({"patience": 3}, [1.0, 2.0, 3.0, 4.0, 5.0], 5),
    ],
)
def test_early_stopping(options, values, epochs):
    stopping = EarlyStopping("score", **options)
    learner = fit(epochs=len(values), callbacks=[Scripted(values), stopping])
    assert learner.epoch == epochs
    assert learner.completed
    if epochs < len(values):
        assert "score has not improved on" in learner.stop_reason


def test_early_stopping_goes_on_waiting_after_a_checkpoint(tmp_path):
    def make(values):
        callbacks = [Scripted(values), EarlyStopping("score", 3)]
        return training_run.learner(tmp_path, callbacks=callbacks)

    make([5.0, 1.0]).fit(*training_run.loaders(), epochs=2)
    second = make([5.0, 1.0, 1.0, 1.0, 1.0])
    second.fit(*training_run.loaders(), epochs=5, resume=tmp_path)
    assert second.epoch == 4


def test_the_best_checkpoint_is_kept(tmp_path):
    checkpoint = Checkpoint(tmp_path / "deep" / "er", monitor="score")
    learner = fit(epochs=3, callbacks=[Scripted([1.0, 5.0, 2.0]), checkpoint])
    assert learner.epoch == 3
    for path, epoch in ((checkpoint.best, 2), (checkpoint.last, 3)):
        learner.load(path)
        assert learner.epoch == epoch
    assert [p.name for p in sorted(checkpoint.folder.iterdir())] == ["best.ckpt", "last.ckpt"]


def test_csv_log(tmp_path):
    path = tmp_path / "log" / "history.csv"
    learner = fit(epochs=2, callbacks=[CSVLog(path)])
    head, *rows = path.read_text("utf-8").split("\n")
    names = head.split(",")
    assert names == list(learner.history[0])
    assert [float(r.split(",")[names.index("loss")]) for r in rows if r] == [
        row["loss"] for row in learner.history
    ]
    assert [p.name for p in path.parent.iterdir()] == ["history.csv"]


def test_a_callback_can_end_the_run():
    class Enough(Callback):
        def on_step_end(self, learner):
            if learner.steps == 3:
                learner.stop("enough")

    learner = fit(epochs=5, callbacks=[Enough()])
    assert (learner.steps, learner.stop_reason, learner.completed) == (3, "enough", True)


# Errors.


@pytest.mark.parametrize("jit", [True, False], ids=["jit", "plain"])
def test_a_loss_that_is_not_finite_is_an_error_that_says_where(jit):
    x = X.copy()
    x[5] = np.nan
    model, optimizer = linear(lr=0.5)
    learner = Learner(model, optimizer, nn.functional.mse_loss, jit=jit, display="quiet")
    message = r"loss is nan in batch 3 of epoch 1 \(learning rate 0.5\); not finite are: weight"
    with pytest.raises(NonFiniteLossError, match=message):
        learner.fit(DataLoader(ArrayDataset(x, Y), 2), epochs=1)
    assert not learner.completed


def test_a_loss_that_grows_without_bound_is_found():
    model, optimizer = linear(lr=1e6)
    learner = Learner(model, optimizer, nn.functional.mse_loss, display="quiet")
    with pytest.raises(NonFiniteLossError, match="Lower the learning rate"):
        learner.fit(DataLoader(ArrayDataset(X, Y), 5), epochs=50)


def test_nothing_not_finite_is_saved(tmp_path):
    x = X.copy()
    x[9] = np.inf
    model, optimizer = linear(lr=0.1)
    learner = Learner(
        model,
        optimizer,
        nn.functional.mse_loss,
        callbacks=[Checkpoint(tmp_path, every_steps=1)],
        display="quiet",
    )
    with pytest.raises(NonFiniteLossError):
        learner.fit(DataLoader(ArrayDataset(x, Y), 5), epochs=1)
    learner.load(tmp_path / "last.ckpt")
    assert learner.steps == 1
    assert np.isfinite(model.weight.numpy()).all()


def test_callbacks_hear_of_the_end_also_after_an_error():
    class Ends(Callback):
        ended = False

        def on_step_end(self, learner):
            raise ValueError("from a callback")

        def on_fit_end(self, learner):
            self.ended = True

    ends = Ends()
    with pytest.raises(ValueError, match="from a callback"):
        fit(callbacks=[ends])
    assert ends.ended
    assert not [t for t in threading.enumerate() if t.name.startswith("calor-loader")]


def made(**options):
    model, optimizer = linear(lr=0.1)
    return Learner(model, optimizer, nn.functional.mse_loss, display="quiet", **options)


def trained(loss=nn.functional.mse_loss, batches=None, **options):
    model, optimizer = linear(lr=0.1)
    learner = Learner(model, optimizer, loss, display="quiet", **options)
    data = [(calor.asarray(X), calor.asarray(Y))] if batches is None else batches
    return learner.fit(data, epochs=1)


ERRORS = [
    (lambda: made(accumulate=0), "accumulate must be at least 1"),
    (lambda: made(schedule_every="batch"), '"step" or "epoch", not \'batch\''),
    (lambda: made(metrics=[Accuracy(), Accuracy()]), "metrics must have different names"),
    (lambda: made(metrics=[Loss()]), 'other than "loss"'),
    (lambda: made().fit([], epochs=1), "the training loader gave no batches"),
    (lambda: made().evaluate([]), "the loader to evaluate gave no batches"),
    (lambda: made().fit([], epochs=-1), "epochs must be at least 0"),
    (lambda: made().predict([]), "predict: the loader gave no batches"),
    (lambda: trained(lambda y, t: y - t), r"the loss has shape \(10, 1\)"),
    (
        lambda: trained(batches=[calor.asarray(X)]),
        r"a batch must be \(inputs, targets\), not Tensor",
    ),
    (
        lambda: trained(callbacks=[EarlyStopping("valid_loss")]),
        "no 'valid_loss' to monitor; choose one of epoch, loss",
    ),
    (lambda: EarlyStopping(patience=0), "patience must be at least 1"),
    (lambda: EarlyStopping(direction="up"), '"min", "max" or None, not \'up\''),
    (lambda: EarlyStopping(min_delta=-1), "min_delta must be at least 0"),
    (lambda: Checkpoint("x", every_epochs=0), "must be at least 1"),
    (lambda: Learner(*linear(lr=0.1), None, display="tv"), 'display must be "auto"'),
]


@pytest.mark.parametrize(("call", "message"), ERRORS, ids=[m for _, m in ERRORS])
def test_errors_say_what_to_do(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()


def test_the_direction_of_a_monitor_follows_its_name():
    assert EarlyStopping("valid_loss").monitor.direction == "min"
    assert EarlyStopping("valid_accuracy").monitor.direction == "max"
    assert re.match("min", EarlyStopping("word_error_rate").monitor.direction)
