"""Tensors that leak or share what others hold, and views and errors that mislead, are found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calor
from calor.functions import dlpack
from calor.methods import host, lending
from calor.methods.dlpack import Exchange
from calor.plugins.discovery import get_device
from calor.recording import sites, views
from calor.tensor.tensor import Tensor
from calor_conformance.checks.base import Place
from calor_conformance.checks.drawn_exchange import drawn_exchange
from calor_conformance.checks.drawn_views import drawn_views
from calor_conformance.checks.told_errors import told_errors

CHECKS = {c.subject: c for c in (*drawn_exchange(), *drawn_views(), *told_errors())}
NUMPY = Tensor.numpy
EXPORT = Exchange._export_host
HOST_ARRAY = dlpack._host_array
LINE_OF = sites.line_of
JOINED = views._joined


def ask(name: str) -> None:
    device = get_device("numpy")
    with calor.device("numpy"):
        CHECKS[name].run(Place(device, device))


def writable(self: Any, *, copy: bool = False) -> Any:
    array = NUMPY(self, copy=copy).view()
    return array if copy else np.lib.stride_tricks.as_strided(array, writeable=False).copy()


def shared(self: Any, copy: bool, version: Any) -> Any:
    return EXPORT(self, False, version if version and version[0] else (1, 0))


def kept(x: Any, in_place: bool, held: list[Any] = []) -> Any:  # noqa: B006
    made = HOST_ARRAY(x, in_place)
    held.append(made)
    return made


def forgotten(self: Any) -> None:
    lending._lent.pop(id(self.tensor), None)


FAULTS: list[tuple[str, Any, str, Any, str]] = [
    ("drawn-exchange", Tensor, "numpy", writable, "can be written to|copies"),
    ("drawn-exchange", Tensor, "_export_host", shared, "is of another protocol|refused|capsule"),
    ("drawn-exchange", dlpack, "_host_array", kept, "not let go"),
    ("drawn-exchange", host, "_WRITABLE", 0, "BufferError"),
    ("drawn-views-shared", lending._Lent, "write_back", forgotten, "a view holds"),
    ("drawn-views-shared", views, "refresh", lambda handle: None, "a view holds"),
    ("drawn-views-told", views, "_joined", lambda a, b: JOINED(b, a), "does not change x"),
    ("told-indices", sites, "line_of", lambda code, at: LINE_OF(code, 0), "the line is"),
    ("told-indices", sites, "path_of", lambda modules: None, "the module is"),
    ("told-several", sites, "_SHOWN", 2, "the line is"),
    ("told-operands", sites, "path_of", lambda modules: None, "the module is"),
]


@pytest.mark.parametrize(("check", "owner", "name", "fault", "said"), FAULTS)
def test_it_is_named(
    check: str, owner: Any, name: str, fault: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(check)
    monkeypatch.setattr(owner, name, fault)
    if name == "refresh":
        monkeypatch.setattr("calor.methods.core.refresh", fault)
    with pytest.raises(AssertionError, match=said):
        ask(check)
