"""`python -m nodeagent`: the command `muster-agent`."""

from __future__ import annotations

import sys

from nodeagent.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
