"""Training steps of a small CNN and a transformer of two layers: as users type them, and jitted.

The optimizer is plain SGD on both sides, so that what is compared is the forward pass, the
backward pass and one update. Losses are compared after the same number of steps only by being
finite: the initial weights differ.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from harness import Case
from suites._operations import Array, library

_BATCH, _TOKENS, _WIDTH = 16, 64, 128


def cases(device: str) -> list[Case]:
    return [
        Case(
            f"training step, {name}{', jit' if jit else ''}",
            ours=partial(_ours, device, name, jit),
            peers={"torch": partial(_theirs, name)},
            check=_finite,
        )
        for name in ("CNN", "transformer")
        for jit in (False, True)
    ]


def _finite(ours: Any, theirs: Any) -> None:
    assert np.isfinite(float(ours))
    assert np.isfinite(float(theirs))


def _data(name: str) -> tuple[Array, Array]:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 10, _BATCH)
    if name == "CNN":
        return generator.standard_normal((_BATCH, 3, 32, 32), np.float32), labels
    return generator.standard_normal((_BATCH, _TOKENS, _WIDTH), np.float32), labels


def _model(nn: Any, name: str) -> Any:
    """Return the same model from calor's or torch's modules."""
    if name == "CNN":
        return nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * 8 * 8, 10),
        )
    layers = [
        nn.TransformerEncoderLayer(_WIDTH, 4, 4 * _WIDTH, dropout=0.0, batch_first=True)
        for _ in range(2)
    ]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(_TOKENS * _WIDTH, 10))


def _ours(device: str, name: str, jit: bool) -> Callable[[], Any]:
    import calor
    import calor_train as train
    from calor import nn

    with calor.device(device):
        model = _model(nn, name)
        optimizer = train.SGD(model.parameters(), lr=1e-3)
        x, y = (calor.asarray(a) for a in _data(name))

    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(model(x), y)
        model.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    function: Callable[..., Any] = calor.jit(step) if jit else step

    def call() -> float:
        with calor.device(device):
            return float(function(x, y).item())

    return call


def _theirs(name: str) -> Callable[[], float]:
    torch = library("torch")
    torch.manual_seed(0)
    model = _model(torch.nn, name)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, y = (torch.from_numpy(a) for a in _data(name))

    def call() -> float:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return call
