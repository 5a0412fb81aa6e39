"""The model server answers as the Open Inference Protocol says, to plain HTTP."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import ml_dtypes
import numpy as np
import pytest

import calor
from calor import nn
from calor.errors import ArgumentError
from calor.graph.file import save
from calor_http.model.datatypes import DATATYPES
from calor_http.model.freezing import frozen
from calor_http.model.local import LocalModels
from calor_http.model.repository import found
from served_model_files import DOUBLE, FIXED, PICKED, TEXTS, TWO, TYPES, typed, write

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("models")
    graph = calor.trace(lambda x, y: (x @ y, x.sum()), calor.ones((2, 3)), calor.ones((3, 2)))
    (folder / "graph.calor").write_bytes(save(graph))
    types = {f"of_{name}": typed(name) for name in TYPES}
    paths = write(folder, double=DOUBLE, picked=PICKED, two=TWO, fixed=FIXED, **types)
    with (
        LocalModels(*paths, folder / "graph.calor", device="numpy") as server,
        httpx.Client(base_url=server.address) as client,
    ):
        yield client


def given(array: np.ndarray[Any, Any], name: str = "x", datatype: str = "FP32") -> dict[str, Any]:
    """Return an input as JSON."""
    data = array.reshape(-1).tolist()
    return {"name": name, "shape": list(array.shape), "datatype": datatype, "data": data}


def ask(client: httpx.Client, model: str, *inputs: Any, **more: Any) -> httpx.Response:
    return client.post(f"/v2/models/{model}/infer", json={"inputs": inputs, **more})


def refusal(response: httpx.Response) -> tuple[int, str]:
    """Return the status and the text of an error, which is nothing but that."""
    body = response.json()
    assert list(body) == ["error"]
    assert "Traceback" not in body["error"]
    assert response.headers["content-type"] == "application/json"
    return response.status_code, body["error"]


def in_binary(
    client: httpx.Client, model: str, message: Any, *data: bytes, length: int | None = None
) -> httpx.Response:
    head = json.dumps(message).encode()
    count = len(head) if length is None else length
    return client.post(
        f"/v2/models/{model}/infer",
        content=head + b"".join(data),
        headers={"Inference-Header-Content-Length": str(count)},
    )


def as_bytes(
    array: np.ndarray[Any, Any], name: str = "x", datatype: str = "FP32"
) -> dict[str, Any]:
    parameters = {"binary_data_size": array.nbytes}
    shape = list(array.shape)
    return {"name": name, "shape": shape, "datatype": datatype, "parameters": parameters}


def test_the_server_and_its_models_describe_themselves(client: httpx.Client) -> None:
    server = client.get("/v2").json()
    assert server["name"] == "calor"
    assert "binary_tensor_data" in server["extensions"]
    assert client.get("/v2/health/live").status_code == 200
    assert client.get("/v2/health/ready").status_code == 200
    assert client.get("/v2/models/double/ready").json()["ready"] is True
    assert client.get("/v2/models/double").json() == {
        "name": "double",
        "versions": ["1"],
        "platform": "onnx",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}],
        "outputs": [
            {"name": "y", "datatype": "FP32", "shape": [-1, 3]},
            {"name": "place", "datatype": "INT64", "shape": [-1]},
        ],
    }
    names = [model["name"] for model in client.post("/v2/repository/index").json()]
    assert {"double", "graph", "of_BF16"} <= set(names)


def test_json_goes_in_and_comes_out(client: httpx.Client) -> None:
    answer = ask(client, "double", given(X), id="seven", parameters={"mine": 3})
    assert answer.status_code == 200
    assert answer.json() == {
        "model_name": "double",
        "model_version": "1",
        "id": "seven",
        "outputs": [
            {"name": "y", "datatype": "FP32", "shape": [2, 3], "data": (2 * X).ravel().tolist()},
            {"name": "place", "datatype": "INT64", "shape": [2], "data": [2, 2]},
        ],
    }
    nested = {**given(X), "data": X.tolist()}
    assert ask(client, "double", nested).json()["outputs"] == answer.json()["outputs"]
    assert "id" not in ask(client, "double", nested).json()


def test_outputs_are_chosen_and_ordered(client: httpx.Client) -> None:
    message = {
        "inputs": [as_bytes(X)],
        "outputs": [{"name": "place", "parameters": {"binary_data": True}}, {"name": "y"}],
    }
    answer = in_binary(client, "double", message, X.tobytes())
    length = int(answer.headers["inference-header-content-length"])
    place, y = json.loads(answer.content[:length])["outputs"]
    assert (place["name"], place["parameters"]) == ("place", {"binary_data_size": 16})
    assert "data" not in place
    assert np.frombuffer(answer.content[length:], np.int64).tolist() == [2, 2]
    assert y["data"] == (2 * X).ravel().tolist()


@pytest.mark.parametrize("datatype", TYPES)
@pytest.mark.parametrize("binary", [False, True])
def test_all_types_go_both_ways(client: httpx.Client, datatype: str, binary: bool) -> None:
    dtype = DATATYPES[datatype]
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        array = np.array([[limits.min, limits.max], [1, 0]], dtype)
    elif dtype.kind == "b":
        array = np.array([[True, False], [False, True]])
    else:
        array = np.array([[0.5, -2.25], [1.0, 0.1]]).astype(dtype)
    name = f"of_{datatype}"
    if not binary:
        wide = array if array.dtype.kind in "biuf" else array.astype(np.float32)
        (output,) = ask(client, name, given(wide, datatype=datatype)).json()["outputs"]
        assert (output["datatype"], output["shape"]) == (datatype, [2, 2])
        assert np.array(output["data"], dtype).tobytes() == array.tobytes()
        return
    message = {
        "inputs": [as_bytes(array, datatype=datatype)],
        "parameters": {"binary_data_output": True},
    }
    for _ in range(2):
        answer = in_binary(client, name, message, array.tobytes())
        length = int(answer.headers["inference-header-content-length"])
        assert answer.content[length:] == array.tobytes()


def test_numbers_that_json_lacks_go_as_bytes(client: httpx.Client) -> None:
    array = np.array([[math.nan, math.inf]], np.float32)
    message: dict[str, Any] = {"inputs": [as_bytes(array)]}
    model = "of_FP32"
    status, text = refusal(in_binary(client, model, message, array.tobytes()))
    assert status == 422
    assert "binary data" in text
    message["parameters"] = {"binary_data_output": True}
    assert in_binary(client, model, message, array.tobytes()).content.endswith(array.tobytes())


def test_a_graph_of_calor_is_served(client: httpx.Client) -> None:
    x, y = np.ones((2, 3), np.float32), np.full((3, 2), 2, np.float32)
    for _ in range(3):
        outputs = ask(client, "graph", given(x, "input0"), given(y, "input1")).json()["outputs"]
        assert [output["data"] for output in outputs] == [[6.0] * 4, [6.0]]
    status, text = refusal(ask(client, "graph", given(y, "input0"), given(y, "input1")))
    assert status == 400
    assert "[2, 3]" in text


def test_no_rows_and_open_axes(client: httpx.Client) -> None:
    none = ask(client, "double", given(np.zeros((0, 3), np.float32))).json()["outputs"]
    assert [output["data"] for output in none] == [[], []]
    a = np.ones((2, 5), np.float32)
    product = ask(client, "two", given(a, "a"), given(3 * a, "b")).json()["outputs"][0]
    assert product["data"] == [3.0] * 10


WRONG: list[tuple[str, Any, int, str]] = [
    ("nothing", [], 400, "JSON object"),
    ("no inputs", {}, 400, "'inputs'"),
    ("an input missing", {"inputs": []}, 400, "'x' is missing"),
    ("another name", {"inputs": [given(X, "z")]}, 400, "no input 'z'"),
    ("twice", {"inputs": [given(X), given(X)]}, 400, "twice"),
    ("another type", {"inputs": [given(X, datatype="FP64")]}, 400, "takes FP32"),
    ("no type", {"inputs": [given(X, datatype="F32")]}, 400, "no datatype"),
    ("bytes", {"inputs": [given(X, datatype="BYTES")]}, 400, "BYTES are not taken"),
    ("another shape", {"inputs": [given(X.reshape(3, 2))]}, 400, r"takes [-1, 3]"),
    ("negative", {"inputs": [{**given(X), "shape": [-2, 3]}]}, 400, "sizes are numbers"),
    ("a truth as size", {"inputs": [{**given(X), "shape": [True, 3]}]}, 400, "sizes are numbers"),
    ("huge", {"inputs": [{**given(X), "shape": [1 << 60, 3]}]}, 400, "sizes are numbers"),
    ("many", {"inputs": [{**given(X), "shape": [1 << 40, 3]}]}, 400, "6 elements"),
    ("few", {"inputs": [{**given(X), "data": [1, 2]}]}, 400, "2 elements"),
    ("ragged", {"inputs": [{**given(X), "data": [[1, 2], [3]]}]}, 400, "one length"),
    ("otherwise", {"inputs": [{**given(X), "data": X.T.tolist()}]}, 400, "nested as"),
    ("texts", {"inputs": [{**given(X), "data": ["a"] * 6}]}, 400, "not numbers"),
    ("nulls", {"inputs": [{**given(X), "data": [None] * 6}]}, 400, "not numbers"),
    ("too large", {"inputs": [{**given(X), "data": [1e39] * 6}]}, 400, "cannot hold"),
    ("no list", {"inputs": [{**given(X), "data": 5}]}, 400, "are a list"),
    ("no data", {"inputs": [{"name": "x", "shape": [2, 3], "datatype": "FP32"}]}, 400, "one of"),
    ("an id", {"inputs": [given(X)], "id": 5}, 400, "'id'"),
    ("an output", {"inputs": [given(X)], "outputs": [{"name": "q"}]}, 400, "no output 'q'"),
    ("a flag", {"inputs": [given(X)], "parameters": {"binary_data_output": 1}}, 400, "true or"),
    (
        "shared memory",
        {"inputs": [{**given(X), "parameters": {"shared_memory_region": "r"}}]},
        400,
        "lacks",
    ),
    (
        "bytes that are not there",
        {"inputs": [{**as_bytes(X)}]},
        400,
        "0 bytes follow",
    ),
    (
        "a size that is not that of the shape",
        {"inputs": [{**as_bytes(X), "parameters": {"binary_data_size": 20}}]},
        400,
        "takes 24",
    ),
]


@pytest.mark.parametrize(
    ("message", "status", "text"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG]
)
def test_wrong_requests_are_told_what_is_wrong(
    client: httpx.Client, message: Any, status: int, text: str
) -> None:
    told = refusal(client.post("/v2/models/double/infer", json=message))
    assert told[0] == status
    assert text in told[1]


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"\xff", b"[" * 100_000, b'{"inputs": NaN}', b'{"a": ' + b"9" * 5000 + b"}"],
)
def test_what_is_no_json_is_told(client: httpx.Client, text: bytes) -> None:
    status, told = refusal(client.post("/v2/models/double/infer", content=text))
    assert status == 400
    assert "JSON" in told


def test_integers_are_exact(client: httpx.Client) -> None:
    def tried(datatype: str, data: list[Any]) -> tuple[int, str]:
        given = {"name": "x", "shape": [1, 2], "datatype": datatype, "data": data}
        answer = ask(client, f"of_{datatype}", given)
        return answer.status_code, answer.text

    assert tried("INT8", [128, 0])[0] == 400
    assert tried("UINT8", [-1, 0])[0] == 400
    assert tried("INT32", [1.5, 0])[0] == 400
    assert tried("UINT64", [1 << 64, 0])[0] == 400
    status, text = tried("UINT64", [(1 << 64) - 1, 1])
    assert status == 200
    assert json.loads(text)["outputs"][0]["data"] == [(1 << 64) - 1, 1]
    assert tried("BOOL", [2, 0])[0] == 400
    assert tried("BOOL", [1, False])[0] == 200


def test_bytes_are_counted(client: httpx.Client) -> None:
    message = {"inputs": [as_bytes(X)]}
    status, text = refusal(in_binary(client, "double", message, X.tobytes() + b"1"))
    assert (status, "25 bytes follow" in text) == (400, True)
    status, _ = refusal(in_binary(client, "double", message, X.tobytes(), length=10_000))
    assert status == 400
    truth = np.array([[7, 1]], np.uint8)
    told = {"name": "x", "shape": [1, 2], "datatype": "BOOL"}
    told["parameters"] = {"binary_data_size": 2}
    status, text = refusal(in_binary(client, "of_BOOL", {"inputs": [told]}, truth.tobytes()))
    assert (status, "neither 0 nor 1" in text) == (400, True)


def test_addresses(client: httpx.Client) -> None:
    for path in ("/", "/v1", "/v2/models", "/v2/models/none", "/v2/models/double/x", "/v2/%ff"):
        assert refusal(client.get(path))[0] == 404, path
    assert refusal(client.get("/v2/models/double/infer"))[0] == 405
    assert refusal(client.post("/v2/models/double"))[0] == 405
    assert refusal(client.get("/v2/models/double/versions/2"))[0] == 404
    assert client.get("/v2/models/d%6Fuble?x=1").status_code == 200
    same = client.post("/v2/models/double/versions/1/infer", json={"inputs": [given(X)]})
    assert same.json() == ask(client, "double", given(X)).json()


def test_an_element_that_the_model_refuses_is_the_requests_fault(client: httpx.Client) -> None:
    index = given(np.array([9]), "i", "INT64")
    status, text = refusal(ask(client, "picked", index))
    assert status == 400
    assert "9" in text


def test_versions_are_folders(tmp_path: Path) -> None:
    write(tmp_path / "scale" / "1", model=DOUBLE)
    write(tmp_path / "scale" / "10", model=FIXED)
    write(tmp_path / "scale" / "9", anything=FIXED)
    write(tmp_path / "two" / "3", model=TWO)
    (tmp_path / "scale" / "notes").mkdir()
    assert {n: list(v) for n, v in found([tmp_path]).items()} == {"scale": ["10"], "two": ["3"]}
    assert list(found([tmp_path / "scale"], "other", "all")["other"]) == ["1", "9", "10"]
    assert list(found([tmp_path / "scale"], policy="1,9")["scale"]) == ["1", "9"]
    with pytest.raises(ArgumentError, match="none of '4'"):
        found([tmp_path / "scale"], policy="4")
    with pytest.raises(ArgumentError, match="--name is for one model"):
        found([tmp_path], "other")
    with pytest.raises(ArgumentError, match="two models are named 'two'"):
        found([tmp_path, tmp_path / "two"])
    with pytest.raises(ArgumentError, match="no file and no folder"):
        found([tmp_path / "none"])
    with (
        LocalModels(tmp_path / "scale", device="numpy", versions="all") as server,
        httpx.Client(base_url=server.address) as client,
    ):
        assert client.get("/v2/models/scale").json()["versions"] == ["1", "9", "10"]
        newest = client.get("/v2/models/scale").json()["inputs"][0]["shape"]
        first = client.get("/v2/models/scale/versions/1").json()["inputs"][0]["shape"]
        assert (newest, first) == ([1, 3], [-1, 3])


def test_models_that_the_protocol_cannot_speak_of_are_not_served(tmp_path: Path) -> None:
    (path,) = write(tmp_path, texts=TEXTS)
    with pytest.raises(ArgumentError, match=r"the input 'x' is object, which .* no datatype"):
        LocalModels(path, device="numpy").start()
    other = tmp_path / "weights.pt"
    other.write_bytes(b"")
    with pytest.raises(ArgumentError, match=r"neither \.onnx nor \.calor"):
        LocalModels(other, device="numpy").start()


def test_half_types_are_what_their_bits_say() -> None:
    assert DATATYPES["BF16"] == np.dtype(ml_dtypes.bfloat16)
    assert DATATYPES["FP16"].itemsize == 2


def test_a_module_is_frozen_with_its_weights(tmp_path: Path) -> None:
    calor.random.seed(0)
    layer = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).eval()
    x = calor.asarray(X)
    (tmp_path / "layer.calor").write_bytes(save(frozen(layer, x)))
    with (
        LocalModels(tmp_path / "layer.calor", device="numpy") as server,
        httpx.Client(base_url=server.address) as client,
    ):
        (output,) = ask(client, "layer", given(X, "input0")).json()["outputs"]
    expected = layer(x).numpy()
    np.testing.assert_allclose(np.reshape(output["data"], expected.shape), expected, rtol=1e-6)


def test_what_changes_or_takes_more_than_tensors_is_not_frozen() -> None:
    with pytest.raises(ArgumentError, match=r"call eval\(\) first"):
        frozen(nn.BatchNorm1d(3), calor.asarray(X))
    with pytest.raises(ArgumentError, match="takes tensors alone"):
        frozen(lambda x, y: x * y, calor.asarray(X), 2.0)
    with pytest.raises(ArgumentError, match="returns tensors alone"):
        frozen(lambda x: (x, 3), calor.asarray(X))
