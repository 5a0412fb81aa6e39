"""The shared suite that tests what a device of calor can do.

Its command and its pytest plugin use it. pytest imports this module wherever it is installed, so it
imports nothing.

>>> from calor_conformance import suite
>>> suite.checks()["values/add/float32"].tier
'basic'
"""

__all__: list[str] = []
