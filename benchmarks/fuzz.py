"""Time operations drawn as models use them, calor beside a peer, and say where it is slow.

    python benchmarks/fuzz.py --device NAME --peers torch --seed N --minutes M --json FILE
    python benchmarks/fuzz.py --device NAME --peers torch --repeat 'LINE'

Shapes, layouts, dtypes and gradients are drawn from the distributions of known networks; a seed
draws the same cases on every device. On CUDA both libraries are timed inside CUDA graphs; on
processors torch is eager. `benchmarks/README.md` says more.
"""

import argparse
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

# Only what imports no numerical library may be imported here: thread counts are read at import.
from thread_limits import limit_threads  # noqa: E402

# The dtypes that are drawn for a device; the first stands for the others.
_DTYPES = {"cuda": "f32,tf32,bf16,f16", "cpu": "f32,bf16"}


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks/fuzz.py", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--device", metavar="NAME", default="cpu", help="where calor runs")
    beside = "what to run beside: torch, or calor on another device, such as calor-cuda"
    parser.add_argument("--peers", default="torch", metavar="PEER", help=beside)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="which cases are drawn")
    parser.add_argument("--minutes", type=float, default=1.0, metavar="M", help="how long to run")
    parser.add_argument("--cases", type=int, metavar="N", help="stop after so many cases")
    parser.add_argument("--only", default="", metavar="FAMILIES", help="such as linear,conv2d")
    dtypes = "such as f32,tf32,bf16,f16: cases of other dtypes are of the first"
    parser.add_argument("--dtypes", default="", help=dtypes)
    parser.add_argument("--repeat", action="append", metavar="LINE", help="only this case")
    parser.add_argument("--list", action="store_true", help="print the cases, and run none")
    parser.add_argument("--threads", type=int, metavar="N", help="threads for everyone")
    gate = "a file: processes that are given the same one measure in turns, and compile together"
    parser.add_argument("--gate", type=Path, metavar="FILE", help=gate)
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds of one case")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows and the setting")
    options = parser.parse_args(arguments)
    options.only = [name for name in options.only.split(",") if name]
    given = options.dtypes or _DTYPES.get(options.device.partition(":")[0], "f32")
    options.dtypes = tuple(given.split(","))
    return options


def lines_of(options: argparse.Namespace) -> Iterator[str]:
    """Yield the cases to measure: those to repeat, or those of the seed that fit the device."""
    from fuzzing.drawing import draw
    from fuzzing.limits import fitted, limits_of

    if options.repeat:
        yield from options.repeat
        return
    limits = limits_of(options.device)
    for sample in draw(options.seed, options.only):
        fitting = fitted(sample.with_dtypes(options.dtypes), limits)
        if fitting is not None:
            yield str(fitting)


def row_of(line: str, options: argparse.Namespace, answer: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the result, in the form of the other suites, for an answer of a worker."""
    family, dtype, direction = line.split()[:3]
    ours, theirs = answer["ours_s"], answer["peer_s"]
    ratio = theirs / ours
    named = {"suite": "fuzz", "case": line, "device": options.device, "peer": options.peers}
    times = {"ours_s": ours, "peer_s": theirs, "ratio": ratio, "floor_s": answer["floor_s"]}
    more = {name: answer[name] for name in ("first_s", "note", "launches")}
    return {**named, **times, "family": family, "dtype": dtype, "direction": direction, **more}


def run(options: argparse.Namespace, setting: dict[str, Any]) -> dict[str, Any]:
    """Measure cases until the time is over; return rows, failures and disagreements."""
    from fuzzing import report
    from fuzzing.workers import Failure, Worker, serve

    found: dict[str, Any] = {"rows": [], "failures": [], "disagreements": []}
    given = (options.device, options.peers, options.threads, options.gate)
    worker = Worker(serve, given, options.timeout)
    end = monotonic() + 60 * options.minutes
    try:
        for number, line in enumerate(lines_of(options)):
            over = monotonic() > end or number == options.cases
            if over and not options.repeat:
                break
            answer = worker.ask(line)
            if isinstance(answer, Failure):
                found["failures"].append(f"{line}: {answer.message}")
                print(f"FAILED: {found['failures'][-1]}", flush=True)
            elif answer["problem"]:
                kind = "disagreements" if answer["wrong"] else "failures"
                found[kind].append(f"{line}: {answer['problem']}")
                print(f"{kind.upper()[:-1]}: {found[kind][-1]}", flush=True)
            else:
                found["rows"].append(row_of(line, options, answer))
                print(report.line(found["rows"][-1]), flush=True)
            if options.json:
                report.write(options.json, found, setting)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    finally:
        worker.close()
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run; 0 when every case ran and agreed with the peer, 1 when not, 2 for wrong arguments."""
    options = parse(arguments)
    if options.threads is not None:
        limit_threads(options.threads)
    from fuzzing import report
    from fuzzing.cases import sample_of
    from fuzzing.drawing import draw
    from harness import report as harness_report
    from harness import runner

    given = sys.argv[1:] if arguments is None else arguments
    command = shlex.join(["python", "benchmarks/fuzz.py", *given])
    try:
        for line in options.repeat or ():
            sample_of(line)
        next(draw(options.seed, options.only))
        runner.require_peers([options.peers])
        if options.list:
            for line, _ in zip(lines_of(options), range(options.cases or 100), strict=False):
                print(line)
            return 0
        setting = harness_report.setting(command, options.device, [options.peers], options.threads)
    except (runner.BenchmarkError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(report.header(), flush=True)
    found = run(options, setting)
    repeat = f"python benchmarks/fuzz.py --device {options.device} --peers {options.peers}"
    repeat += f" --threads {options.threads}" if options.threads else ""
    print("\n".join(["", *report.quantile_lines(found["rows"])]))
    if counted := report.counted(found["rows"]):
        print("\n".join(["", "Without the least time of the launches:"]))
        print("\n".join(report.quantile_lines(counted)))
    print("\n".join(["", "The slowest beside the peer:"]))
    print("\n".join(report.worst_lines(found["rows"], repeat)))
    for kind in ("failures", "disagreements"):
        for text in found[kind]:
            print(f"{kind.upper()[:-1]}: {text}")
    return 1 if found["failures"] or found["disagreements"] else 0


if __name__ == "__main__":
    sys.exit(main())
