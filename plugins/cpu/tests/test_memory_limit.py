"""Programs with a memory limit: it is kept, and the results are those without it."""

import gc

import numpy as np
import pytest

import calor
from calor import nn
from calor.errors import ArgumentError, MemoryLimitError, UnsupportedError
from calor_kernel import peak
from calor_kernel.runtime.backend import engine_of

train = pytest.importorskip("calor_train")


class Perceptron(nn.Module):
    """Layers of products, with dropout."""

    def __init__(self):
        super().__init__()
        layers = [(nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.2)) for _ in range(8)]
        self.layers = nn.Sequential(*(part for layer in layers for part in layer))

    def forward(self, x):
        return self.layers(x)


def convolutions():
    """Layers of convolutions with norms, whose statistics are state."""
    layers = [(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()) for _ in range(6)]
    return nn.Sequential(*(part for layer in layers for part in layer))


def transformer():
    layers = [nn.TransformerEncoderLayer(32, 2, 64, batch_first=True) for _ in range(3)]
    return nn.Sequential(*layers)


MODELS = {
    "products": (Perceptron, (256, 64)),
    "convolutions": (convolutions, (4, 8, 16, 16)),
    "attention": (transformer, (4, 32, 32)),
}


def trained(name, limit, calls=3):
    """Return losses, parameters and the most bytes in use, and the jitted step."""
    make, shape = MODELS[name]
    gc.collect()
    with calor.device("cpu"):
        calor.random.seed(3)
        model = make()
        optimizer = train.AdamW(model.parameters(), lr=1e-3)
        x = calor.asarray(np.random.default_rng(0).standard_normal(shape).astype(np.float32))

        def step(x):
            loss = calor.mean(calor.square(model(x) - 1.0))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        function = calor.jit(step, memory_limit=limit)
        losses = [function(x).item()]
        gc.collect()
        pool = engine_of("cpu", "").pool
        # What earlier tests left is not this program's.
        own = sum(t.nbytes for t in calor.tree.leaves((x, model, optimizer.state_dict()))
                  if isinstance(t, calor.Tensor))  # fmt: skip
        before = pool.in_use
        pool.peak = before
        pool.set_limit(None)
        losses += [function(x).item() for _ in range(calls - 1)]
        peak = pool.peak - before + own
        return losses, [p.tolist() for p in model.parameters()], peak, function


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n == "attention" else n for n in MODELS]
)
def test_a_step_keeps_its_limit_and_its_bits(name):
    *plain, peak, _ = trained(name, None)
    *within, most, function = trained(name, int(0.75 * peak))
    assert within == plain
    assert most <= 0.75 * peak
    assert function.programs[0].executable.again


def test_the_error_names_a_limit_that_will_do():
    with pytest.raises(
        MemoryLimitError, match=r"step needs \d+ bytes .* memory_limit is 4096 bytes .*: raise the"
    ) as caught:
        trained("products", "4 KiB")
    smallest, text = caught.value.smallest, str(caught.value)
    assert f"needs {smallest} bytes" in text
    # Its frames hold tensors.
    del caught
    *_, peak, _ = trained("products", smallest)
    assert peak <= smallest


def test_control_flow_is_held_to_the_limit_as_it_is():
    def total(rows):
        return calor.scan(lambda s, row: (s + row, s * row), rows[0], rows)

    rows = calor.ones((9, 1024), device="cpu")
    plain, within = calor.jit(total)(rows), calor.jit(total, memory_limit="1 MiB")(rows)
    assert within[0].tolist() == plain[0].tolist()
    with pytest.raises(MemoryLimitError, match="total needs"):
        calor.jit(total, memory_limit="1 KiB")(rows)


def test_gradients_outside_and_methods_have_the_limit_too():
    class Scaled:
        @calor.jit(memory_limit="64 KiB")
        def run(self, x):
            return calor.sum(calor.tanh(x) * x)

    x = calor.ones((1024,), device="cpu", requires_grad=True)
    Scaled().run(x).backward()
    assert x.grad is not None
    with pytest.raises(MemoryLimitError, match="run needs"):
        Scaled().run(calor.ones((1 << 20,), device="cpu"))


@pytest.mark.parametrize("limit", ["8 giga", "-1", -1, 1.5, True])
def test_a_limit_is_a_number_of_bytes(limit):
    with pytest.raises(ArgumentError, match="memory_limit is a number of bytes or a text such as"):
        calor.jit(lambda x: x, memory_limit=limit)


def test_a_device_that_does_not_recompute_keeps_the_limit_or_refuses():
    x = calor.ones(1000, device="numpy")
    assert calor.jit(lambda x: calor.sum(x * 2), memory_limit="1 GiB")(x).item() == 2000
    with pytest.raises(MemoryLimitError, match="needs .* memory_limit is 1000 bytes"):
        calor.jit(lambda x: calor.sum(x * 2), memory_limit=1000)(x)


def test_the_peak_says_what_is_held():
    def loss(x, w):
        for _ in range(4):
            x = calor.tanh(x @ w)
        return calor.sum(x)

    x, w = calor.ones((256, 64), device="cpu"), calor.ones((64, 64), device="cpu")
    function = calor.jit(calor.grad(loss, argnums=1))
    found = peak(function, x, w)
    required = function.programs[0].executable.required_bytes
    assert required == found.results + found.between
    assert found.given == x.nbytes + w.nbytes
    assert found.results == w.nbytes
    assert sum(one.nbytes for one in found.held) == found.live <= found.between
    layer = next(one for one in found.held if "tanh" in one.made)
    assert layer.value == "float32[256, 64]"
    assert layer.count >= 2
    assert "x float32[256, 64] of dot_general + tanh, until" in str(found)
    limited = peak(calor.jit(calor.grad(loss, argnums=1), memory_limit=found.nbytes - 60000), x, w)
    assert limited.nbytes <= found.nbytes - 60000
    with pytest.raises(UnsupportedError, match="numpy.* has no plan of loss"):
        peak(loss, calor.ones((4, 4), device="numpy"), calor.ones((4, 4), device="numpy"))
