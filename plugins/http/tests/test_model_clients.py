"""A stock client of the protocol talks to the model server unmodified."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calor_http.model.datatypes import DATATYPES
from calor_http.model.local import LocalModels
from served_model_files import DOUBLE, TYPES, typed, write

triton: Any = pytest.importorskip("tritonclient.http")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder: Path = tmp_path_factory.mktemp("models")
    types = {f"of_{name}": typed(name) for name in TYPES}
    with LocalModels(*write(folder, double=DOUBLE, **types), device="numpy") as server:
        client = triton.InferenceServerClient(server.address.removeprefix("http://"))
        yield client
        client.close()


def test_it_finds_what_there_is(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("double", "1")
    assert not client.is_model_ready("none")
    assert client.get_server_metadata()["name"] == "calor"
    assert client.get_model_metadata("double")["inputs"][0]["shape"] == [-1, 3]
    assert client.get_model_config("double")["input"][0]["data_type"] == "TYPE_FP32"
    assert {"double"} <= {model["name"] for model in client.get_model_repository_index()}


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False, None])
def test_it_infers(client: Any, binary_in: bool, binary_out: bool | None) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    given = triton.InferInput("x", x.shape, "FP32")
    given.set_data_from_numpy(x, binary_data=binary_in)
    wanted = None
    if binary_out is not None:
        wanted = [triton.InferRequestedOutput("y", binary_data=binary_out)]
    answer = client.infer("double", [given], outputs=wanted, request_id="five")
    np.testing.assert_array_equal(answer.as_numpy("y"), 2 * x)
    assert answer.get_response()["id"] == "five"
    assert (answer.as_numpy("place") is None) == (wanted is not None)


@pytest.mark.parametrize("datatype", TYPES)
def test_it_sends_all_types(client: Any, datatype: str) -> None:
    array = np.array([[1, 0], [1, 1]]).astype(DATATYPES[datatype])
    given = triton.InferInput("x", array.shape, datatype)
    given.set_data_from_numpy(array)
    found = client.infer(f"of_{datatype}", [given]).as_numpy("y")
    np.testing.assert_array_equal(found.astype(np.float64), array.astype(np.float64))


def test_it_sends_many_at_once(client: Any) -> None:
    x = np.ones((1, 3), np.float32)
    given = triton.InferInput("x", x.shape, "FP32")
    given.set_data_from_numpy(x)
    waiting = [client.async_infer("double", [given]) for _ in range(8)]
    for answer in waiting:
        np.testing.assert_array_equal(answer.get_result().as_numpy("y"), 2 * x)


def test_errors_are_the_clients(client: Any) -> None:
    x = np.ones((1, 4), np.float32)
    given = triton.InferInput("x", x.shape, "FP32")
    given.set_data_from_numpy(x)
    with pytest.raises(Exception, match=r"\[-1, 3\]"):
        client.infer("double", [given])
