"""``python -m calor_http serve``."""

import sys

from calor_http.server.serving import main

if __name__ == "__main__":
    sys.exit(main())
