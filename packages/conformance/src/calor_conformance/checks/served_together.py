"""Models of open sizes behind a server: what clients send at once, ahead and in pieces.

Models of ONNX are drawn: chains of nodes along the columns, some of them across the rows too.
Several clients send requests of any number of rows and columns on connections of their own, one
behind the other without waiting, cut anywhere, as JSON or as bytes. Each is answered in the order
of its connection with what the model gives for it alone, or with an error where it fails alone.
"""

from __future__ import annotations

import inspect
import json
import socket
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32, int64
from calor.errors import CalorError, DeviceError

from .base import Array, Check, Place
from .served_models import CONTRACT, PACKAGE, _input, _outputs

_MODELS, _CLIENTS, _ASKED = 4, 5, 4
_PATIENCE: Final = 30.0
# Nodes from two tensors of rows and columns, and places in a table, to a tensor of rows.
_OF_ROWS: Final = (
    "{out} = Add ({a}, {b})", "{out} = Mul ({a}, two)", "{out} = Sub ({b}, {a})",
    "{out} = Concat <axis = 1> ({a}, {b})", "{out} = CumSum ({a}, columns)",
    "{out} = Concat <axis = -1> ({b}, {a}, {b})", "{out} = Slice ({a}, late, early, columns, back)",
    "{out} = Relu ({a})", "{out} = Max ({a}, {b})",
)  # fmt: skip
_ACROSS: Final = (
    "{out} = CumSum ({a}, rows)", "{out} = Slice ({a}, late, early, rows, back)",
    "most = ReduceMax <keepdims = 1> ({a}, rows)\n{out} = Sub ({a}, most)",
    "{out} = ReduceSum <keepdims = 1> ({a}, rows)", "{out} = Concat <axis = 0> ({a}, {a})",
)  # fmt: skip
# Outputs of one number for each row.
_NUMBERS: Final = (
    "{out} = ReduceSum <keepdims = 0> ({a}, columns)",
    "{out} = ReduceMax <keepdims = 0> ({a}, columns)",
    "picked = Gather (table, i)\n{out} = Mul (picked, two)",
)  # fmt: skip
_CONSTANTS: Final = (
    "int64[1] columns = {1}, int64[1] rows = {0}, int64[1] back = {-1}, float[1] two = {2}, "
    "int64[1] late = {9999}, int64[1] early = {-9999}, float[4] table = {1, 2, 3, 4}"
)
Rng = np.random.Generator


def _model(rng: Rng) -> str:
    """Draw a model, in the text form of ONNX."""
    lines, made, last = [], ["x", "y"], "x"
    count = int(rng.integers(1, 4))
    across = int(rng.integers(count)) if rng.random() < 0.35 else -1
    for n in range(count):
        kinds = _ACROSS if n == across else _OF_ROWS
        # The same tensor twice has the same columns, whatever was joined.
        a, b = (str(rng.choice(made)), str(rng.choice(made))) if not n else (last, last)
        last = f"t{n}"
        lines.append(str(rng.choice(kinds)).format(out=last, a=a, b=b))
    lines.append(str(rng.choice(_NUMBERS)).format(out="number", a=str(rng.choice(made))))
    lines.append(f"found = Identity ({last})")
    body = "\n".join(lines)
    return f"""<ir_version: 8, opset_import: ["" : 18]>
        drawn (float[N, T] x, float[N, T] y, int64[N] i) => (float[M, C] found, float[N] number)
        <{_CONSTANTS}> {{ {body} }}"""


@dataclass
class _Request:
    """A request as bytes, and what its answer has to be."""

    raw: bytes
    told: str
    # The names of outputs that are wanted, and their arrays; None where the model fails.
    wanted: dict[str, Array] | None = None
    status: int = 200
    id: str | None = None
    tells: dict[str, Any] = field(default_factory=dict)


def _http(method: str, target: str, body: bytes, length: int | None) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: here"]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    if length is not None:
        lines.append(f"Inference-Header-Content-Length: {length}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _asked(rng: Rng, name: str, model: Any, number: int) -> _Request:
    """Draw a request for a model, and find out what it gives alone."""
    rows = int(rng.choice([0, 1, 2, 3, 5, 9], p=[0.05, 0.35, 0.2, 0.2, 0.1, 0.1]))
    columns = int(rng.choice([1, 2, 3]))
    if rng.random() < 0.06:
        # So long that its JSON is read and written beside what is short.
        rows, columns = 3, 6000
    x, y = (rng.integers(-9, 10, (rows, columns)).astype(np.float32) for _ in range(2))
    places = rng.integers(0, 4, rows)
    if rng.random() < 0.15 and rows:
        places[int(rng.integers(rows))] = 99
    binary = [bool(rng.random() < 0.5) for _ in range(3)]
    if binary[0] and rng.random() < 0.15 and rows:
        x[0, 0] = np.inf
    feed: dict[str, Array] = {"x": x, "y": y, "i": places}
    kinds = {"x": "FP32", "y": "FP32", "i": "INT64"}
    parts = [_input(n, feed[n], kinds[n], b) for n, b in zip("xyi", binary, strict=True)]
    parts = [parts[int(n)] for n in rng.permutation(3)]
    outputs = [str(n) for n in rng.permutation(["found", "number"])[: int(rng.integers(1, 3))]]
    as_bytes = {n: bool(rng.random() < 0.5) for n in outputs}
    said: dict[str, Any] = {
        "id": f"{name}-{number}",
        "inputs": [head for head, _ in parts],
        "outputs": [{"name": n, "parameters": {"binary_data": as_bytes[n]}} for n in outputs],
    }
    head = json.dumps(said).encode()
    body = head + b"".join(part for _, part in parts)
    length = len(head) if any(binary) or rng.random() < 0.5 else None
    raw = _http("POST", f"/v2/models/{name}/infer", body, length)
    told = f"{name}-{number} of {rows} rows and {columns} columns"
    try:
        made = {n: np.array(t.numpy() if hasattr(t, "numpy") else t)
                for n, t in model.run(feed).items()}  # fmt: skip
    except CalorError:
        return _Request(raw, told, None, 400)
    wanted = {n: made[n] for n in outputs}
    if any(not as_bytes[n] and not np.isfinite(y).all() for n, y in wanted.items()):
        return _Request(raw, f"{told}, with infinities in JSON", None, 422)
    return _Request(raw, told, wanted, 200, str(said["id"]))


def _other(rng: Rng, name: str) -> _Request:
    """Draw a request that runs no model."""
    target = f"/v2/models/{name}"
    among = [
        _Request(_http("GET", target, b"", None), "metadata", tells={"name": name}),
        _Request(_http("GET", f"{target}/ready", b"", None), "ready", tells={"ready": True}),
        _Request(_http("GET", "/v2/health/live", b"", None), "live", tells={"live": True}),
        _Request(_http("POST", f"{target}/infer", b"{]", None), "no JSON", None, 400),
        _Request(_http("POST", f"{target}/infer", b"{}", None), "no inputs", None, 400),
        _Request(_http("GET", f"{target}/infer", b"", None), "another method", None, 405),
        _Request(_http("GET", "/v2/models/other", b"", None), "another model", None, 404),
    ]
    return among[int(rng.integers(len(among)))]


def _talk(address: str, requests: list[_Request], cuts: list[int]) -> None:
    """Send requests one behind the other, cut at places, and judge the answers in their order."""
    host, port = address.removeprefix("http://").rsplit(":", 1)
    whole = b"".join(r.raw for r in requests)
    with socket.create_connection((host, int(port)), timeout=_PATIENCE) as talk:
        ends = [*sorted(c % max(len(whole), 1) for c in cuts), len(whole)]
        sender = ThreadPoolExecutor(1)
        sending = sender.submit(_send, talk, whole, ends)
        with talk.makefile("rb") as answers:
            for request in requests:
                _judge(request, answers)
        sending.result()
        sender.shutdown()


def _send(talk: socket.socket, whole: bytes, ends: list[int]) -> None:
    begin = 0
    for end in ends:
        talk.sendall(whole[begin:end])
        begin = end


def _judge(request: _Request, answers: Any) -> None:
    line = answers.readline()
    assert line, f"{request.told}: the connection ends before its answer"
    status = int(line.split()[1])
    headers = {}
    while (text := answers.readline().strip()) != b"":
        name, _, value = text.partition(b":")
        headers[name.decode().lower()] = value.strip().decode()
    content = answers.read(int(headers["content-length"]))
    told = f"{request.told}: status {status}"
    assert status == request.status, f"{told}, not {request.status}: {content[:200]!r}"
    if request.status != 200:
        assert list(json.loads(content)) == ["error"], f"{told}: {content[:200]!r}"
        return
    if request.wanted is None:
        said = json.loads(content)
        there = {n: said.get(n) for n in request.tells}
        assert there == request.tells, f"{told}: {said}"
        return
    said, found = _outputs(SimpleNamespace(headers=headers, content=content))
    assert said["id"] == request.id, f"{told}: the answer to {said['id']}"
    assert list(found) == list(request.wanted), f"{told}: outputs {list(found)}"
    for name, right in request.wanted.items():
        got = found[name]
        same = got.dtype == right.dtype and got.shape == right.shape
        same = same and np.array_equal(got, right, equal_nan=True)
        assert same, f"{told}, {name}: {got.tolist()}, alone {right.tolist()}"


def _drawn(rng: Rng, names: list[str], models: list[Any]) -> list[list[_Request]]:
    """Draw the requests of each client."""
    made = []
    for client in range(_CLIENTS):
        requests = []
        for n in range(_ASKED):
            k = int(rng.integers(len(names))) if rng.random() < 0.4 else client % len(names)
            requests.append(_asked(rng, names[k], models[k], 10 * client + n))
            if rng.random() < 0.3:
                requests.append(_other(rng, names[k]))
        made.append(requests)
    return made


def _run(place: Place) -> None:
    import onnx

    onnx_models = import_module("calor_onnx")
    local = import_module("calor_http.model.local")
    try:
        device = calor.device(place.plain.name)
    except DeviceError:
        # A device that is in no registry has no name by which it could be served.
        return
    rng = np.random.default_rng([place.seed, 943])
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"drawn{n}.onnx" for n in range(_MODELS)]
        for path in paths:
            path.write_bytes(onnx.parser.parse_model(_model(rng)).SerializeToString())
        models = [onnx_models.load(path, device) for path in paths]
        clients = _drawn(rng, [path.stem for path in paths], models)
        options = {"device": place.plain.name, "max_batch": int(rng.choice([1, 3, 8])),
                   "max_delay_ms": 3.0}  # fmt: skip
        cuts = [rng.integers(0, 1 << 30, int(rng.integers(0, 5))).tolist() for _ in clients]
        with (
            local.LocalModels(*paths, **options) as server,
            ThreadPoolExecutor(_CLIENTS) as pool,
        ):
            for one in [
                pool.submit(_talk, server.address, requests, places)
                for requests, places in zip(clients, cuts, strict=True)
            ]:
                one.result()


def served_together() -> Iterator[Check]:
    """Yield the check, if calor-http and calor-onnx are installed."""
    if all(find_spec(name) is not None for name in (PACKAGE, "calor_onnx", "onnx")):
        yield Check(
            kind="models",
            subject="served-together",
            tier="compiled",
            contract=CONTRACT,
            run=_run,
            text=partial(inspect.getsource, _asked),
            dtypes=(float32, int64),
            looks=True,
        )
