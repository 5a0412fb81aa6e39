"""How many launches does a training step take, on devices that are only described?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import calor
import calor_train as train
from calor import nn
from calor.nn import functional as F
from calor_kernel.planning.recording import Recorder
from kernel_census import described, forget

WIDTH, HEADS, WORDS, LENGTH = 64, 4, 50, 32


@pytest.fixture(autouse=True)
def generator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw weights from a generator that no later test sees: its device computes nothing."""
    made = calor.random.Generator(0)
    for name, value in vars(made).items():
        monkeypatch.setitem(vars(calor.random.default_generator), name, value)


class Block(nn.Module):
    """A layer of a transformer, its norms before its two parts."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.into, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        count, length, width = x.shape
        heads = self.into(self.first(x)).reshape(count, length, 3, HEADS, width // HEADS)
        q, k, v = (heads[:, :, i].permute_dims((0, 2, 1, 3)) for i in range(3))
        made = F.scaled_dot_product_attention(q, k, v, causal=True)
        x = x + self.out(made.permute_dims((0, 2, 1, 3)).reshape(count, length, width))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Language(nn.Module):
    """A transformer of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words: Any) -> Any:
        x = self.words(words) + self.places(calor.arange(LENGTH))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).reshape(-1, WORDS)


class Residual(nn.Module):
    """Two convolutions with batch norms, beside the images."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.two = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.first, self.second = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x: Any) -> Any:
        return F.relu(x + self.second(self.two(F.relu(self.first(self.one(x))))))


def language() -> tuple[Any, Any, Any]:
    words = np.zeros((4, LENGTH), np.int64)
    return Language(), words, words.reshape(-1)


def images() -> tuple[Any, Any, Any]:
    layers = [*(Residual(16) for _ in range(3)), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    made = nn.Sequential(*layers, nn.Linear(16, 10))
    return made, np.zeros((8, 16, 16, 16), np.float32), np.zeros(8, np.int64)


@contextmanager
def recorded() -> Iterator[list[list[tuple[str, str]]]]:
    """Yield a list that gets the ops and labels of each recording."""
    found: list[list[tuple[str, str]]] = []
    record = Recorder.record

    def noted(recorder: Any, *given: Any, **named: Any) -> Any:
        made = record(recorder, *given, **named)
        found.append([(la.op, la.launch.label) for one in made.launches for la in one])
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recorder, "record", noted)
        yield found


def launches(device: str, step: Callable[..., Any], *given: Any) -> list[tuple[str, str]]:
    """Return the launches of a jitted step at its first call, which comes after all before it."""
    forget(device)
    with recorded() as found:
        calor.jit(step)(*given)
    return found[-1]


# The device, the model and optimizer, and the most launches. The products of a model are a part of
# them. Indices of the language may fail, so updates are guarded; some devices join unlike launches.
STEPS = [
    ("cuda", language, train.AdamW, 72),
    ("cuda", images, train.SGD, 68),
    pytest.param("opencl", language, train.AdamW, 72, marks=pytest.mark.slow),
    pytest.param("wgpu", language, train.AdamW, 72, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("device", "make", "kind", "most"), STEPS)
def test_a_training_step(device: str, make: Any, kind: Any, most: int) -> None:
    with described(device), calor.device(device):
        model, x, y = make()
        calor.eval(*model.parameters(), *model.buffers())
        optimizer = kind(model.parameters(), lr=0.1)
        gradient = calor.value_and_grad(lambda model, x, y: F.cross_entropy(model(x), y))

        def step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
            loss, grads = gradient(model, x, y)
            optimizer.update(model, grads)
            return loss

        made = launches(device, step, model, optimizer, calor.asarray(x), calor.asarray(y))
    assert len(made) <= most
    # Each kind of state is written in place by a launch for all layers.
    assert not [one for one in made if one[0] == "copy" and one[1] == "copy_dense"][2:]


@pytest.mark.parametrize(
    ("device", "most"),
    [
        ("cuda", 6),
        ("hip", 6),
        ("opencl", 7),
        ("cpu", 6),
        pytest.param("wgpu", 46, marks=pytest.mark.slow),
    ],
)
def test_an_optimizer_of_many_parameters(device: str, most: int) -> None:
    """Forty parameters of different shapes; a few launches are of numbers that all share."""
    with described(device), calor.device(device):
        layers = [nn.Linear(4 + k, 8 + k) for k in range(20)]
        model = nn.Sequential(*layers)
        calor.eval(*model.parameters())
        optimizer = train.AdamW(model.parameters())

        def step(model: Any, optimizer: Any) -> None:
            optimizer.update(
                model, calor.grad(lambda m: sum((p * p).sum() for p in m.parameters()))(model)
            )

        made = launches(device, step, model, optimizer)
        made = [one for one in made if one[0] != "sum" and one[0] != "row_program"]
    assert len(made) <= most
