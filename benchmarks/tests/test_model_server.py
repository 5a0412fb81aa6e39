"""The program that puts load on the model server and its peer."""

import asyncio
import json
from pathlib import Path

import httpx
import numpy as np
import onnxruntime
import pytest

import model_server
from programs import onnx_server, served_models

SAID = """Running 3s test @ http://127.0.0.1:1
  1 threads and 8 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.32ms    2.34ms  33.21ms   96.51%
    Req/Sec     7.62k     1.10k    9.06k    78.00%
  Latency Distribution
     50%    0.98ms
     75%    1.20ms
     90%    1.51ms
     99%   12.01ms
  22710 requests in 3.00s, 4.33MB read
Requests/sec:   7563.12
Transfer/sec:      1.44MB
"""


def test_what_wrk_says_is_read() -> None:
    ours = model_server.parsed(SAID)
    assert ours == pytest.approx({"per_second": 7563.12, "p50_s": 0.98e-3, "p99_s": 12.01e-3})
    peer = {"per_second": 3781.56, "p50_s": 1.96e-3, "p99_s": 6.005e-3}
    assert model_server.ratios(ours, peer) == pytest.approx(
        {"per_second": 2.0, "p50_s": 2.0, "p99_s": 0.5}
    )
    with pytest.raises(SystemExit, match="failed under load"):
        model_server.parsed(SAID + "  Non-2xx or 3xx responses: 7\n")
    with pytest.raises(SystemExit, match="nothing that can be read"):
        model_server.parsed("")


@pytest.mark.parametrize("name", served_models.MODELS)
def test_the_peer_answers_requests_of_both_encodings(name: str, tmp_path: Path) -> None:
    path, feed = served_models.write(name, tmp_path)
    session = onnxruntime.InferenceSession(str(path))
    (wanted,) = session.run(None, feed)
    peer = httpx.ASGITransport(onnx_server.app_of(session, name))

    async def asked(headers: dict[str, str], body: bytes) -> httpx.Response:
        async with httpx.AsyncClient(transport=peer, base_url="http://peer") as client:
            url = f"/v2/models/{name}/infer"
            return await client.post(url, content=body, headers=headers)

    for binary in (False, True):
        answer = asyncio.run(asked(*model_server.request_of(feed, binary)))
        (found,) = model_server.answer_of(answer).values()
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_other_models_get_numbers_of_their_shapes() -> None:
    ((name, path, feed),) = model_server.others(["models/net.onnx:x=1x3x8,y=2"])
    assert (name, path) == ("net", Path("models/net.onnx"))
    assert {n: a.shape for n, a in feed.items()} == {"x": (1, 3, 8), "y": (2,)}
    head = json.loads(model_server.request_of(feed, False)[1])
    assert [given["shape"] for given in head["inputs"]] == [[1, 3, 8], [2]]
