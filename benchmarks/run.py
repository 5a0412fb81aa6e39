"""Time a suite of cases beside other libraries.

For example `python benchmarks/run.py SUITE --device NAME --peers torch,jax`.
"""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

# Only what imports no numerical library may be imported here: thread counts are read at import.
from thread_limits import limit_peers, limit_threads  # noqa: E402


def suite_names() -> list[str]:
    return sorted(path.stem for path in (HERE / "suites").glob("[!_]*.py"))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    names = ", ".join(suite_names())
    parser = argparse.ArgumentParser(
        prog="benchmarks/run.py", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("suite", metavar="SUITE", help=f"one of: {names}")
    parser.add_argument("--device", metavar="NAME", default="numpy", help="where calor runs")
    beside = "what to run beside: libraries, or calor on another device, such as torch,calor-cuda"
    parser.add_argument("--peers", default="", help=beside)
    only = "only cases with one of these in their names, such as float32,softmax"
    parser.add_argument("--only", metavar="TEXTS", default="", help=only)
    parser.add_argument("--threads", type=int, metavar="N", help="threads for everyone")
    parser.add_argument("--repeats", type=int, default=15, metavar="N", help="samples of a case")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows and the setting")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the ratios (PNG or SVG)")
    options = parser.parse_args(arguments)
    if options.suite not in suite_names():
        parser.error(f'no suite "{options.suite}"; there are: {names}')
    options.peers = [name for name in options.peers.split(",") if name]
    options.only = [text for text in options.only.split(",") if text]
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run a suite; 0 when every case ran and agreed with its peers, 1 when not."""
    options = parse(arguments)
    if options.threads is not None:
        limit_threads(options.threads)
    from harness import report, runner

    given = sys.argv[1:] if arguments is None else arguments
    command = shlex.join(["python", "benchmarks/run.py", *given])
    try:
        runner.require_peers(options.peers)
        if options.threads is not None:
            limit_peers(options.peers, options.threads)
        cases = runner.load_suite(options.suite, options.device, options.peers, options.only)
        setting = report.setting(command, options.device, options.peers, options.threads)
        table = report.Table(cases, options.peers)
        print(table.header(), flush=True)

        def told(result: runner.Result, rows: Sequence[runner.Row]) -> None:
            # A run that is ended leaves what it found until then.
            for row in rows:
                print(table.line(row), flush=True)
            if options.json:
                report.write_json(options.json, result, setting)

        result = runner.run_suite(
            options.suite, cases, options.device, options.peers, options.repeats, told
        )
        print(report.summary(result))
        if options.plot:
            report.write_plot(options.plot, result, setting)
    except runner.BenchmarkError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 1 if result.disagreements or result.failures else 0


if __name__ == "__main__":
    sys.exit(main())
