"""Plots: that they are written, show what they should, and refuse what they cannot show."""

import sys

import numpy as np
import pytest
from matplotlib import image as matplotlib_image

from calor.errors import ArgumentError, PluginError, ShapeError
from calor_train.plots import _selection, plot_confusion_matrix, plot_history, plot_predictions

HISTORY = [
    {
        "epoch": i,
        "loss": 2.0 / i**3,
        "valid_loss": 2.5 / i,
        "accuracy": 1 - 0.5 / i,
        "lr": 0.1,
        "seconds": 1.0,
        "samples_per_second": 10.0,
    }
    for i in range(1, 9)
]


def colours(path):
    """How many different colours a picture has: one that is empty has one."""
    image = matplotlib_image.imread(path)
    assert image.ndim == 3
    return len(np.unique(image.reshape(-1, image.shape[2]), axis=0))


@pytest.mark.parametrize(
    "options",
    [{}, {"metrics": ["loss"]}, {"title": "Run 1", "valid_label": "held out"}],
    ids=["all", "one", "title"],
)
def test_history(tmp_path, options):
    path = tmp_path / "new" / "curves.png"
    plot_history(HISTORY, path, **options)
    assert colours(path) > 20
    width = matplotlib_image.imread(path).shape[1]
    assert width == round(5.2 * 150) * (1 if "metrics" in options else 2)


def test_one_epoch_is_enough(tmp_path):
    plot_history(HISTORY[:1], tmp_path / "curves.png")
    assert colours(tmp_path / "curves.png") > 20


def test_confusion_matrix(tmp_path):
    path = tmp_path / "confusion.png"
    plot_confusion_matrix([[5, 1], [0, 7]], path, labels=["cat", "dog"])
    assert colours(path) > 20
    plot_confusion_matrix(np.zeros((3, 3), int), path)


@pytest.mark.parametrize("shape", [(7, 4, 4), (7, 4, 4, 3)], ids=["grey", "colour"])
def test_predictions(tmp_path, shape):
    rng = np.random.default_rng(0)
    path = tmp_path / "sheet.png"
    shares = rng.dirichlet(np.ones(3), 7)
    plot_predictions(rng.random(shape), shares, np.arange(7) % 3, path, columns=4, rows=2)
    assert colours(path) > 20


def test_the_sheet_shows_mistakes_then_doubts_then_an_even_choice():
    sure = np.array([0.9, 0.6, 0.95, 0.7, 0.99, 0.55, 0.8, 0.85, 0.97, 0.98])
    shares = np.stack([sure, 1 - sure], axis=1)
    true = np.zeros(10, int)
    true[[2, 7]] = 1
    assert _selection(shares, true, 6) == [7, 2, 5, 0, 4, 9]
    assert sorted(_selection(shares, true, 50)) == list(range(10))


ERRORS = [
    (lambda: plot_history([], "x.png"), ArgumentError, "no epochs"),
    (
        lambda: plot_history(HISTORY, "x.png", metrics=["f1"]),
        ArgumentError,
        "no 'f1'; choose one of epoch, loss",
    ),
    (lambda: plot_confusion_matrix(np.zeros((2, 3)), "x.png"), ShapeError, "must be square"),
    (
        lambda: plot_predictions(np.zeros((2, 4, 4)), np.zeros((3, 2)), np.zeros(2), "x.png"),
        ShapeError,
        "must be of one length",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=[m for _, _, m in ERRORS])
def test_errors_say_what_to_do(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PluginError, match=r'pip install "calor-train\[plots\]"'):
        plot_history(HISTORY, tmp_path / "x.png")
