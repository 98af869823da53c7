"""`python -m bench.hived CONFIG.yaml CASES.json` runs cases of HiveD and prints the answers as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.hived.cases import CasesError, run
from scheduler.admission.hived.config import CellConfigError


def main(arguments: list[str]) -> int:
    """Run a configuration and cases; the status of the process."""
    if len(arguments) != 2:
        print("usage: python -m bench.hived CONFIG.yaml CASES.json", file=sys.stderr)
        return 2
    try:
        config, cases = (Path(name).read_text(encoding="utf-8") for name in arguments)
        answers = run(config, cases)
    except (CellConfigError, CasesError, OSError, UnicodeDecodeError) as error:
        print(json.dumps({"refused": str(error)}))
        return 1
    print(json.dumps(answers, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
