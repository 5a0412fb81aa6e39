"""What importing calor-train costs, and the door to it."""

import subprocess
import sys


def test_nothing_heavy_is_imported():
    program = (
        "import sys, calor_train; "
        "print([n for n in ('rich', 'matplotlib', 'sklearn') if n in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


def test_the_door_in_calor_opens_this_package():
    import calor_train
    from calor import train

    assert train is calor_train
