"""The bundles that are shipped: small, whole, and found by the tuner."""

import json

import pytest

import calor_tuned
from calor.plugins.discovery import registry
from calor_kernel.runtime.bundles import Bundle
from calor_tuned import plugin

FILES = sorted(calor_tuned.folder().glob("*"))


def test_the_plugin_registers_the_folder():
    (factory,) = plugin.calor_tuned().values()
    assert factory() == calor_tuned.folder()
    if "tuned.calor" in registry.entries:
        assert registry.tuned()["calor"] == calor_tuned.folder()


def test_the_bundles_are_small():
    assert {file.suffix for file in FILES} <= {".json"}
    assert sum(file.stat().st_size for file in FILES) < 200_000


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_bundle_is_whole(file):
    bundle = Bundle.read(file, "calor")
    assert bundle.refusal(bundle.device) is None
    assert bundle.choices
    assert {key.partition("(")[0] for key in bundle.choices} == {*bundle.tables}
    # A choice that gains nothing has no place in it.
    assert all(gain >= 1.05 for _, gain in bundle.choices.values())
    assert json.loads(file.read_text("utf-8"))["description"]
