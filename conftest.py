"""What every test run of the repository shares, wherever it starts.

It answers for its skips, and it computes on the reference unless the environment names a device.
"""

import os

pytest_plugins = ["skip_reasons", "pytester"]

# calor reads this when it is imported; without it the first tensor warns, which is an error here.
os.environ.setdefault("CALOR_DEVICE", "numpy")

# These doors put another module in their place, which a collector of docstrings would undo.
collect_ignore = ["packages/core/src/calor/nn.py", "packages/core/src/calor/train.py"]
