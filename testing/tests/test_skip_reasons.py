"""The plugin that judges skips, run on small test files of its own."""

import pytest

import skip_reasons

ALLOWED = """
[[skip]]
reason = "needs (a|b) device"
why = "No such device is at hand."
"""

CASES = [
    ("listed", "pytest.skip('needs a device')", pytest.ExitCode.OK),
    ("unlisted", "pytest.skip('later')", pytest.ExitCode.TESTS_FAILED),
    ("only a part matches", "pytest.skip('needs a device, later')", pytest.ExitCode.TESTS_FAILED),
    ("unlisted expected failure", "pytest.xfail('later')", pytest.ExitCode.TESTS_FAILED),
    ("listed expected failure", "pytest.xfail('needs b device')", pytest.ExitCode.OK),
    ("no skip", "pass", pytest.ExitCode.OK),
]


def run(
    pytester: pytest.Pytester, body: str, skips: str = ALLOWED, options: tuple[str, ...] = ()
) -> pytest.RunResult:
    pytester.makeini("[pytest]")  # the folder is the root, whatever stands above it
    (pytester.path / "skips.toml").write_text(skips)
    pytester.makepyfile(f"import pytest\n{body}")
    return pytester.runpytest_inprocess("-p", "skip_reasons", *options)


@pytest.mark.parametrize(
    ("statement", "expected"), [row[1:] for row in CASES], ids=[row[0] for row in CASES]
)
def test_exit_status(pytester: pytest.Pytester, statement: str, expected: pytest.ExitCode) -> None:
    assert run(pytester, f"def test_it():\n    {statement}\n").ret == expected


SHARED = "def test_a(): pass\ndef test_b():\n    {}\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (SHARED.format("pytest.skip('later')"), pytest.ExitCode.TESTS_FAILED),
        (SHARED.format("pytest.skip('needs a device')"), pytest.ExitCode.OK),
        ("pytest.skip('later', allow_module_level=True)", pytest.ExitCode.TESTS_FAILED),
    ],
    ids=["unlisted", "listed", "whole module"],
)
def test_a_run_in_several_processes(
    pytester: pytest.Pytester, body: str, expected: pytest.ExitCode
) -> None:
    result = run(pytester, body, options=("-n", "2"))
    assert result.ret == expected
    if expected == pytest.ExitCode.OK:
        result.stdout.fnmatch_lines(["*by listed reason*", "*1  No such device is at hand."])
    else:
        result.stdout.fnmatch_lines(["*not listed*", "*later"])


def test_decorated_skip_and_its_line(pytester: pytest.Pytester) -> None:
    result = run(pytester, "@pytest.mark.skip(reason='later')\ndef test_it(): pass\n")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*not listed*", "*::test_it: later"])


def test_unwritten_reason(pytester: pytest.Pytester) -> None:
    result = run(pytester, "@pytest.mark.xfail\ndef test_it(): assert False\n")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*no reason given"])


def test_whole_module(pytester: pytest.Pytester) -> None:
    result = run(pytester, "pytest.skip('later', allow_module_level=True)\n")
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_listed_skips_are_counted(pytester: pytest.Pytester) -> None:
    result = run(pytester, "def test_it(): pytest.skip('needs a device')\n")
    result.stdout.fnmatch_lines(["*by listed reason*", "*1  No such device is at hand."])


def test_a_failure_keeps_its_status(pytester: pytest.Pytester) -> None:
    body = "def test_a(): pytest.skip('later')\ndef test_b(): assert False\n"
    assert run(pytester, body).ret == pytest.ExitCode.TESTS_FAILED


def test_without_a_list_no_skip_is_allowed(pytester: pytest.Pytester) -> None:
    result = run(pytester, "def test_it(): pytest.skip('needs a device')\n", skips="")
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("row", ['reason = "x"', 'reason = "x"\nwhy = " "', 'why = "x"'])
def test_a_row_needs_a_reason_and_a_why(pytester: pytest.Pytester, row: str) -> None:
    path = pytester.path / "skips.toml"
    path.write_text(f"[[skip]]\n{row}\n")
    with pytest.raises(ValueError, match="needs `reason` and `why`"):
        skip_reasons.read_allowed(path)
