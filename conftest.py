"""Every test run of the repository, wherever it starts, answers for its skips."""

pytest_plugins = ["skip_reasons", "pytester"]
