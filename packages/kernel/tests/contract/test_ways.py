"""Tables of ways: the order of candidates, reasons of refusals, and ways that are asked last."""

from importlib import metadata
from types import SimpleNamespace

import pytest

from calor.dtypes import float32
from calor.errors import PluginError
from calor_kernel.contract import ways
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.ways import Row, Table, Way, ranked, serves
from calor_kernel.contract.work import Request, Work

INFO = DeviceInfo("a device", frozenset((float32,)))
ASKED: list[str] = []


def request(candidates: bool) -> Request:
    return Request("double", {}, (), (), INFO, candidates=candidates)


def way(name: str, most: int, tier: int = 0, groups: tuple[int, ...] = (0,), **options: bool):
    """A way for problems up to a size, with a candidate for each group."""

    def refuses(size: int, request: Request) -> str | None:
        ASKED.append(name)
        return f"{size} is more than {most}" if size > most else None

    def works(size: int, request: Request) -> list[Work]:
        return [Work((), (size,), variant=f"{name} {g}" if g else "", group=g) for g in groups]

    return Way(name, refuses, works, tier, **options)


TABLE = (
    way("short", 8),
    way("wide", 64, tier=1, groups=(0, 1)),
    way("kept", 64, tier=1, paired=True),
    way("long", 1 << 20, tier=3),
    Way("general", serves, lambda size, request: [Work((), (size,))], spare=True),
)


def names(size: int, candidates: bool) -> list[tuple[str, int]]:
    return [(work.variant, work.group) for work in ranked(TABLE, size, request(candidates))]


@pytest.mark.parametrize(
    ("size", "first"),
    [(4, ["short"]), (32, ["wide", "kept"]), (100, ["long"]), (1 << 21, ["general"])],
)
def test_a_plain_request_gets_the_first_way_and_those_that_keep_operands(size, first) -> None:
    assert names(size, False) == [(name, 0) for name in first]


def test_candidates_are_in_the_order_of_their_groups() -> None:
    assert names(4, True) == [("short", 0), ("wide", 1), ("kept", 1), ("wide 1", 2), ("long", 3)]
    assert names(32, True) == [("wide", 0), ("kept", 0), ("wide 1", 1), ("long", 2)]


def test_every_refusal_has_its_reason() -> None:
    dropped = ranked(TABLE, 100, request(True)).dropped
    assert [(one.variant, one.reason) for one in dropped] == [
        ("short", "100 is more than 8"),
        ("wide", "100 is more than 64"),
        ("kept", "100 is more than 64"),
    ]


def test_ways_behind_the_first_choice_are_not_asked() -> None:
    ASKED.clear()
    ranked(TABLE, 4, request(False))
    assert ASKED == ["short"]


def test_a_way_without_a_tile_says_so() -> None:
    none = Way("tiles", serves, lambda size, request: [])
    (dropped,) = ranked([none], 4, request(True)).dropped
    assert dropped.reason == "no tile of it suits the sizes"


def entry(monkeypatch: pytest.MonkeyPatch, name: str, *rows: Row[int], api: str = "1") -> None:
    """Install a distribution that brings rows for a table."""
    monkeypatch.setattr(ways, "TABLES", ("products", "sums"))
    point = SimpleNamespace(name=name, dist=None, load=lambda: rows)
    points = SimpleNamespace(groups=[f"{ways.GROUP}{api}"], select=lambda group: [point])
    monkeypatch.setattr(metadata, "entry_points", lambda: points)
    monkeypatch.setattr(ways, "brought", ways.brought.__wrapped__)


def test_a_distribution_adds_rows_before_the_named_way(monkeypatch: pytest.MonkeyPatch) -> None:
    entry(monkeypatch, "products", Row("long", way("own", 70)), Row("long", way("own too", 70)))
    named = [one.name for one in Table("products", *TABLE)]
    assert named == ["short", "wide", "kept", "own", "own too", "long", "general"]
    assert [one.name for one in Table("sums", *TABLE)] == [one.name for one in TABLE]


def test_a_row_before_an_unknown_way_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    entry(monkeypatch, "products", Row("fragments", way("own", 70)))
    with pytest.raises(PluginError, match="unknown distribution . adds a way before 'fragments'"):
        list(Table("products", *TABLE))


def test_rows_for_an_unknown_table_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    entry(monkeypatch, "prodcts", Row("long", way("own", 70)))
    with pytest.raises(PluginError, match="adds ways to 'prodcts', but .* products, sums"):
        list(Table("products", *TABLE))


@pytest.mark.parametrize(
    ("api", "advice"),
    [("2", "--upgrade calor-kernel"), ("0", "--upgrade an unknown distribution")],
)
def test_rows_for_another_version_say_which_distribution_to_upgrade(
    monkeypatch: pytest.MonkeyPatch, api: str, advice: str
) -> None:
    entry(monkeypatch, "products", Row("long", way("own", 70)), api=api)
    told = f"is for version {api} .*, this calor-kernel speaks version 1: pip install {advice}"
    with pytest.raises(PluginError, match=told):
        list(Table("products", *TABLE))


def test_convolutions_explain_each_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a dry run prints: each way of the table is a candidate, or has a reason."""
    from calor.specs import spec
    from calor_kernel.contract.work import View
    from calor_kernel.library.conv import lowering

    image, weight = spec((1, 3, 8, 8), float32), spec((16, 3, 3, 3), float32)
    asked = Request(
        "conv",
        {
            "stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1,
        },
        (View.dense(image), View.dense(weight)),
        (spec((1, 16, 8, 8), float32),),
        INFO,
        candidates=True,
    )  # fmt: skip
    found = lowering.lower_conv(asked)
    told = {work.variant for work in found} | {one.variant for one in found.dropped}
    assert told >= {"gemv", "small width", "rows", "channel vectors"}
    assert all(one.reason for one in found.dropped)
