"""Plots of a training run as PNG files: curves, a confusion matrix, a sheet of predictions.

Figures are drawn without a window and without matplotlib's global state, so that this works on a
server and in any thread.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from calor.errors import ArgumentError, PluginError, ShapeError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INK: Final = "#22313f"
_TRAIN: Final = "#2f7fc1"
_VALID: Final = "#e07b39"
_RIGHT: Final = "#2e8b57"
_WRONG: Final = "#c0392b"
_SETTINGS: Final[Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": "#b8c2cc",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlecolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": "#5d6d7e",
    "ytick.color": "#5d6d7e",
    "legend.frameon": False,
}


@contextmanager
def _figure(path: str | Path, width: float, height: float) -> Iterator[Figure]:
    """Yield an empty figure of a size in inches; it is written to ``path`` at the end."""
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ModuleNotFoundError as error:
        raise PluginError('plots need matplotlib: pip install "calor-train[plots]"') from error
    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
        engine = figure.get_layout_engine()
        assert isinstance(engine, ConstrainedLayoutEngine)
        engine.set(w_pad=0.1, h_pad=0.1)
        FigureCanvasAgg(figure)
        yield figure
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, facecolor="white")


def plot_history(
    history: Sequence[Mapping[str, Any]],
    path: str | Path,
    *,
    metrics: Sequence[str] | None = None,
    title: str | None = None,
    valid_label: str = "validation",
) -> None:
    """Write curves of a learner's history to a PNG file, one panel for each metric.

    Names with `valid_` are drawn into the panel of their metric. Metrics with `accuracy` or a
    leading `top` in their names are drawn as percentages.

    Parameters
    ----------
    history : sequence of mapping
        Rows of numbers, one for each epoch; `learner.history`.
    path : str or Path
        The file; its folder is made if it does not exist.
    metrics : sequence of str, optional
        Names of the history; the loss and every other metric if left out.
    title : str, optional
        A title above the panels.
    valid_label : str
        What the legend calls the numbers with `valid_`.

    Raises
    ------
    ArgumentError
        If the history is empty or does not have a metric.
    PluginError
        If matplotlib is not installed.
    """
    if not history:
        raise ArgumentError("the history has no epochs to plot; train first")
    known = dict.fromkeys(name.removeprefix("valid_") for row in history for name in row)
    other = ("epoch", "lr", "seconds", "samples_per_second")
    names = [n for n in known if n not in other] if metrics is None else list(metrics)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ArgumentError(f"the history has no {unknown[0]!r}; choose one of {', '.join(known)}")
    with _figure(path, 5.2 * len(names), 3.8) as figure:
        axes = figure.subplots(1, len(names), squeeze=False)[0]
        for ax, name in zip(axes, names, strict=True):
            _curves(ax, history, name, valid_label)
        if title:
            figure.suptitle(title, fontweight="bold")


def _curves(ax: Any, history: Sequence[Mapping[str, Any]], name: str, valid_label: str) -> None:
    percent = "accuracy" in name or name.startswith("top")
    best = max if percent else min
    for key, color, label in ((name, _TRAIN, "training"), (f"valid_{name}", _VALID, valid_label)):
        points = [(row["epoch"], row[key]) for row in history if key in row]
        if not points:
            continue
        x, y = np.array(points, float).T
        y = 100 * y if percent else y
        if key != name:
            place = int(np.nonzero(y == best(y))[0][0])
            ax.plot(x[place], y[place], "o", color=color, markersize=5)
            label += f", best {y[place]:.2f} %" if percent else f", best {y[place]:#.3g}"
        marker = "o" if len(points) < 3 else None
        ax.plot(x, y, color=color, linewidth=1.8, marker=marker, label=label)
    values = [row[k] for row in history for k in (name, f"valid_{name}") if k in row]
    if percent and max(values) > 0.9:
        _stretch_the_top(ax, 100 * min(values))
    elif not percent and min(values) > 0 and max(values) / min(values) > 20:
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter("{x:g}")
        ax.margins(y=0.12)
    else:
        ax.margins(y=0.12)
    ax.set_title(f"{name} (%)" if percent else name)
    ax.set_xlabel("epoch")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.grid(axis="y", color="#e8ecf0", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.legend(loc="lower right" if percent else "upper right")


def _stretch_the_top(ax: Any, lowest: float) -> None:
    """Scale percentages by their distance from 100, so that 98 and 99 are far apart."""

    def height(y: Any) -> Any:
        return -np.log10(np.maximum(_ROOM + 100 - y, 1e-9))

    def percentage(h: Any) -> Any:
        return _ROOM + 100 - 10.0**-h

    ax.set_yscale("function", functions=(height, percentage))
    ticks = [t for t in _PERCENTAGES if t >= lowest]
    ax.set_ylim(lowest - 5, 100.2)
    ax.set_yticks(ticks, [f"{t:g}" for t in ticks])


_ROOM: Final = 0.5
_PERCENTAGES: Final = (0, 50, 80, 90, 95, 98, 99, 99.5, 100)


def plot_confusion_matrix(
    matrix: npt.ArrayLike,
    path: str | Path,
    *,
    labels: Sequence[str] | None = None,
    title: str | None = None,
) -> None:
    """Write a confusion matrix to a PNG file; colours show the share of each row.

    Parameters
    ----------
    matrix : array_like
        Counts, shape (C, C): rows are true classes, columns predicted ones.
    path : str or Path
        The file; its folder is made if it does not exist.
    labels : sequence of str, optional
        Names of the classes; their numbers if left out.
    title : str, optional
        A title above the matrix.

    Raises
    ------
    ShapeError
        If the matrix is not square.
    PluginError
        If matplotlib is not installed.
    """
    counts = np.asarray(matrix)
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1]:
        raise ShapeError(f"a confusion matrix must be square, not of shape {counts.shape}")
    classes = len(counts)
    names = [str(i) for i in range(classes)] if labels is None else list(labels)
    totals = counts.sum(1, keepdims=True)
    shares = counts / np.maximum(totals, 1)
    side = 1.6 + 0.46 * classes
    with _figure(path, side + 0.6, side) as figure:
        ax = figure.subplots()
        # The square root keeps single mistakes visible beside hundreds of right answers.
        image = ax.imshow(np.sqrt(shares), cmap="Blues", vmin=0, vmax=1)
        for i, j in np.ndindex(classes, classes):
            if counts[i, j]:
                wrong = i != j
                color = _WRONG if wrong else "white" if shares[i, j] > 0.3 else _INK
                ax.text(
                    j,
                    i,
                    f"{counts[i, j]}",
                    ha="center",
                    va="center",
                    color=color,
                    fontweight="bold" if wrong else "normal",
                )
        ax.set_xticks(range(classes), names)
        ax.set_yticks(range(classes), names)
        ax.set_xticks(np.arange(classes + 1) - 0.5, minor=True)
        ax.set_yticks(np.arange(classes + 1) - 0.5, minor=True)
        ax.grid(which="minor", color="white", linewidth=1.5)
        ax.tick_params(which="both", length=0)
        ax.spines[:].set_visible(False)
        ax.set_xlabel("predicted")
        ax.set_ylabel("true")
        right, total = int(np.trace(counts)), int(counts.sum())
        ax.set_title(title or f"{right} of {total} right ({100 * right / max(total, 1):.2f} %)")
        bar = figure.colorbar(image, ax=ax, fraction=0.046, pad=0.03, ticks=np.sqrt(_SHARES))
        bar.ax.set_yticklabels([f"{100 * share:.0f} %" for share in _SHARES])
        bar.outline.set_visible(False)
        bar.ax.tick_params(length=0)
        bar.set_label("share of the true class")


_SHARES: Final = (0.0, 0.01, 0.05, 0.2, 0.5, 1.0)


def plot_predictions(
    images: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    targets: npt.ArrayLike,
    path: str | Path,
    *,
    labels: Sequence[str] | None = None,
    columns: int = 10,
    rows: int = 5,
    title: str | None = None,
) -> None:
    """Write a sheet of images with the predicted class and its probability to a PNG file.

    Wrong predictions come first, in red and with the true class, then the least certain ones, then
    others spread evenly over the rest.

    Parameters
    ----------
    images : array_like
        Shape (N, H, W), or (N, H, W, 3) in colour.
    probabilities : array_like
        Shape (N, C).
    targets : array_like
        True class numbers, shape (N,).
    path : str or Path
        The file; its folder is made if it does not exist.
    labels : sequence of str, optional
        Names of the classes; their numbers if left out.
    columns : int
        Images in a row.
    rows : int
        The most rows.
    title : str, optional
        A title above the sheet.

    Raises
    ------
    ShapeError
        If the lengths differ, or `probabilities` does not have two axes.
    PluginError
        If matplotlib is not installed.
    """
    pictures, shares, true = np.asarray(images), np.asarray(probabilities), np.asarray(targets)
    if not len(pictures) == len(shares) == len(true) or shares.ndim != 2:
        raise ShapeError(
            f"images {pictures.shape}, probabilities {shares.shape} and targets {true.shape} "
            f"must be of one length, probabilities of shape (N, C)"
        )
    chosen = _selection(shares, true, rows * columns)
    rows = math.ceil(len(chosen) / columns)
    names = [str(i) for i in range(shares.shape[1])] if labels is None else list(labels)
    with _figure(path, 0.95 * columns, 1.28 * rows + 0.5) as figure:
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for ax in axes:
            ax.axis("off")
        for ax, index in zip(axes, chosen, strict=False):
            guess = int(shares[index].argmax())
            right = guess == true[index]
            ax.imshow(pictures[index], cmap="gray_r", interpolation="nearest")
            text = names[guess] if right else f"{names[guess]}, is {names[int(true[index])]}"
            ax.set_title(
                text,
                color=_RIGHT if right else _WRONG,
                fontsize=11 if right else 9.5,
                pad=3,
            )
            note = f"{100 * shares[index, guess]:.1f} %"
            ax.text(0.5, -0.06, note, transform=ax.transAxes, ha="center", va="top", fontsize=7.5)
        if title:
            figure.suptitle(title, fontweight="bold")


def _selection(shares: npt.NDArray[Any], true: npt.NDArray[Any], count: int) -> list[int]:
    """Return which samples to show: the wrong ones, the least certain, then an even choice."""
    sure = shares.max(1)
    order = np.argsort(sure, kind="stable")
    wrong = shares.argmax(1)[order] != true[order]
    first = [int(i) for i in order[wrong]][: count // 2]
    rest = order[~wrong]
    unsure = [int(i) for i in rest[: min(count // 5, count - len(first))]]
    others = np.sort(rest[len(unsure) :])
    left = min(count - len(first) - len(unsure), len(others))
    if left > 0:
        unsure += [int(i) for i in others[np.linspace(0, len(others) - 1, left).astype(int)]]
    return first + unsure
