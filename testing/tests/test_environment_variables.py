"""The page of environment variables is complete, and as the sources are."""

from pathlib import Path

import environment_variables as tool

PAGE = Path(__file__).parents[2] / "docs/guide/environment-variables.md"


def test_each_variable_that_is_read_has_a_description() -> None:
    assert tool.read_in().keys() == tool.VARIABLES.keys(), (
        "describe what is new in tools/environment_variables.py, and remove what nothing reads"
    )


def test_the_page_holds_the_table() -> None:
    text = PAGE.read_text("utf-8")
    begin, end = "<!-- begin: python tools/environment_variables.py -->", "<!-- end -->"
    held = text.partition(begin)[2].partition(end)[0].strip()
    assert held == tool.markdown(), "put the output of the command into the page"


def test_reads_are_found_and_other_texts_are_not(tmp_path: Path) -> None:
    source = tmp_path / "packages/one/src/calor_one/settings.py"
    source.parent.mkdir(parents=True)
    source.write_text(
        '"""CALOR_PROSE"""\n'
        'import os\nKEY = "CALOR_KEY"\nx = os.environ.get("CALOR_ONE", "CALOR two")\n'
        'y = os.environ["CALOR_TWO"]\nprint("text".replace("CALOR_THREE", ""))\n'
    )
    names = ["CALOR_KEY", "CALOR_ONE", "CALOR_TWO"]
    assert tool.read_in(tmp_path) == {name: ["calor-one"] for name in names}
