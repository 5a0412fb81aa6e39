"""The shared suite with which a device of calor proves what it can do.

>>> from calor_conformance import suite
>>> suite.checks()["values/add/float32"].tier
'basic'
"""
