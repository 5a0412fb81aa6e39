"""Run the array-API tests of SciPy and scikit-learn, and einops's own, with calor as a library.

    python integration-tests/clients/client_suites.py scipy.signal sklearn --json FILE

The suites are those of the installed packages, unchanged; ``joined.py`` beside this file makes
calor one of their backends. Each runs for calor and for ``array_api_strict``, in a process of its
own. The run fails for a test that the peer passes and calor fails.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from datetime import date
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).parent
PEER = "array_api_strict"
PARTS = (
    "cluster", "differentiate", "fft", "integrate", "interpolate", "ndimage", "optimize", "signal",
    "spatial", "special", "stats",
)  # fmt: skip
SUITES = (*(f"scipy.{part}" for part in PARTS), "sklearn", "einops")
# What stands for a combination of library, device and dtype in the names of scikit-learn's tests.
SAME = {
    f"{PEER}-CPU_DEVICE-float64": "calor-None-float64",
    f"{PEER}-device1-float32": "calor-None-float32",
    PEER: "calor",
}
_SPECIAL = "tests/test_support_alternative_backends.py::test_support_alternative_backends"
_PROMOTED = "an integer with float32 gives float32, as in PyTorch; the standard leaves it open"
_OF_TWO = ("betaln", "gammainc", "gammaincc", "rel_entr", "xlog1py", "xlogy", "zeta")
_SHAPES = tuple(f"shapes{i}" for i in range(4))
# Tests that calor fails as it should, and why.
EXPECTED = {
    "utils/tests/test_array_api.py::test_supported_float_types[calor-None-expected_types1]": (
        "calor has float16 too, which the peer has not"
    ),
    "tests/test_filters.py::TestVectorizedFilter::test_input_validation[calor]": (
        "the test lists the messages that libraries give for a text in the place of a number"
    ),
    **{f"{_SPECIAL}_mismatched_dtypes[calor-{name}]": _PROMOTED for name in _OF_TWO},
    **{f"{_SPECIAL}[calor-polygamma-float32-{shape}]": _PROMOTED for shape in _SHAPES},
    **{
        f"{_SPECIAL}[calor-betaln-intp-{shape}]": (
            "SciPy's beta function of whole numbers beyond 2**31 is infinite"
        )
        for shape in _SHAPES
    },
    **{
        f"{_SPECIAL}[calor-chdtrc-{dtype}-{shape}]": (
            "SciPy makes this of gammaincc for a library that has it, and differs from its own"
        )
        for dtype in ("float32", "float64", "intp")
        for shape in _SHAPES
    },
}
VERSIONED = ("scipy", "scikit-learn", "einops", "array-api-strict", "numpy")


def arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="*", help=f"some of {', '.join(SUITES)}; all without any")
    parser.add_argument("--device", default="numpy", help="the device that calor computes on")
    parser.add_argument("--views", default="shared", choices=("shared", "strict", "warn"))
    parser.add_argument("--json", type=Path, help="where the counts are written")
    parser.add_argument("-k", dest="expression", help="run only the tests that match, as in pytest")
    return parser.parse_args()


def run(suite: str, backend: str, options: argparse.Namespace) -> dict[str, str]:
    """Run a suite for an array library in a process of its own; return test to outcome."""
    environment = os.environ | {
        "SCIPY_ARRAY_API": "1",
        "CALOR_DEVICE": options.device,
        # The suites compare with NumPy, whose slices share memory.
        "CALOR_VIEWS": options.views,
        "CALOR_DEFAULT_DTYPE": "float64",
        "EINOPS_TEST_BACKENDS": "numpy",
        "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
    }
    with tempfile.TemporaryDirectory() as scratch:
        outcomes = Path(scratch) / "outcomes.json"
        command = [
            *(sys.executable, "-m", "pytest", "-p", "joined", "--pyargs", suite, "-q"),
            *("-p", "no:cacheprovider", "-p", "no:warnings", "--tb=short", "--timeout", "600"),
            *("--backends", "all" if suite == "einops" else backend),
            *("--outcomes", str(outcomes)),
            *(("-k", options.expression) if options.expression else ()),
        ]
        done = subprocess.run(command, cwd=scratch, env=environment, check=False)
        if not outcomes.is_file():
            sys.exit(f"{suite} did not run for {backend}: pytest ended with {done.returncode}")
        found = json.loads(outcomes.read_text("utf-8"))
    return {test: outcome for test, (outcome, _) in found.items()}


def under_our_name(test: str) -> str:
    """Return the name that a test of the peer has for calor."""
    for theirs, ours in SAME.items():
        if theirs in test:
            return test.replace(theirs, ours)
    return test


def only_calor_fails(ours: Mapping[str, str], peer: Mapping[str, str]) -> list[str]:
    """Return the tests that the peer passes and calor fails, or does not have."""
    passed = {under_our_name(test) for test, outcome in peer.items() if outcome == "passed"}
    fine = ("passed", "skipped", "xfailed")
    return sorted(t for t in passed - EXPECTED.keys() if ours.get(t) not in fine)


def count(outcomes: Mapping[str, str]) -> dict[str, int]:
    """Return how many tests had each outcome."""
    found: dict[str, int] = {}
    for outcome in sorted(outcomes.values()):
        found[outcome] = found.get(outcome, 0) + 1
    return found


def main() -> int:
    """Run the suites and return 1 if calor fails a test that the peer passes."""
    options = arguments()
    results, failed = {}, False
    for suite in options.suites or SUITES:
        ours = run(suite, "calor", options)
        # einops has no tests of the peer: all that it has must pass.
        peer = {} if suite == "einops" else run(suite, PEER, options)
        lost = only_calor_fails(ours, peer)
        if not peer:
            lost = sorted(test for test, outcome in ours.items() if outcome == "failed")
        failed |= bool(lost)
        results[suite] = {"calor": count(ours), PEER: count(peer), "only_calor_fails": lost}
        print(f"{suite}: calor {count(ours)}, {PEER} {count(peer)}", flush=True)
        print("\n".join(f"only calor fails {test}" for test in lost), flush=True)
    if options.json:
        known = {name: metadata.version(name) for name in VERSIONED}
        text = {
            "date": date.today().isoformat(),
            "command": shlex.join(["python", *sys.argv]),
            "device": options.device,
            "views": options.views,
            "platform": f"{platform.system()} {platform.machine()}",
            "versions": {"python": platform.python_version(), **known},
            "suites": results,
        }
        options.json.write_text(json.dumps(text, indent=2) + "\n", encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
