"""Reports: verdicts that follow, and changes that verify finds."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calor.errors import FormatError
from calor.plugins.discovery import get_device
from calor_conformance import markdown, report, running, suite, verify
from calor_conformance.outcomes import Result
from calor_conformance.selection import Selection


@pytest.fixture(scope="module")
def basic() -> dict[str, Any]:
    device, chosen = get_device("numpy"), Selection(tiers=("basic",))
    asked = chosen.of(suite.checks().values())
    results = list(running.run(device, asked))
    return report.build(device, chosen, results, command="calor-conformance --device numpy")


def test_a_report_of_the_reference_passes_and_verifies(basic: dict[str, Any]) -> None:
    assert report.passed(basic)
    assert list(basic["tiers"]) == ["basic"]
    assert basic["tiers"]["basic"]["counts"] == {"passed": len(basic["results"])}
    # Each tier has a verdict of its own, so one tier is whole by itself.
    assert basic["whole"]
    assert list(verify.problems(basic)) == []
    assert verify.claim(basic) == "numpy:0 conforms to profile complete in basic"


def test_the_page_shows_verdicts_and_identity(basic: dict[str, Any]) -> None:
    page = markdown.page(basic)
    assert "# Conformance of numpy:0" in page
    assert "| basic | passed |" in page
    assert basic["suite"]["digest"] in page
    assert "| `add` |" in page


def _signed(made: dict[str, Any]) -> dict[str, Any]:
    made["digest"] = report.digest(made)
    return made


def _remove(made: dict[str, Any]) -> None:
    del made["results"][0]
    made["whole"] = True
    made["tiers"] = report.verdicts(made)


def _override(made: dict[str, Any]) -> None:
    made["results"][0]["digest"] = "0" * 16


def _call_provisional(made: dict[str, Any]) -> None:
    made["results"][0]["provisional"] = "0.1"
    made["tiers"] = report.verdicts(made)


def _hide_a_failure(made: dict[str, Any]) -> None:
    made["results"][0]["outcome"] = "failed"


def _invent(made: dict[str, Any]) -> None:
    made["results"].append({**made["results"][0], "name": "values/magic/float32"})


def _repeat(made: dict[str, Any]) -> None:
    made["results"].append(made["results"][0])


def _move(made: dict[str, Any]) -> None:
    made["results"][0]["tier"] = "full"
    made["tiers"] = report.verdicts(made)


def _no_outcome(made: dict[str, Any]) -> None:
    made["results"][0]["outcome"] = "fine"


def _other_suite(made: dict[str, Any]) -> None:
    made["suite"]["digest"] = "0"


def _other_protocol(made: dict[str, Any]) -> None:
    made["protocol"] = "0"


CHANGES: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (_remove, "checks were removed"),
    (_override, "were overridden"),
    (_call_provisional, "wrongly marked as provisional"),
    (_hide_a_failure, "verdicts do not follow"),
    (_invent, "checks that the suite lacks"),
    (_repeat, "twice"),
    (_move, "another tier"),
    (_no_outcome, "no outcome"),
    (_other_suite, "another version of the suite"),
    (_other_protocol, "version of the backend protocol"),
]


@pytest.mark.parametrize(("change", "found"), CHANGES, ids=lambda x: getattr(x, "__name__", ""))
def test_what_was_tampered_with_is_found(
    basic: dict[str, Any], change: Callable[[dict[str, Any]], None], found: str
) -> None:
    made = copy.deepcopy(basic)
    change(made)
    assert any(found in p for p in verify.problems(_signed(made)))


def test_a_change_without_a_new_digest_is_found(basic: dict[str, Any]) -> None:
    made = {**basic, "seed": 99}
    assert any("changed after it was written" in p for p in verify.problems(made))


def test_a_failure_and_a_gap_fail_the_tier(basic: dict[str, Any]) -> None:
    for outcome, why in (("failed", "1 checks failed"), ("not_run", "1 checks were not run")):
        made = copy.deepcopy(basic)
        made["results"][0]["outcome"] = outcome
        assert report.verdicts(made)["basic"]["why"] == [why]
    made = copy.deepcopy(basic)
    del made["results"][0]
    assert report.verdicts(made)["basic"]["why"] == ["1 checks were not run"]


def test_a_device_that_can_nothing_passes_nothing(basic: dict[str, Any]) -> None:
    made = copy.deepcopy(basic)
    for row in made["results"]:
        row["outcome"] = "impossible"
    why = report.verdicts(made)["basic"]["why"]
    assert "no check passed" in why
    assert "the required op add passed in no dtype" in why


def test_a_provisional_failure_does_not_decide(basic: dict[str, Any]) -> None:
    made = copy.deepcopy(basic)
    made["results"].append(
        {
            "name": "properties/add/float32",
            "tier": "full",
            "outcome": "failed",
            "provisional": "0.1",
        }
    )
    full = report.verdicts(made)["full"]
    assert full["provisional"] == {"failed": 1}
    assert full["counts"] == {}


def test_shards_are_merged_and_strangers_are_not(basic: dict[str, Any]) -> None:
    half = len(basic["results"]) // 2
    one = _signed({**copy.deepcopy(basic), "results": basic["results"][:half]})
    other = _signed({**copy.deepcopy(basic), "results": basic["results"][half:]})
    merged = report.merge([one, other])
    assert merged["results"] == basic["results"]
    assert merged["tiers"] == basic["tiers"]
    assert list(verify.problems(merged)) == []
    with pytest.raises(FormatError, match="their seed differs"):
        report.merge([one, {**other, "seed": 1}])


def served(basic: dict[str, Any], half: int, authority: str, **device: Any) -> dict[str, Any]:
    """Return a half of a report, of a device that a server lends."""
    name = f"https://{authority}/acme:0"
    middle = len(basic["results"]) // 2
    known = {
        **basic["device"], "name": name,
        "description": f"Acme 9, by calor 1.2 at {name}", **device,
    }  # fmt: skip
    results = basic["results"][:middle] if half == 0 else basic["results"][middle:]
    return _signed({**copy.deepcopy(basic), "results": results, "device": known})


def test_shards_of_servers_at_different_addresses_are_merged(basic: dict[str, Any]) -> None:
    one, other = served(basic, 0, "a.example:8470"), served(basic, 1, "b.example")
    merged = report.merge([one, other])
    assert merged["results"] == basic["results"]
    assert list(verify.problems(merged)) == []
    device = merged["device"]
    assert device["name"] == "https://*/acme:0"
    assert device["description"] == "Acme 9, by calor 1.2 at https://*/acme:0"
    assert device["names"] == ["https://a.example:8470/acme:0", "https://b.example/acme:0"]
    assert verify.claim(merged).startswith("https://*/acme:0 conforms to profile")
    # What was merged can be merged again, and one address stays as it is.
    third = report.merge([served(basic, 1, "c.example"), merged])
    assert len(third["device"]["names"]) == 3
    same = report.merge([one, served(basic, 1, "a.example:8470")])
    assert same["device"] == one["device"]


@pytest.mark.parametrize(
    "device",
    [
        {"name": "https://b.example/acme:1"},
        {"name": "http://b.example/acme:0"},
        {"name": "router:https://b.example/acme:0,cpu:0"},
        {"description": "Acme 9, by calor 1.3 at https://b.example/acme:0"},
        {"description": "Acme 8, by calor 1.2 at https://b.example/acme:0"},
        {"limits": {"max_dims": 3}},
        {"features": {}},
        {"ops": {"add": "not_yet (later)"}},
    ],
    ids=lambda device: next(iter(device)),
)
def test_shards_of_devices_that_differ_in_more_than_their_address_are_not(
    basic: dict[str, Any], device: dict[str, Any]
) -> None:
    one, other = served(basic, 0, "a.example"), served(basic, 1, "b.example", **device)
    with pytest.raises(FormatError, match="their device differs"):
        report.merge([one, other])


def test_addresses_within_a_router_are_left_out_too(basic: dict[str, Any]) -> None:
    names = [f"router:http://{a}/numpy:0,https://{b}:1/cpu:0" for a, b in ("xy", "zw")]
    one, other = (served(basic, i, "x", name=names[i], description="2 members") for i in (0, 1))
    merged = report.merge([one, other])["device"]
    assert merged["name"] == "router:http://*/numpy:0,https://*/cpu:0"
    assert merged["names"] == sorted(names)


def test_files_that_are_no_report_are_refused(tmp_path: Path, basic: dict[str, Any]) -> None:
    path = tmp_path / "report.json"
    with pytest.raises(FormatError, match="is not a report"):
        verify.read(path)
    path.write_text("[1, 2]")
    with pytest.raises(FormatError, match="it lacks format"):
        verify.read(path)
    path.write_text(json.dumps({**basic, "format": 2}))
    with pytest.raises(FormatError, match="format 2"):
        verify.read(path)
    path.write_text(json.dumps({**basic, "profile": "royal"}))
    with pytest.raises(FormatError, match="unknown profile"):
        verify.read(path)


def test_failures_are_shown_whole_on_the_page(basic: dict[str, Any]) -> None:
    made = copy.deepcopy(basic)
    made["results"][0] |= {"outcome": "failed", "detail": "3 is not 4"}
    made["results"][1] |= {"outcome": "impossible", "detail": "the unit has no double precision"}
    page = markdown.page(made)
    assert f"### {made['results'][0]['name']}" in page
    assert "3 is not 4" in page
    assert "| impossible | the unit has no double precision | 1 |" in page


def test_results_are_named() -> None:
    assert Result("a", "passed") == Result("a", "passed", "", 0.0)
