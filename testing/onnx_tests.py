"""ONNX's own tests, ``onnx.backend.test``, as rows: all of them, without a test framework.

Each runs as ``onnx.backend.test.runner.Runner`` runs it: the model is prepared, run on the inputs
that it comes with, and what it gives is compared by shape, type and value within the tolerances
that the test states. The tests of "real" models are run as far as their data is in the package.

    python testing/onnx_tests.py --device cpu --json FILE

prints how many pass, beside ONNX Runtime with ``--onnxruntime``, and writes each failure with its
reason; with a part of a name it runs those tests alone, and ``--every N`` each Nth. ``--jobs N``
shares them among processes, which outlive a driver that takes one of them down.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import platform
import shlex
import signal
import sys
import time
import traceback
import unittest
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import onnx.backend.test
from onnx.backend.base import Backend, BackendRep

import onnx_processes

# A test that computes longer than this is counted as a failure.
SECONDS = 120
# The newest version of model files that ONNX Runtime 1.32 reads.
ONNXRUNTIME_IR = 14


def cases_of(backend: type[Backend]) -> dict[str, Callable[[], None]]:
    """Return every test by name, as something to call that raises where it fails.

    ONNX has each twice, for the devices that it calls CPU and CUDA; its CPU stands for any here.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner = onnx.backend.test.BackendTest(backend, __name__)
    found = {}
    for case in runner.test_cases.values():
        for name in unittest.defaultTestLoader.getTestCaseNames(case):
            if name.endswith("_cpu"):
                found[name.removesuffix("_cpu")] = _call(case, name)
    return found


def _call(case: type[unittest.TestCase], name: str) -> Callable[[], None]:
    def run() -> None:
        test = case(name)
        getattr(test, name)()

    return run


def _late(number: int, frame: Any) -> None:
    raise TimeoutError(f"took more than {SECONDS} s")


def results(tests: dict[str, Callable[[], None]]) -> Iterator[onnx_processes.Row]:
    """Run tests; yield name, the reason where it failed, and seconds."""
    signal.signal(signal.SIGALRM, _late)
    for name, run in sorted(tests.items()):
        yield result(name, run)


def result(name: str, run: Callable[[], None]) -> onnx_processes.Row:
    """Run one test; return its name, the reason where it failed, and seconds."""
    began = time.perf_counter()
    reason = None
    signal.alarm(SECONDS)
    try:
        run()
    except unittest.SkipTest as skipped:
        reason = f"skipped: {skipped}"
    except Exception as error:
        reason = described(error)
    finally:
        signal.alarm(0)
    return name, reason, time.perf_counter() - began


def serve(connection: Connection, device: str) -> None:
    """Run the tests that are asked for by name, in a process of its own."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _late)
    tests = cases_of(backend_on(device))
    while (name := connection.recv()) is not None:
        connection.send(result(name, tests[name]))


def described(error: Exception) -> str:
    """Return an error's type, message and notes, and where it was raised, in one line."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}:{frame.lineno}"
    text = " ".join([str(error), *getattr(error, "__notes__", [])]).split()
    return f"{type(error).__name__}: {' '.join(text)[:180]} [{where}]"


def backend_on(device: str) -> type[Backend]:
    """Return the Backend class of a device of calor, or ONNX Runtime's."""
    if device == "onnxruntime":
        return onnxruntime_backend()
    from calor_onnx.backend import backend_for

    return backend_for(device)


def onnxruntime_backend() -> type[Backend]:
    """Return a Backend class of ONNX Runtime that gives it every chance.

    Its own class passes scalars that it does not take, and refuses opsets that are not released;
    models here say the newest form of files that it reads, and types that NumPy lacks go as bits.
    """
    import os

    import numpy as np

    os.environ["ALLOW_RELEASED_ONNX_OPSET_ONLY"] = "0"
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)

    class Prepared(BackendRep):
        def __init__(self, model: onnx.ModelProto) -> None:
            model.ir_version = min(model.ir_version, ONNXRUNTIME_IR)
            self.session = onnxruntime.InferenceSession(model.SerializeToString())

        def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
            names = [info.name for info in self.session.get_inputs()]
            given = {n: array(x) for n, x in zip(names, inputs, strict=False)}
            return tuple(self.session.run(None, given))

    def array(value: Any) -> Any:
        if value is None or isinstance(value, list):
            return value if value is None else [np.asarray(x) for x in value]
        found = np.asarray(value)
        if found.dtype.kind != "V" and found.dtype.isbuiltin == 1:
            return found
        element = onnx.helper.np_dtype_to_tensor_dtype(found.dtype)
        bits = found.view(np.uint8 if found.dtype.itemsize == 1 else np.uint16)
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, element)

    class Runtime(Backend):
        @classmethod
        def prepare(
            cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any
        ) -> BackendRep:  # fmt: skip
            return Prepared(model)

        @classmethod
        def supports_device(cls, device: str) -> bool:
            return device == "CPU"

    return Runtime


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", nargs="?", default="", help="part of the names of the tests to run")
    parser.add_argument("--device", default="numpy")
    parser.add_argument("--onnxruntime", action="store_true", help="run ONNX Runtime as well")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="run each Nth test")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="share them among N")
    parser.add_argument("--within", type=float, default=1e6, metavar="S", help="seconds for all")
    parser.add_argument("--json", type=Path, help="where to write the failures and counts")
    parser.add_argument("--limit", type=int, help="fail where fewer pass")
    asked = parser.parse_args()
    import calor

    backends = {f"calor on {asked.device}": asked.device}
    if asked.onnxruntime:
        backends["onnxruntime"] = "onnxruntime"
    report: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", "testing/onnx_tests.py", *sys.argv[1:]]),
        "description": calor.device(asked.device).info.description,
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("calor-onnx", "onnx", "numpy", "ml_dtypes")},
            **({"onnxruntime": version("onnxruntime")} if asked.onnxruntime else {}),
        },
        "runs": {},
    }
    for title, device in backends.items():
        all_tests = sorted(cases_of(backend_on(device)).items())
        tests = dict([(n, t) for n, t in all_tests if asked.part in n][:: asked.every])
        if asked.jobs > 1:
            late = SECONDS + 30
            made = onnx_processes.rows([*tests], serve, (device,), asked.jobs, late, asked.within)
        else:
            made = results(tests)
        failures, seconds = {}, {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, reason, took in made:
                if reason is not None:
                    failures[name] = reason
                if took > 2:
                    seconds[name] = round(took, 1)
        passed = len(tests) - len(failures)
        print(f"{title}: {passed} of {len(tests)} pass")
        if title != "onnxruntime":
            for name, reason in failures.items():
                print(f"  {name}: {reason}")
            kinds = collections.Counter(reason.partition(":")[0] for reason in failures.values())
            print("  " + ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()))
        report["runs"][title] = {
            "tests": len(tests),
            "passed": passed,
            "failures": dict(sorted(failures.items())),
            "slow": dict(sorted(seconds.items())),
        }
        if asked.json:
            asked.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
        if title != "onnxruntime" and asked.limit is not None and passed < asked.limit:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
