"""A server without calor, for the peers of remote.py: Starlette and uvicorn.

It answers with what it got, takes contents, sends contents, and runs a model of ONNX Runtime, which
adds 1 to the array of float32 in a request. Its port is printed once it listens.
"""

import asyncio
from collections.abc import AsyncIterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

PIECE = bytes(1 << 22)


def adding_model() -> bytes:
    """Return a model of ONNX that adds 1 to a vector."""
    onnx = import_module("onnx")
    text = """<ir_version: 8, opset_import: ["" : 17]>
        added (float[N] x) => (float[N] y) {
            one = Constant <value_float = 1.0> ()
            y = Add (x, one)
        }"""
    model: bytes = onnx.parser.parse_model(text).SerializeToString()
    return model


async def echo(request: Request) -> Response:
    """Answer with the body."""
    return Response(await request.body(), media_type="application/octet-stream")


async def take(request: Request) -> Response:
    """Take contents; answer with their size."""
    count = 0
    async for piece in request.stream():
        count += len(piece)
    return Response(str(count))


async def give(request: Request) -> Response:
    """Send so many contents as the address says."""
    left = int(request.path_params["nbytes"])

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(left // len(PIECE)):
            yield PIECE
        yield PIECE[: left % len(PIECE)]

    return StreamingResponse(pieces(), media_type="application/octet-stream")


def routes() -> list[Route]:
    """Return what the server answers."""
    found = [
        Route("/echo", echo, methods=["POST"]),
        Route("/take", take, methods=["POST"]),
        Route("/give/{nbytes}", give),
    ]
    if find_spec("onnxruntime") and find_spec("onnx"):
        session = import_module("onnxruntime").InferenceSession(
            adding_model(), providers=["CPUExecutionProvider"]
        )

        async def add(request: Request) -> Response:
            x = np.frombuffer(await request.body(), np.float32)
            (y,) = session.run(None, {"x": x})
            return Response(y.tobytes(), media_type="application/octet-stream")

        found.append(Route("/add", add, methods=["POST"]))
    return found


async def main() -> None:
    """Serve until the process is ended."""
    config = uvicorn.Config(
        Starlette(routes=routes()),
        port=0,
        http="h11",
        log_level="critical",
        access_log=False,
        # The sides take turns, which may take longer than the five seconds of the default.
        timeout_keep_alive=300,
    )
    server: Any = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    print(server.servers[0].sockets[0].getsockname()[1], flush=True)
    await serving


if __name__ == "__main__":
    asyncio.run(main())
