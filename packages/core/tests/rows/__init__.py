"""Rows: what each op is given, what it must return, and how near; the tests are generated."""
