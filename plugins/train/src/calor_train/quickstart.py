"""The quickstart: a convolutional network learns to read handwritten digits.

``python -m calor_train.quickstart [--device NAME] [--epochs N] [--output DIR] [--seed N]``

The digits are scikit-learn's (Alpaydin and Kaynak, 1998: 1,797 images of 8×8 pixels by 43 people);
a fifth of them is held out. The output folder receives the weights, the curves, the confusion
matrix and a sheet of predictions. At the end a new process loads the weights and classifies the
held-out digits; it must find the very same classes. The exit status is 0 when at least 98 % of
the held-out digits are classified correctly.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

import calor
import calor_nn as nn
from calor_train import (
    Accuracy,
    AdamW,
    ArrayDataset,
    Callback,
    Chained,
    ConfusionMatrix,
    Cosine,
    CSVLog,
    DataLoader,
    Learner,
    LinearWarmup,
    Scheduler,
)
from calor_train.plots import plot_confusion_matrix, plot_history, plot_predictions

GOAL: Final = 0.98
BATCH: Final = 64
WEIGHTS: Final = "weights.safetensors"
RESULTS: Final = "results.json"

Arrays = tuple[npt.NDArray[Any], npt.NDArray[Any]]


def network() -> nn.Sequential:
    """Return the network: three convolutions, two of them followed by pooling, and a classifier."""

    def block(inside: int, outside: int) -> list[nn.Module]:
        convolution = nn.Conv2d(inside, outside, 3, padding=1, bias=False)
        return [convolution, nn.BatchNorm2d(outside), nn.ReLU()]

    return nn.Sequential(
        *block(1, 16),
        *block(16, 32),
        nn.MaxPool2d(2),
        *block(32, 64),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(64 * 2 * 2, 10),
    )


def digits() -> tuple[Arrays, Arrays]:
    """Return (images, classes) to learn from and held out; images are float32[n, 1, 8, 8]."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    found = load_digits()
    images = (found.images / 16.0).astype(np.float32)[:, None]
    classes = found.target.astype(np.int64)
    a, b, c, d = train_test_split(images, classes, test_size=0.2, stratify=classes, random_state=0)
    return (a, c), (b, d)


def shifted(batch: Any, generator: np.random.Generator) -> Any:
    """Return the images, each moved by up to one pixel in each direction."""
    images, classes = batch
    count, _, height, width = images.shape
    padded = np.zeros((count, height + 2, width + 2), images.dtype)
    padded[:, 1:-1, 1:-1] = images[:, 0]
    windows = sliding_window_view(padded, (height, width), (1, 2))
    down, right = generator.integers(0, 3, (2, count))
    return windows[np.arange(count), down, right][:, None], classes


def classify(model: nn.Module, images: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the probability of each class, float32[n, 10], in evaluation mode."""
    model.eval()
    with calor.no_grad():
        parts = [
            calor.softmax(model(calor.asarray(images[i : i + 256])), axis=-1).numpy()
            for i in range(0, len(images), 256)
        ]
    return np.concatenate(parts)


def prepare(
    data: tuple[Arrays, Arrays], epochs: int, seed: int, callbacks: Sequence[Callback] = ()
) -> tuple[Learner, DataLoader, DataLoader]:
    """Return a learner for ``epochs`` epochs, and the loaders of what it learns and is tried on."""
    calor.random.seed(seed)
    train = DataLoader(
        ArrayDataset(*data[0]), BATCH, shuffle=True, transform=shifted, seed=seed, workers=1
    )
    valid = DataLoader(ArrayDataset(*data[1]), 256)
    model = network()
    optimizer = AdamW(model, lr=4e-3, weight_decay=0.05)
    steps = epochs * len(train)
    warm = min(2 * len(train), max(steps // 5, 1))
    learner = Learner(
        model,
        optimizer,
        nn.functional.cross_entropy,
        metrics=[Accuracy(), ConfusionMatrix(10)],
        schedule=Scheduler(optimizer, lr=Chained(LinearWarmup(warm), Cosine(max(steps, 1)))),
        callbacks=callbacks,
    )
    return learner, train, valid


def learn(options: argparse.Namespace) -> int:
    """Train, write everything, and let a new process check the weights; return the exit status."""
    started = time.perf_counter()
    folder: Path = options.output
    folder.mkdir(parents=True, exist_ok=True)
    data = digits()
    (images, _), (held_images, held_classes) = data
    device = calor.zeros(()).device
    print(f"computing on {device.name}: {device.info.description}")
    print(f"{len(images)} digits to learn from, {len(held_images)} held out, seed {options.seed}")
    callbacks = [CSVLog(folder / "history.csv")]
    learner, train, valid = prepare(data, options.epochs, options.seed, callbacks)
    learner.fit(train, valid, epochs=options.epochs)
    if learner.stop_reason is not None:
        return 130
    confusion = learner.evaluate(valid)["confusion"]
    shares = classify(learner.model, held_images)
    right = int((shares.argmax(1) == held_classes).sum())
    calor.write_safetensors(folder / WEIGHTS, learner.model.state_dict())
    results = {
        "device": learner.device.name,
        "seed": options.seed,
        "epochs": options.epochs,
        "right": right,
        "held_out": len(held_classes),
        "classes": shares.argmax(1).tolist(),
    }
    (folder / RESULTS).write_text(json.dumps(results), "utf-8")
    reading = f"{right} of {len(held_classes)} held-out digits classified correctly"
    plot_history(learner.history, folder / "curves.png", valid_label="held out")
    plot_confusion_matrix(confusion, folder / "confusion.png", title=reading)
    plot_predictions(
        held_images[:, 0],
        shares,
        held_classes,
        folder / "predictions.png",
        title="Held-out digits as the network reads them: mistakes, then doubts, then others",
    )
    print(f"{reading}: {_percent(right, len(held_classes))}")
    for name in (WEIGHTS, "curves.png", "confusion.png", "predictions.png", "history.csv"):
        print(f"  {folder / name}")
    sys.stdout.flush()
    command = [sys.executable, "-m", "calor_train.quickstart", "--check", "--output", str(folder)]
    if options.device is not None:
        command += ["--device", options.device]
    status = subprocess.run(command, check=False).returncode
    print(f"{time.perf_counter() - started:.0f} s in all")
    if status:
        return status
    if right < GOAL * len(held_classes):
        print(f"below the goal of {100 * GOAL:.0f} %; more --epochs or another --seed may help")
        return 1
    return 0


def check(options: argparse.Namespace) -> int:
    """Load the weights that ``learn`` wrote and classify the held-out digits again."""
    folder: Path = options.output
    expected = json.loads((folder / RESULTS).read_text("utf-8"))
    _, (images, classes) = digits()
    model = network()
    model.load_state_dict(calor.read_safetensors(folder / WEIGHTS))
    found = classify(model, images).argmax(1)
    right = int((found == classes).sum())
    same = found.tolist() == expected["classes"]
    print(
        f"loaded in a new process: {_percent(right, len(classes))}, "
        f"{'the same classes' if same else 'OTHER CLASSES THAN BEFORE'}"
    )
    return 0 if same and right == expected["right"] else 3


def _percent(right: int, total: int) -> str:
    return f"{100 * right / total:.2f} %"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the quickstart; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m calor_train.quickstart",
        description="Train a convolutional network to read handwritten digits.",
    )
    parser.add_argument("--device", help="where to compute, for example numpy, cpu or cuda:0")
    parser.add_argument("--epochs", type=int, default=20, help="passes over the data (%(default)s)")
    parser.add_argument(
        "--output", type=Path, default=Path("quickstart-output"), help="folder (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers (%(default)s)")
    parser.add_argument("--check", action="store_true", help="only classify with saved weights")
    options = parser.parse_args(arguments)
    needed = {
        "sklearn": "scikit-learn",
        "matplotlib": "matplotlib",
        "threadpoolctl": "threadpoolctl",
    }
    missing = [n for n in needed if importlib.util.find_spec(n) is None]
    if missing:
        names = " and ".join(needed[n] for n in missing)
        print(
            f'the quickstart needs {names}: pip install "calor-train[quickstart]"', file=sys.stderr
        )
        return 2
    from threadpoolctl import threadpool_limits

    where: AbstractContextManager[Any] = nullcontext()
    if options.device is not None:
        where = calor.device(options.device)
    # The matrices here are small: several threads of the host's BLAS would only wait for each
    # other, on a busy machine ten times as long as the arithmetic takes.
    with where, threadpool_limits(1, user_api="blas"):
        return check(options) if options.check else learn(options)


if __name__ == "__main__":
    raise SystemExit(main())
