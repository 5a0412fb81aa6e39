"""The shared suite with which a device of calor proves what it can do.

It is used by its command and its pytest plugin; pytest imports this module wherever it is
installed, so nothing is imported here.

>>> from calor_conformance import suite
>>> suite.checks()["values/add/float32"].tier
'basic'
"""

__all__: list[str] = []
