"""Bundles of tuned choices: for which device they hold, and what they are ignored for."""

import json
from dataclasses import replace

import pytest

from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.planning.lowering import load_families
from calor_kernel.runtime import bundles
from calor_kernel.runtime.bundles import Bundles, made, properties, table

KEY = "neg(float32[16]){}->float32[16]"
GPU = replace(ONE_UNIT, max_units=256, memory_bytes=80 << 30, planes=(32,), cores=100)


def device(info=ONE_UNIT, **changes):
    return LanesDevice(replace(info, **changes), checks=False)


def stored(work="fast", seconds=1.0, first=2.0):
    return {"work": work, "label": work, "seconds": seconds, "first": first}


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Install bundles: functions of their data, by the name of the file."""
    load_families()
    monkeypatch.setattr(bundles, "tuned", lambda: {"acme": tmp_path})

    def install(name, data):
        text = data if isinstance(data, str) else json.dumps(data)
        (tmp_path / name).write_text(text, "utf-8")

    return install


def test_a_bundle_has_what_gains():
    load_families()
    lines = {
        KEY: stored(),
        "a(": stored(first=1.04),
        "ceilings": [1.0, 2.0],
        "without a first": {"work": "fast", "label": "", "seconds": 1.0},
    }
    found = made(device(), lines)
    assert found["choices"] == {KEY: ["fast", 2.0]}
    assert found["tables"] == {"neg": table("neg", "calor_interpreter")}
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize(
    ("info", "changes", "reason"),
    [
        (ONE_UNIT, {}, None),
        (ONE_UNIT, {"cores": 4, "caches": (1, 2), "memory_bytes": 5, "description": "b"}, None),
        (ONE_UNIT, {"cores": 5}, "cores 2, here 5"),
        (ONE_UNIT, {"vector_bytes": 1024}, "vector_bytes"),
        (ONE_UNIT, {"features": ONE_UNIT.features - {"print"}}, None),
        (ONE_UNIT, {"features": ONE_UNIT.features - {"fma"}}, "features fma, here no more"),
        (GPU, {"memory_bytes": 79 << 30}, None),
        (GPU, {"memory_bytes": 141 << 30}, "memory 36.5, here 37.0"),
        (GPU, {"cores": 78}, "cores 100, here 78"),
    ],
)
def test_which_devices_a_bundle_holds_for(installed, info, changes, reason):
    here = device(info)
    installed("a.json", made(here, {KEY: stored()}))
    own = properties(device(info, **changes))
    ((_, bundle),) = Bundles(here).found
    found = bundle.refusal(own)
    assert found is None if reason is None else reason in found


def test_the_nearest_number_of_cores_holds(installed):
    for cores in (1, 2, 4):
        measured = {KEY: stored(f"for {cores}")}
        if cores == 2:
            measured["cast("] = stored("two")
        installed(f"{cores}.json", made(device(cores=cores), measured))
    for cores, nearest in ((1, 1), (2, 2), (3, 4), (4, 4)):
        found = Bundles(device(cores=cores))
        assert found.get("neg", KEY) == f"for {nearest}"
        assert found.get("cast", "cast(") == "two"
        assert found.get("neg", "neg(") is None
        assert found.ops == {"neg", "cast"}
    assert Bundles(device(cores=8)).ops == {"neg"}
    assert not Bundles(device(cores=9)).ops


def test_what_does_not_hold_is_reported(installed, monkeypatch):
    here = device(cores=2)
    installed("1.json", made(here, {KEY: stored(), "cumsum(": stored()}))
    installed("2.json", made(device(vector_bytes=8), {KEY: stored("other")}))
    installed("3.json", "{")
    installed("4.json", {"form": 9})
    renamed = bundles.table
    monkeypatch.setattr(
        bundles, "table", lambda op, root: "new" if op == "cumsum" else renamed(op, root)
    )
    found = Bundles(here)
    assert found.get("neg", KEY) == "fast"
    assert found.get("cumsum", "cumsum(") is None
    rows = dict(found.report())
    first = "1 choices for 2 cores; ignored: 1 for other versions of the ways of cumsum"
    assert rows["1.json of acme"] == first
    assert "for another device: vector_bytes 8" in rows["2.json of acme"]
    assert "3.json of acme is damaged: JSONDecodeError" in rows["3.json"]
    assert "has form 9, this calor-kernel reads 1" in rows["4.json"]


def test_the_version_of_a_family_is_that_of_its_ways():
    load_families()
    ops = ("dot_general", "conv", "attention", "sort", "neg", "sum")
    own = {op: table(op, "calor_interpreter") for op in ops}
    assert len({*own.values()}) == len(ops)
    assert table("product_chain", "calor_interpreter") == own["dot_general"]
    assert table("no such op", "calor_interpreter") == ""
