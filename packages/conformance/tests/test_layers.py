"""Functions of packages beside calor are asked, and wrong ones are found."""

from __future__ import annotations

from importlib import import_module

import pytest

import calor
from calor.plugins.discovery import get_device
from calor_conformance import suite
from calor_conformance.checks.base import Place
from calor_conformance.rows.functions import layers


def test_every_function_has_a_row_or_a_reason() -> None:
    assert layers.unnamed() == []


def test_reasons_are_those_of_functions_without_a_row() -> None:
    rows = {f"{name}.{row.name}" for name, rows in layers.installed().items() for row in rows}
    assert not rows & set(layers.REASONS)


WRONG = [
    *(("calor_numerics", name) for name in (
        "nanvar", "segment_max", "cdist", "ptp", "average", "polar", "put", "apply_along_axis")),
    *(("calor_nn.functional", name) for name in (
        "nll_loss", "cross_entropy", "local_response_norm", "kl_div", "max_pool1d", "conv3d",
        "conv_transpose2d", "lp_pool2d", "im2col", "interpolate", "grid_sample", "deform_conv2d",
        "embedding_bag", "ctc_loss", "rotary_embedding", "attention_weights", "dropout", "rrelu",
        "scaled_dot_product_attention", "alpha_dropout")),
    *(("calor_nn.init", name) for name in ("xavier_uniform", "orthogonal", "gain")),
    ("calor_numerics.signal", "stft"), ("calor_numerics.signal.windows", "kaiser"),
    *(("calor_special", name) for name in ("i0", "digamma", "zeta", "gammainc", "betaln")),
    *(("calor_linalg", name) for name in ("vector_norm", "matrix_norm", "trace", "expm", "solve",
        "ormqr", "lu_solve", "cholesky_solve", "tensorinv")),
]  # fmt: skip


@pytest.mark.parametrize(("package", "name"), WRONG)
def test_a_wrong_number_is_found(package: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, device = import_module(package), get_device("numpy")
    function, label = getattr(module, name), f"functions/{package}.{name}"
    # A function with several ways to call it has a check of each.
    check = next(c for n, c in suite.checks().items() if n == label or n.startswith(f"{label}-"))
    with calor.device("numpy"):
        check.run(Place(device, device))
        monkeypatch.setattr(module, name, lambda *x, **more: function(*x, **more) * 1.01)
        with pytest.raises(AssertionError):
            check.run(Place(device, device))


class _Louder:
    """A module whose results are too large."""

    def __init__(self, layer: object) -> None:
        self._layer = layer

    def __getattr__(self, name: str) -> object:
        made = getattr(self._layer, name)
        return (lambda *x: _Louder(made(*x))) if name in ("train", "eval") else made

    def __call__(self, *x: object, **more: object) -> object:
        made = self._layer(*x, **more)  # type: ignore[operator]
        if isinstance(made, tuple):
            return (made[0] * 1.01, *made[1:])
        return made * 1.01


MODULES = (
    "Conv2d", "ConvTranspose1d", "BatchNorm2d", "BatchNorm3d", "GRU", "LSTMCell", "Upsample",
    "MultiHeadAttention", "TransformerDecoderLayer", "TransformerEncoderLayer", "Dropout2d",
    "EmbeddingBag", "CTCLoss", "CrossEntropyLoss", "PositionalEncoding", "MaxUnpool2d", "RReLU",
)  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_a_wrong_module_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, device = import_module("calor_nn"), get_device("numpy")
    kind, check = getattr(module, name), suite.checks()[f"functions/calor_nn.{name}"]
    with calor.device("numpy"):
        check.run(Place(device, device))
        monkeypatch.setattr(module, name, lambda *x, **more: _Louder(kind(*x, **more)))
        with pytest.raises(AssertionError):
            check.run(Place(device, device))


def test_a_package_that_is_missing_has_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "find_spec", lambda name: None)
    assert layers.installed() == {}
