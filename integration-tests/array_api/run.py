"""Run the Python Array API standard's own test suite against calor.

    python integration-tests/array_api/run.py --peer array_api_strict --json FILE

The suite is on GitHub and in no package index: it is cloned at a pinned commit, with the standard's
text as its submodule, unless ``--suite DIR`` names a copy. What else it needs stands in
``requirements.txt`` beside this file. The run fails when a test fails that is not listed with a
reason in ``xfails.txt``. With ``--peer`` another array library goes through the same tests in the
same run, and the tests that only calor fails are named.

Both run the tests of the version of the standard that calor states. A later version changes what
some functions return, so a peer's count at its own version differs.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from judge import Verdict, count, judge, read_list

HERE = Path(__file__).parent
REPOSITORY = "https://github.com/data-apis/array-api-tests"
COMMIT = "55fcc60179efa2680ddd6cd926ddf17b83530e2b"
NEEDED = ("hypothesis", "ndindex", "pytest", "pytest_jsonreport")
VERSIONED = ("calor", "numpy", "ml_dtypes", "hypothesis", "pytest")


def arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description="Run the Array API suite against calor.")
    parser.add_argument("--suite", type=Path, help="a copy of the suite, with its submodule")
    parser.add_argument("--device", default="numpy", help="the device that calor computes on")
    parser.add_argument("--peer", help="a namespace that runs the same tests: array_api_strict")
    parser.add_argument("--api-version", default="2024.12", help="the version whose tests run")
    parser.add_argument("--max-examples", type=int, default=20, help="examples for each test")
    parser.add_argument("--json", type=Path, help="where the result is written")
    parser.add_argument("-k", dest="expression", help="run only the tests that match, as in pytest")
    return parser.parse_args()


def git(*command: str, cwd: Path) -> str:
    """Run git in a folder and return what it prints."""
    done = subprocess.run(["git", *command], cwd=cwd, check=True, text=True, capture_output=True)
    return done.stdout.strip()


def clone() -> Path:
    """Return the suite at the pinned commit, cloned into the temporary folder the first time."""
    folder = Path(tempfile.gettempdir()) / f"array-api-tests-{COMMIT[:12]}"
    if not (folder / "array-api" / "src").is_dir():
        folder.mkdir(exist_ok=True)
        git("init", "--quiet", cwd=folder)
        git("fetch", "--quiet", "--depth", "1", REPOSITORY, COMMIT, cwd=folder)
        git("checkout", "--quiet", "FETCH_HEAD", cwd=folder)
        git("submodule", "--quiet", "update", "--init", "--depth", "1", cwd=folder)
    return folder


def commit_of(suite: Path) -> str | None:
    """Return the commit of a clone, None for a folder that is none."""
    return git("rev-parse", "HEAD", cwd=suite) if (suite / ".git").exists() else None


def run_suite(suite: Path, namespace: str, options: argparse.Namespace) -> dict[str, str]:
    """Run the suite for a namespace in a process of its own; return test to outcome."""
    environment = os.environ | {
        "ARRAY_API_TESTS_MODULE": namespace,
        "ARRAY_API_TESTS_VERSION": options.api_version,
        "ARRAY_API_STRICT_API_VERSION": options.api_version,
        "CALOR_DEVICE": options.device,
    }
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        command = [
            *(sys.executable, "-m", "pytest", "array_api_tests", "-q", "--tb=short", "--no-header"),
            *("-p", "no:cacheprovider", "-p", "no:warnings", "--disable-deadline"),
            *("--max-examples", str(options.max_examples)),
            *("--json-report", f"--json-report-file={report}"),
            *("--json-report-omit", "collectors", "log", "streams", "warnings"),
            *(("-k", options.expression) if options.expression else ()),
        ]
        done = subprocess.run(command, cwd=suite, env=environment, check=False)
        if not report.is_file():
            sys.exit(f"the suite did not run for {namespace}: pytest ended with {done.returncode}")
        tests = json.loads(report.read_text("utf-8"))["tests"]
    return {test["nodeid"]: test["outcome"] for test in tests}


def versions(names: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of Python and of distributions; those from a source tree have none."""
    found = {"python": platform.python_version()}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name.replace("_", "-"))
        except importlib.metadata.PackageNotFoundError:
            found[name] = "source tree"
    return found


def result(
    verdict: Verdict, peer: dict[str, str] | None, suite: Path, options: argparse.Namespace
) -> dict[str, Any]:
    """Return what is written to the result file."""
    peers = (options.peer,) if options.peer else ()
    command = ["python", "integration-tests/array_api/run.py"]
    command += [Path(a).name if Path(a).is_absolute() else a for a in sys.argv[1:]]
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "command": " ".join(command),
        "calor_commit": commit_of(HERE.parents[1]),
        "suite": {"repository": REPOSITORY, "commit": commit_of(suite)},
        "api_version": options.api_version,
        "max_examples": options.max_examples,
        "device": options.device,
        "platform": f"{platform.system()} {platform.machine()}",
        "versions": versions((*VERSIONED, *peers)),
        "calor": verdict.counts,
        "peer": {options.peer: count(peer)} if peer is not None else None,
        "only_calor_fails": verdict.only_here,
        "unlisted_failures": verdict.unlisted,
        "listed_failures": {t: r for t, r in verdict.failures.items() if r is not None},
    }


def describe(verdict: Verdict, peer: dict[str, str] | None, options: argparse.Namespace) -> str:
    """Return the lines that end the run."""
    lines = [f"calor on {options.device}: {verdict.counts}"]
    if peer is not None:
        lines.append(f"{options.peer}: {count(peer)}")
        lines += [f"only calor fails {test}" for test in verdict.only_here]
    lines += [f"failed, not in xfails.txt: {test}" for test in verdict.unlisted]
    lines += [f"passed, though in xfails.txt: {test}" for test in verdict.passed_though_listed]
    if not options.expression:
        lines += [f"in xfails.txt, not in the suite: {test}" for test in verdict.unknown]
    return "\n".join(lines)


def main() -> int:
    """Run the suite and return 1 when a failure has no reason."""
    options = arguments()
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f"missing: {', '.join(missing)}; pip install -r {HERE / 'requirements.txt'}")
    listed = read_list((HERE / "xfails.txt").read_text("utf-8"))
    suite = options.suite.resolve() if options.suite else clone()
    outcomes = run_suite(suite, "calor", options)
    peer = run_suite(suite, options.peer, options) if options.peer else None
    verdict = judge(outcomes, listed, peer)
    print(describe(verdict, peer, options))
    if options.json:
        text = json.dumps(result(verdict, peer, suite, options), indent=2, ensure_ascii=False)
        options.json.write_text(text + "\n", encoding="utf-8")
    return 1 if verdict.unlisted else 0


if __name__ == "__main__":
    sys.exit(main())
