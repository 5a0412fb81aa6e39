"""Time the model server beside starlette with ONNX Runtime, both under the same load, in turns.

    python benchmarks/model_server.py mlp images --clients 1,8,64 --encodings binary --json FILE

wrk (https://github.com/wg/wrk, ``apt-get install wrk``) sends one request after another on each of
its connections to 127.0.0.1. Requests have one row. Answers are compared first. A ratio above 1
means that calor's server is better: more requests a second, less time. Without uvloop, httptools
and orjson both servers do without. ``--model PATH:x=1x3x224x224`` takes another model.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import metadata
from importlib.util import find_spec
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np

from harness.report import setting
from programs import served_models

HERE = Path(__file__).parent
DATATYPES = {"f": "FP32", "i": "INT64"}
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}
STARTING_SECONDS = 120.0
FIGURES = ("per_second", "p50_s", "p99_s")


def request_of(feed: dict[str, Any], binary: bool) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body of a request."""
    inputs: list[dict[str, Any]] = []
    for name, array in feed.items():
        known: dict[str, Any] = {
            "name": name,
            "shape": list(array.shape),
            "datatype": DATATYPES[array.dtype.kind],
        }
        if binary:
            known["parameters"] = {"binary_data_size": array.nbytes}
        else:
            known["data"] = array.reshape(-1).tolist()
        inputs.append(known)
    message: dict[str, Any] = {"inputs": inputs}
    if binary:
        message["parameters"] = {"binary_data_output": True}
    head = json.dumps(message, separators=(",", ":")).encode()
    if not binary:
        return {"Content-Type": "application/json"}, head
    headers = {
        "Content-Type": "application/octet-stream",
        "Inference-Header-Content-Length": str(len(head)),
    }
    return headers, head + b"".join(array.tobytes() for array in feed.values())


def answer_of(response: httpx.Response) -> dict[str, Any]:
    """Return the outputs of an answer by name."""
    response.raise_for_status()
    length = response.headers.get("inference-header-content-length")
    start = len(response.content) if length is None else int(length)
    found = {}
    for output in json.loads(response.content[:start])["outputs"]:
        dtype = np.dtype(np.float32 if output["datatype"] == "FP32" else np.int64)
        if length is None:
            array = np.array(output["data"], dtype)
        else:
            count = output["parameters"]["binary_data_size"] // dtype.itemsize
            array = np.frombuffer(response.content, dtype, count, start)
            start += array.nbytes
        found[output["name"]] = array.reshape(output["shape"])
    return found


@contextmanager
def serving(words: Sequence[str], threads: int) -> Iterator[str]:
    """Run a server at a free port; give its address once it is ready."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "CALOR_CPU_THREADS": str(threads)}
    command = [sys.executable, *words, "--port", str(port)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + STARTING_SECONDS
        while True:
            try:
                if httpx.get(f"{address}/v2/health/ready").status_code == 200:
                    break
            except httpx.TransportError:
                pass
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{shlex.join(command)} does not serve")
            time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(30)


def loaded(url: str, headers: dict[str, str], body: bytes, clients: int, seconds: int) -> Any:
    """Return what wrk says of a server under load: requests a second, and times in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        data, script = Path(folder) / "body", Path(folder) / "request.lua"
        data.write_bytes(body)
        lines = [f'wrk.headers["{name}"] = "{value}"' for name, value in headers.items()]
        script.write_text(
            "\n".join(
                [
                    'wrk.method = "POST"',
                    f'wrk.body = io.open("{data}", "rb"):read("*a")',
                    *lines,
                ]
            ),
            "utf-8",
        )
        command = [
            "wrk",
            "-t1",
            f"-c{clients}",
            f"-d{seconds}s",
            "--latency",
            "-s",
            str(script),
            url,
        ]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return parsed(done.stdout)


def parsed(text: str) -> dict[str, float]:
    """Return the figures in what wrk prints."""
    if "Non-2xx" in text or "Socket errors" in text:
        raise SystemExit(f"a server failed under load:\n{text}")
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    times = dict(re.findall(r"^\s+(50|99)%\s+([\d.]+[a-z]+)", text, re.MULTILINE))
    if rate is None or len(times) != 2:
        raise SystemExit(f"wrk says nothing that can be read:\n{text}")
    return {
        "per_second": float(rate[1]),
        "p50_s": _seconds(times["50"]),
        "p99_s": _seconds(times["99"]),
    }


def _seconds(text: str) -> float:
    match = re.fullmatch(r"([\d.]+)([a-z]+)", text)
    assert match, text
    return float(match[1]) * UNITS[match[2]]


def ratios(ours: dict[str, float], peer: dict[str, float]) -> dict[str, float]:
    """Return by how much ours is better; above 1 it is."""
    return {
        "per_second": ours["per_second"] / peer["per_second"],
        "p50_s": peer["p50_s"] / ours["p50_s"],
        "p99_s": peer["p99_s"] / ours["p99_s"],
    }


def measured(
    name: str, model: Path, feed: dict[str, Any], options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Give a row for each encoding and number of clients."""
    ours = ["-m", "calor_http", "model", str(model), "--name", name, "--device", options.device]
    peer = [str(HERE / "programs" / "onnx_server.py"), str(model), "--name", name]
    peer += ["--threads", str(options.threads)]
    with ExitStack() as stack:
        urls = [
            f"{stack.enter_context(serving(words, options.threads))}/v2/models/{name}/infer"
            for words in (ours, peer)
        ]
        for encoding in options.encodings.split(","):
            headers, body = request_of(feed, encoding == "binary")
            answers = [answer_of(httpx.post(url, content=body, headers=headers)) for url in urls]
            off = max(
                float(np.abs(answers[0][n].astype(float) - wanted).max(initial=0.0))
                for n, wanted in answers[1].items()
            )
            if off > 1e-3:
                raise SystemExit(f"{name}: the answers differ by {off}")
            for clients in map(int, options.clients.split(",")):
                sides: list[list[Any]] = [[], []]
                for url in urls:
                    loaded(url, headers, body, clients, 1)
                for _ in range(options.repeats):
                    for url, found in zip(urls, sides, strict=True):
                        found.append(loaded(url, headers, body, clients, options.seconds))
                middle = [{f: median(s[f] for s in side) for f in FIGURES} for side in sides]
                yield {
                    "model": name,
                    "encoding": encoding,
                    "clients": clients,
                    "body_bytes": len(body),
                    "ours": middle[0],
                    "peer": middle[1],
                    "ratios": ratios(*middle),
                    "largest_difference": off,
                }


def shown(row: dict[str, Any]) -> str:
    """Return a row as a line."""
    sides = "".join(
        f"{row[side]['per_second']:9.0f}/s {row[side]['p50_s'] * 1e3:8.2f} "
        f"{row[side]['p99_s'] * 1e3:8.2f} ms  "
        for side in ("ours", "peer")
    )
    found = " ".join(f"{row['ratios'][figure]:5.2f}" for figure in FIGURES)
    return f"{row['model']:10}{row['encoding']:8}{row['clients']:4}  {sides}{found}"


def parse() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", default=[], metavar="MODEL")
    parser.add_argument("--model", action="append", default=[], metavar="PATH:INPUT=SHAPE,…")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="of both runtimes")
    parser.add_argument("--clients", default="1,8,64")
    parser.add_argument("--encodings", default="binary,json")
    parser.add_argument("--seconds", type=int, default=3, help="of load, each time")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def others(texts: Sequence[str]) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """Give the models of files, each with normal float32 numbers of the shapes given."""
    rng = np.random.default_rng(0)
    for text in texts:
        path, _, given = text.partition(".onnx:")
        shapes = {n: s for n, _, s in (part.rpartition("=") for part in given.split(",") if part)}
        yield (
            Path(path).name,
            Path(f"{path}.onnx"),
            {
                name: rng.standard_normal([int(n) for n in shape.split("x")], np.float32)
                for name, shape in shapes.items()
            },
        )


def main() -> int:
    """Print a row for each case, and the least and the geometric mean of the ratios."""
    options = parse()
    if shutil.which("wrk") is None:
        raise SystemExit("there is no wrk; apt-get install wrk")
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        cases = [(name, *served_models.write(name, Path(folder))) for name in options.models]
        for name, path, feed in [*cases, *others(options.model)]:
            for row in measured(name, path, feed, options):
                rows.append(row)
                print(shown(row), flush=True)
    means = {f: exp(sum(log(row["ratios"][f]) for row in rows) / len(rows)) for f in FIGURES}
    least = {f: min(row["ratios"][f] for row in rows) for f in FIGURES}
    for label, found in (("geometric mean", means), ("least", least)):
        print(f"{label:24}" + " ".join(f"{f} {found[f]:.2f}" for f in FIGURES))
    if options.json:
        command = shlex.join(["python", "benchmarks/model_server.py", *sys.argv[1:]])
        known = setting(command, options.device, ("onnxruntime",), options.threads)
        for package in ("starlette", "uvicorn", "uvloop", "httptools", "orjson"):
            if find_spec(package):
                known["versions"][package] = metadata.version(package)
        document = {**known, "rows": rows, "geometric_means": means, "least": least}
        options.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
