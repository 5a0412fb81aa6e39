"""Rows of the elementwise ops. Operands have one shape and dtype here; gradients stand beside."""

# ruff: noqa: F403 - rows are listed where they are defined
from calor.ops.elementwise.arithmetic import *
from calor.ops.elementwise.comparison import *
from calor.ops.elementwise.conversion import *
from calor.ops.elementwise.transcendental import *
