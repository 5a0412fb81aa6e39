"""The peer of the model server: starlette and ONNX Runtime, as one writes them for one model.

An async endpoint reads the Open Inference Protocol's JSON or binary tensors, and the session runs
in the thread pool. The loop, the HTTP parser and the JSON are the fastest that are installed.
"""

from __future__ import annotations

import argparse
import importlib
import json
from importlib.util import find_spec
from typing import Any

import numpy as np
import onnxruntime
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

TYPES: dict[str, np.dtype[Any]] = {"FP32": np.dtype(np.float32), "INT64": np.dtype(np.int64)}
NAMES = {dtype: name for name, dtype in TYPES.items()}
_ORJSON: Any = importlib.import_module("orjson") if find_spec("orjson") else None


def loads(text: bytes) -> Any:
    """What JSON says."""
    return _ORJSON.loads(text) if _ORJSON else json.loads(text)


def dumps(message: Any) -> bytes:
    """A message as JSON; arrays are lists of numbers."""
    if _ORJSON:
        made: bytes = _ORJSON.dumps(message, option=_ORJSON.OPT_SERIALIZE_NUMPY)
        return made
    return json.dumps(message, default=lambda array: array.tolist()).encode()


def app_of(session: Any, name: str) -> Starlette:
    """The application that answers for a session."""
    outputs = [info.name for info in session.get_outputs()]

    async def infer(request: Request) -> Response:
        body = await request.body()
        said = request.headers.get("inference-header-content-length")
        length = len(body) if said is None else int(said)
        message = loads(body[:length])
        feed, start = {}, length
        for given in message["inputs"]:
            dtype, shape = TYPES[given["datatype"]], given["shape"]
            if "data" in given:
                feed[given["name"]] = np.array(given["data"], dtype).reshape(shape)
                continue
            size = given["parameters"]["binary_data_size"]
            array = np.frombuffer(body, dtype, size // dtype.itemsize, start)
            feed[given["name"]] = array.reshape(shape)
            start += size
        results = await run_in_threadpool(session.run, outputs, feed)
        binary = message.get("parameters", {}).get("binary_data_output", False)
        told: list[dict[str, Any]] = []
        for output, array in zip(outputs, results, strict=True):
            known = {"name": output, "datatype": NAMES[array.dtype], "shape": list(array.shape)}
            if binary:
                known["parameters"] = {"binary_data_size": array.nbytes}
            else:
                known["data"] = array.reshape(-1)
            told.append(known)
        head = dumps({"model_name": name, "model_version": "1", "outputs": told})
        if not binary:
            return Response(head, media_type="application/json")
        return Response(
            b"".join([head, *[array.tobytes() for array in results]]),
            headers={"Inference-Header-Content-Length": str(len(head))},
            media_type="application/octet-stream",
        )

    async def ready(request: Request) -> Response:
        return JSONResponse({"ready": True})

    return Starlette(
        routes=[
            Route(f"/v2/models/{name}/infer", infer, methods=["POST"]),
            Route("/v2/health/ready", ready),
        ]
    )


def main() -> None:
    """Serve a model at a port of 127.0.0.1 until told to end."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--name", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    given = parser.parse_args()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = given.threads
    session = onnxruntime.InferenceSession(given.model, options)
    app = app_of(session, given.name)
    uvicorn.run(app, port=given.port, access_log=False, log_level="warning")


if __name__ == "__main__":
    main()
