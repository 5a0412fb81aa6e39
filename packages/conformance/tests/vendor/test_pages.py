"""The pages for authors of plugins say everything that the code has, and nothing else."""

from __future__ import annotations

import inspect
import re
from argparse import SUPPRESS
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from calor.backends.events import Watched
from calor.backends.host_memory import HostMemory
from calor.backends.op_table import OpTable
from calor.backends.protocol import Backend, Buffer, Claim, Executable, Info, MemoryFigures
from calor.dtypes import ALL
from calor.plugins import hooks
from calor.plugins.registry import HOOKS
from calor_conformance import suite
from calor_conformance.checks.base import TIERS
from calor_conformance.command import _parser
from calor_conformance.outcomes import OUTCOMES
from calor_conformance.selection import PROFILES, REQUIRED
from calor_conformance.strict.rules import RULES

DOCS = Path(__file__).parents[4] / "docs/extending"
SIGNATURE = re.compile(r"### `(?P<name>\w+)\((?P<parameters>[^)]*)\)( -> (?P<result>\w+))?`")


@cache
def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text("utf-8")


def sections(text: str) -> dict[str, str]:
    """The parts of a page by their headings of the third level."""
    parts = re.split(r"^(###? .*)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def described(text: str) -> dict[str, tuple[str, str]]:
    """The parameters and the text of each function that has a heading."""
    found = {}
    for heading, body in sections(text).items():
        match = SIGNATURE.fullmatch(heading)
        if match is not None:
            found[match["name"]] = (match["parameters"], body)
    return found


def rows(text: str, begin: str) -> Iterator[list[str]]:
    """The cells of the table under the first line that begins with a header, without that line."""
    lines = iter(text.splitlines())
    next(line for line in lines if line.startswith(begin))
    next(lines)
    for line in lines:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def code(cell: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`]*)`", cell)


METHODS = {
    name: function
    for part in (Watched, HostMemory, Backend)
    for name, function in vars(part).items()
    if inspect.isfunction(function) and not name.startswith("_")
}
# What a device may leave out without a feature: profiles say so when they are asked for.
PLAIN = {"profiling"}


def test_the_reference_has_every_hook_and_every_method() -> None:
    assert set(HOOKS.values()) == {n for n in vars(hooks) if n.startswith("calor_")}
    assert set(described(page("backends"))) == {*HOOKS.values(), *METHODS}


@pytest.mark.parametrize("name", [*HOOKS.values(), *METHODS])
def test_a_function_is_described_whole(name: str) -> None:
    parameters, body = described(page("backends"))[name]
    function: Callable[..., Any] = METHODS.get(name) or getattr(hooks, name)
    declared = [
        f"{'**' if p.kind is p.VAR_KEYWORD else ''}{p.name}"
        for p in inspect.signature(function).parameters.values()
        if p.name != "self"
    ]
    assert [p.strip() for p in parameters.split(",") if p] == declared
    for part in ("**Called**", "**Result:**", "**Failure:**"):
        assert body.count(part) == 1, f"{name} lacks {part}"


def test_optional_methods_name_their_feature() -> None:
    """What has a default that raises needs a feature, which the page names."""
    for name, function in METHODS.items():
        source = inspect.getsource(function)
        if "UnsupportedError" in source and name not in PLAIN:
            feature = re.search(r"needs the feature (\w+)", source)
            assert feature is not None, name
            assert f"Feature `{feature[1]}`." in described(page("backends"))[name][1]


@pytest.mark.parametrize("kind", [Claim, Info, MemoryFigures])
def test_every_field_is_described(kind: Any) -> None:
    table = sections(page("backends"))[f"### {kind.__name__}"]
    listed = [code(cells[0])[0] for cells in rows(table, "| field |")]
    assert listed == [f.name for f in fields(kind)]


def test_buffers_and_executables_are_described() -> None:
    buffer = sections(page("backends"))["### Buffer"]
    listed = {code(cells[0])[0] for cells in rows(buffer, "| attribute |")}
    assert listed == {n for n in vars(Buffer) if not n.startswith("_")}
    executable = sections(page("backends"))["### Executable"]
    assert [code(cells[0])[0] for cells in rows(executable, "| member |")] == [
        *(name for name, member in vars(Executable).items() if isinstance(member, property)),
        *Executable.__annotations__,
        "__call__(inputs, into=None)",
    ]


def test_what_a_subclass_of_the_ready_base_gives_is_described() -> None:
    table = sections(page("backends"))["## The ready base: OpTable"]
    listed = [code(cells[0])[0] for cells in rows(table, "| member |")]
    own = vars(OpTable)
    methods = {
        f"{name}({', '.join(list(inspect.signature(function).parameters)[1:])})"
        for name, function in own.items()
        if inspect.isfunction(function) and name not in METHODS
    }
    attributes = {name for name in own["__annotations__"] if not name.startswith("_")}
    assert set(listed) == methods | attributes


def test_every_rule_of_the_protocol_is_listed() -> None:
    table = sections(page("backends"))["## The rules by name"]
    assert {code(c[0])[0]: c[1] for c in rows(table, "| rule |")} == dict(RULES)


def test_every_outcome_tier_and_profile_is_listed() -> None:
    text = page("conformance")
    assert tuple(code(c[0])[0] for c in rows(text, "| outcome |")) == OUTCOMES
    assert tuple(code(c[0])[0] for c in rows(text, "| tier |")) == TIERS
    for cells, profile in zip(rows(text, "| profile |"), PROFILES.values(), strict=True):
        name, about, tiers, dtypes, required = cells
        assert code(name) == [profile.name]
        assert about == profile.about
        assert code(tiers) == ([] if profile.tiers == TIERS else list(profile.tiers))
        everything = profile.dtypes == ALL
        assert code(dtypes) == ([] if everything else [d.name for d in profile.dtypes])
        assert code(required) == ([] if profile.required == REQUIRED else list(profile.required))


def test_the_ops_that_every_device_has_are_listed() -> None:
    text = page("conformance").replace("\n", " ")
    listed = text.partition("fourteen ops in at least one dtype:")[2].partition(". ")[0]
    assert tuple(code(listed)) == REQUIRED


def test_every_kind_of_check_is_explained() -> None:
    listed = [name for c in rows(page("conformance"), "| kind |") for name in code(c[0])]
    assert sorted(listed) == sorted({c.kind for c in suite.checks().values()})


def test_every_option_of_the_command_is_explained() -> None:
    listed = [t for c in rows(page("conformance"), "| option |") for t in code(c[0])]
    names = {word for text in listed for word in text.split() if word.startswith("--")}
    # An option that --help hides is for the processes that a run starts.
    told = [action for action in _parser()._actions if action.help != SUPPRESS]
    assert names == {o for action in told for o in action.option_strings} - {"-h", "--help"}
