"""Served models: drawn requests of the Open Inference Protocol beside plain runs of the model.

Requests differ in rows, in whether contents are JSON or bytes, in the outputs that they name, in
ids and versions, and come one by one or together, so that some are joined. Wrong ones are refused
with one error, and harm no other.
"""

from __future__ import annotations

import inspect
import json
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import bool_, float32, int32, int64
from calor.errors import DeviceError
from calor.graph.file import save

from .base import Array, Check, Place

CONTRACT: Final = "a served model gives each request its own outputs, whatever others are sent"
PACKAGE: Final = "calor_http"
_REQUESTS, _WRONG = 12, 6
_KINDS: Final = {
    "FP32": np.float32, "FP64": np.float64, "INT32": np.int32, "INT64": np.int64, "INT8": np.int8,
    "UINT8": np.uint8, "BOOL": np.bool_, "FP16": np.float16,
}  # fmt: skip
Rng = np.random.Generator


def _double(folder: Path) -> Path:
    """Write a model of two inputs and two outputs with rows of any number."""
    from onnx import TensorProto, helper

    nodes = [
        helper.make_node("Mul", ["x", "x"], ["square"]),
        helper.make_node("Add", ["square", "y"], ["sum"]),
        helper.make_node("ReduceMax", ["sum", "last"], ["most"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "rows",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 3]) for n in "xy"],
        [helper.make_tensor_value_info("sum", TensorProto.FLOAT, ["N", 3]),
         helper.make_tensor_value_info("most", TensorProto.FLOAT, ["N"])],
        [helper.make_tensor("last", TensorProto.INT64, [1], [1])],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    path = folder / "rows.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def _wanted(x: Array, y: Array) -> dict[str, Array]:
    sums = x * x + y
    return {"sum": sums, "most": sums.max(1)}


def _input(name: str, array: Array, kind: str, binary: bool) -> tuple[dict[str, Any], bytes]:
    made: dict[str, Any] = {"name": name, "shape": list(array.shape), "datatype": kind}
    if binary:
        return {**made, "parameters": {"binary_data_size": array.nbytes}}, array.tobytes()
    data = array.tolist() if array.ndim % 2 else array.ravel().tolist()
    return {**made, "data": data}, b""


def _post(client: Any, model: str, message: dict[str, Any], parts: list[bytes]) -> Any:
    head = json.dumps(message).encode()
    more = {"Inference-Header-Content-Length": str(len(head))} if any(parts) else {}
    path = f"/v2/models/{model}/infer"
    return client.post(path, content=head + b"".join(parts), headers=more)


def _outputs(answer: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return what an answer says, and the arrays of its outputs."""
    length = answer.headers.get("inference-header-content-length")
    cut = len(answer.content) if length is None else int(length)
    said, rest = json.loads(answer.content[:cut]), answer.content[cut:]
    found = {}
    for one in said["outputs"]:
        kind, shape = _KINDS[one["datatype"]], one["shape"]
        size = one.get("parameters", {}).get("binary_data_size")
        if size is None:
            found[one["name"]] = np.asarray(one["data"], kind).reshape(shape)
        else:
            found[one["name"]] = np.frombuffer(rest[:size], kind).reshape(shape)
            rest = rest[size:]
    assert not rest, f"{len(rest)} bytes follow the outputs"
    return said, found


def _ask(client: Any, rng: Rng) -> None:
    rows = int(rng.integers(1, 5))
    x, y = (rng.integers(-9, 10, (rows, 3)).astype(np.float32) for _ in range(2))
    binary = [bool(rng.random() < 0.5) for _ in range(2)]
    made = [_input(n, a, "FP32", b) for n, a, b in zip("xy", (x, y), binary, strict=True)]
    if rng.random() < 0.5:
        made.reverse()
    message: dict[str, Any] = {"inputs": [head for head, _ in made]}
    wants = _wanted(x, y)
    names = list(wants)
    if rng.random() < 0.6:
        names = [str(n) for n in rng.permutation(names)[: int(rng.integers(1, 3))]]
        as_bytes = {n: bool(rng.random() < 0.5) for n in names}
        message["outputs"] = [
            {"name": n, "parameters": {"binary_data": as_bytes[n]}} for n in names
        ]
    if rng.random() < 0.5:
        message["id"] = f"id-{rng.integers(999)}"
    answer = _post(client, "rows", message, [part for _, part in made])
    assert answer.status_code == 200, f"{message} has status {answer.status_code}: {answer.text}"
    said, found = _outputs(answer)
    assert said["model_name"] == "rows", said
    assert said.get("id") == message.get("id"), f"the id {said.get('id')} of {message.get('id')}"
    assert list(found) == names, f"outputs {list(found)}, not {names}"
    for name, got in found.items():
        want = wants[name]
        same = got.shape == want.shape and np.array_equal(got, want)
        assert same, f"{name} of {message}: {got.tolist()}, not {want.tolist()}"


def _wrong(client: Any, rng: Rng) -> None:
    """A request with one thing that is wrong has a status of its own, and one error."""
    rows = 2
    x = rng.random((rows, 3)).astype(np.float32)
    good = [_input(n, x, "FP32", False)[0] for n in "xy"]
    first = good[0]
    wrongs: list[Any] = [
        {"inputs": good[:1]}, {"inputs": [{**first, "name": "z"}, good[1]]},
        {"inputs": [{**first, "datatype": "INT64"}, good[1]]},
        {"inputs": [{**first, "shape": [rows, 4]}, good[1]]},
        {"inputs": [{**first, "shape": [rows, -3]}, good[1]]},
        {"inputs": [{**first, "data": ["a"] * 6}, good[1]]},
        {"inputs": [*good, good[0]]}, {"inputs": good, "outputs": [{"name": "nothing"}]},
        {"inputs": 3}, {}, [1],
    ]  # fmt: skip
    body = wrongs[int(rng.integers(len(wrongs)))]
    answer = client.post("/v2/models/rows/infer", content=json.dumps(body))
    assert 400 <= answer.status_code < 500, f"{body} has status {answer.status_code}"
    assert list(answer.json()) == ["error"], answer.text
    assert client.get("/v2/models/unknown/ready").status_code == 404, "an unknown model is ready"


def _types(client: Any, rng: Rng, graphs: dict[str, Any]) -> None:
    """Graphs of each type, of one input, with contents as bytes and as numbers."""
    for kind in graphs:
        array: Array = rng.integers(0, 2, (2, 3)).astype(_KINDS[kind])
        binary = bool(kind == "FP16" or rng.random() < 0.5)
        meta = client.get(f"/v2/models/of_{kind}").json()
        told = meta["inputs"][0]
        assert (told["datatype"], told["shape"]) == (kind, [2, 3]), told
        head, part = _input(told["name"], array, kind, binary)
        message = {"inputs": [head], "parameters": {"binary_data_output": True}}
        answer = _post(client, f"of_{kind}", message, [part])
        assert answer.status_code == 200, f"{kind}: {answer.text}"
        got = next(iter(_outputs(answer)[1].values()))
        want = array[::-1]
        same = got.dtype == want.dtype and np.array_equal(got, want)
        assert same, f"{kind}: {got.tolist()}, not {want.tolist()}"


def _run(place: Place) -> None:
    import httpx

    local = import_module("calor_http.model.local")
    try:
        calor.device(place.plain.name)
    except DeviceError:
        # A device that is in no registry has no name by which it could be served.
        return
    rng = np.random.default_rng([place.seed, 931])
    info = place.plain.info
    kinds = [k for k in _KINDS if info.dtypes.get(calor.dtypes.as_dtype(_KINDS[k]))]
    with tempfile.TemporaryDirectory() as name:
        paths = [_double(Path(name))]
        for kind in kinds:
            paths.append(Path(name) / f"of_{kind}.calor")
            x = calor.asarray(np.zeros((2, 3), _KINDS[kind]))
            paths[-1].write_bytes(save(calor.trace(lambda x: calor.flip(x, axis=0), x)))
        options = {"device": place.plain.name, "max_batch": 8, "max_delay_ms": 3.0}
        with (
            local.LocalModels(*paths, **options) as server,
            httpx.Client(base_url=server.address, timeout=30) as client,
        ):
            for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/rows/ready"):
                assert client.get(path).status_code == 200, f"{path} is not there"
            _types(client, rng, dict.fromkeys(kinds))
            for _ in range(_REQUESTS):
                _ask(client, rng)
            for _ in range(_WRONG):
                _wrong(client, rng)
            seeds = rng.integers(1 << 30, size=_REQUESTS)
            with ThreadPoolExecutor(4) as pool:
                asked = [
                    pool.submit(_ask, client, np.random.default_rng(int(seed))) for seed in seeds
                ]
                for one in asked:
                    one.result()


def served_models() -> Iterator[Check]:
    """Yield the check, if calor-http and calor-onnx are installed."""
    if all(find_spec(name) is not None for name in (PACKAGE, "calor_onnx", "onnx")):
        yield Check(
            kind="models",
            subject="served",
            tier="compiled",
            contract=CONTRACT,
            run=_run,
            text=partial(inspect.getsource, _ask),
            dtypes=(float32, int32, int64, bool_),
            looks=True,
        )
