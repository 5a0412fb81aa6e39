"""Calls of functions whose results are recorded: what is called, how, and what it gave.

Requirements: calls are drawn, not written: the arguments of each function's rows are changed in
dtype, shape, numbers and options, also together, so that a call that nobody thought of is asked
too. What a call gives is stored with how far it may be off, by ``tools/recorded_calls.py``, which
takes calls that come to other lines than those before, and tells where libraries that have the
function disagree.
"""
