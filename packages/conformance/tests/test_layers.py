"""Functions of packages beside calor are asked, and wrong ones are found."""

from __future__ import annotations

from importlib import import_module

import pytest

import calor
from calor.plugins.discovery import get_device
from calor_conformance import deep, suite
from calor_conformance.checks.base import Place
from calor_conformance.rows.functions import layers
from calor_conformance.selection import Selection


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
    ("calor_numerics.signal", "stft"), ("calor_numerics.signal.windows", "kaiser"),
    *(("calor_special", name) for name in ("i0", "digamma", "zeta", "gammainc", "betaln")),
    *(("calor_linalg", name) for name in ("vector_norm", "matrix_norm", "trace", "expm", "solve",
        "ormqr", "lu_solve", "cholesky_solve", "tensorinv")),
]  # fmt: skip


@pytest.mark.parametrize(("package", "name"), WRONG)
def test_a_wrong_number_is_found(package: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, device = import_module(package), get_device("numpy")
    function, check = getattr(module, name), suite.checks()[f"functions/{package}.{name}"]
    with calor.device("numpy"):
        check.run(Place(device, device))
        monkeypatch.setattr(module, name, lambda *x, **more: function(*x, **more) * 1.01)
        with pytest.raises(AssertionError):
            check.run(Place(device, device))


def test_the_deep_search_draws_calls_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "functions/calor_numerics.put"
    module, chosen = import_module("calor_numerics"), Selection(patterns=(name,))
    (row,) = deep.search(get_device("numpy"), 0.5, 1, chosen=chosen)
    assert row.outcome == "passed"
    assert int(row.detail.split()[0]) > 1
    put = module.put
    monkeypatch.setattr(module, "put", lambda x, *given, **more: put(x, *given))
    (row,) = deep.search(get_device("numpy"), 60.0, 1, chosen=chosen)
    assert (row.name, row.outcome) == (name, "failed")


def test_a_package_that_is_missing_has_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "find_spec", lambda name: None)
    assert layers.installed() == {}
