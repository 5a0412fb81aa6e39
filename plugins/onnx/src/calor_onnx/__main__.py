"""``python -m calor_onnx``: the same as the command ``calor-onnx``."""

import sys

from calor_onnx.command import main

if __name__ == "__main__":
    sys.exit(main())
