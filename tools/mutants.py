"""Draw faults at random, and ask whether the conformance suite names them.

    python tools/mutants.py packages/nn/src plugins/linalg/src --reach reach.npz --number 100

Each fault is planted in a child of this process, in the code of one function, and shown to the
checks that enter it. Which do is recorded once (``--record``), in a file that is continued. At the
end a table says, for each module, how many faults a check named; what survived is listed. A
survivor is a fault without an effect, a matter that the suite does not promise, or a blind spot.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from calor.plugins.discovery import get_device
from calor_conformance import outcomes, packing, suite
from calor_conformance.checks.base import Place
from calor_conformance.collecting import quick_collections
from calor_conformance.watchdog import Watchdog
from mutation.drawing import Mutant, Source, drawn, sources
from mutation.planting import UnplantableError, caches, live_functions, load, planted
from mutation.reach import Recorder, record, stored
from mutation.trial import Ask, Trial, asked, tried

ROOT = Path(__file__).parents[1]
# The folders of which the record knows the functions.
KNOWN = ("packages/", "plugins/")
NAMED, SURVIVED = "named", "survived"
OUTCOMES = (NAMED, SURVIVED, "unreached", "untold")
# Checks that enter no function, since they read the defaults of all.
DEFAULTS = "functions/defaults-of-*"
# A check that takes longer in a child hangs.
HANGS = 20.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Record the checks, or draw mutants and print what became of them."""
    options = _options(arguments)
    device = get_device(options.device)
    place = Place(device, device, options.seed)
    patterns = options.only or ["*"]
    allowed = [n for n in suite.checks() if any(fnmatch.fnmatchcase(n, p) for p in patterns)]
    reach = stored(options.reach)
    if options.record:
        recorder = Recorder(ROOT, KNOWN, reach)
        with quick_collections():
            record(recorder, options.reach, allowed, lambda name: _passes(name, place), _say)
        return
    if not reach.checks:
        raise SystemExit(f"{options.reach} is no record; make it with --record, within minutes")
    functions = sources(ROOT, options.folders)
    earlier = [] if options.again is None else list(_survivors(options.again))
    load({source.path for source in functions} | {ROOT / mutant.path for mutant in earlier})
    live, forget = live_functions(ROOT), caches("calor")
    trials: list[Trial] = []
    end = time.monotonic() + options.time
    # Children share the memory of what exists now.
    with quick_collections():
        for mutant in earlier or _drawn(functions, options):
            if len(trials) >= options.number or time.monotonic() > end:
                break
            try:
                change = planted(ROOT, mutant, live)
            except UnplantableError as error:
                _say(f"left out: {error}")
                continue
            line = f":{mutant.scope}" if mutant.function.endswith("<lambda>") else ""
            chosen = asked(reach, [f"{mutant.path}::{mutant.function}{line}"], options.seconds)
            if mutant.default:
                chosen = [*fnmatch.filter(suite.checks(), DEFAULTS), *chosen]
            chosen = [name for name in chosen if name in allowed]
            trials.append(tried(mutant, change, chosen, _asking(place), options.seconds, forget))
            _say(told(trials[-1]))
            if options.json is not None:
                made = json.dumps([asdict(t) for t in trials], indent=1)
                options.json.write_text(made + "\n", "utf-8")
    print("\n".join(table(trials)))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutants", description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("folders", nargs="*", help="folders or files in which faults are planted")
    add(
        "--reach", type=Path, required=True, help="the record of which checks enter which functions"
    )
    add("--record", action="store_true", help="make the record, or continue it, and plant nothing")
    add(
        "--device", default="numpy", help="the device that the checks run on (default: %(default)s)"
    )
    add("--seed", type=int, default=0, help="seed of the draws and of the checks")
    add("--number", type=int, default=100, help="how many mutants (default: %(default)s)")
    add("--seconds", type=float, default=20.0,
        help="processor time of the checks of a mutant (default: %(default)s)")  # fmt: skip
    add("--time", type=float, default=float("inf"), help="draw no mutant after so many seconds")
    add("--only", action="append", metavar="PATTERN", help="ask only these checks; may be repeated")
    add(
        "--function",
        default="*",
        metavar="PATTERN",
        help="plant only in files::functions like this",
    )
    add("--kind", default="*", metavar="PATTERN", help="plant only faults of kinds like this")
    add("--again", type=Path, metavar="FILE", help="take the survivors of an earlier result")
    add("--json", type=Path, metavar="FILE", help="write the result as data")
    return parser.parse_args(arguments)


def _survivors(path: Path) -> Iterator[Mutant]:
    for row in json.loads(path.read_text("utf-8")):
        mutant = Mutant(**row["mutant"])
        if row["outcome"] != NAMED and mutant.fits(ROOT):
            yield mutant


def _drawn(functions: Sequence[Source], options: argparse.Namespace) -> Iterator[Mutant]:
    fits = fnmatch.fnmatchcase
    chosen = [
        replace(source, places=places)
        for source in functions
        if fits(f"{source.path.relative_to(ROOT)}::{source.name}", options.function)
        and (places := tuple(p for p in source.places if fits(p.kind, options.kind)))
    ]
    if not chosen:
        raise SystemExit("no function in these folders has a place for such a fault")
    return drawn(ROOT, chosen, options.seed)


def _passes(name: str, place: Place) -> bool:
    return outcomes.run(suite.checks()[name], place).outcome == "passed"


def _asking(place: Place) -> Ask:
    """Return what runs checks as a run of the suite does, in packs."""

    def ask(names: Sequence[str]) -> Iterator[tuple[str, str | None]]:
        checks, watchdog = suite.checks(), Watchdog(HANGS)
        for pack in packing.packs((checks[name] for name in names), 16):
            for result in packing.run(pack, place, watchdog):
                wrong = result.detail if result.outcome == "failed" else None
                yield result.name, wrong

    return ask


def told(trial: Trial) -> str:
    """Return a line about a trial."""
    by = f" by {trial.checks[0]}" if trial.outcome == NAMED else f" {len(trial.checks)} checks"
    return f"{trial.outcome:9} {trial.seconds:5.1f} s {trial.mutant.name} |{by}"


def table(trials: Iterable[Trial]) -> list[str]:
    """Return lines: a row of counts for each module, the sums, and what survived.

    Parameters
    ----------
    trials : iterable of Trial
        The trials.

    Returns
    -------
    list of str
        The lines.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    trials = list(trials)
    for trial in trials:
        counts[trial.mutant.path][trial.outcome] += 1
        counts["all"][trial.outcome] += 1
    lines = [f"{'':60} {'mutants':>9}" + "".join(f"{name:>11}" for name in OUTCOMES)]
    for path in [*sorted(set(counts) - {"all"}), "all"]:
        row = counts[path]
        cells = "".join(f"{row[name]:11}" for name in OUTCOMES)
        lines.append(f"{path[-60:]:60} {row.total():9}{cells}")
    for trial in trials:
        if trial.outcome != NAMED:
            kinds = Counter(name.partition("/")[0] for name in trial.checks)
            ran = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
            lines.append(f"{trial.outcome}: {trial.mutant.name}\n    asked: {ran or 'no check'}")
    return lines


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
