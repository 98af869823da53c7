"""Results of `make audit` from the outputs of its two tools."""

from __future__ import annotations

import dataclasses
import os

import pytest

from tests.advisories import SCANS, Scan, run

PYTHON, NPM = SCANS
UV_FOUND = """Found 1 known vulnerability and no adverse project statuses in 140 packages

Vulnerabilities:

django 5.2.19 has 1 known vulnerability:

- GHSA-0000: error: read for url (x)
"""
NPM_FOUND = """# npm audit report

react
A report of npm error audit endpoint returned an error
19 low severity vulnerabilities
"""
NPM_405 = """npm warn audit 405 Method Not Allowed - POST https://registry.npmjs.org/-/npm/v1/security/advisories/bulk

npm error audit endpoint returned an error
"""
NPM_AWAY = """npm warn audit request to http://127.0.0.1:1/ failed, reason: connect ECONNREFUSED 127.0.0.1:1
npm error audit endpoint returned an error
"""


@pytest.mark.parametrize(
    ("scan", "status", "output", "passed", "told"),
    [
        (PYTHON, 0, "Found no known vulnerabilities in 140 packages", True, "no known vulnerability"),
        (PYTHON, 1, UV_FOUND, False, "GHSA-0000"),
        (
            PYTHON,
            2,
            "error: error sending request for url (https://api.osv.dev)\n  cause: dns",
            True,
            "not offered here",
        ),
        (PYTHON, 2, "error: HTTP status client error (404 Not Found) for url (http://x)", True, "404 Not Found"),
        (PYTHON, 2, "error: No `pyproject.toml` found in current directory", False, "pyproject.toml"),
        (NPM, 0, "found 0 vulnerabilities", True, "no known vulnerability"),
        (NPM, 1, NPM_FOUND, False, "19 low severity"),
        (NPM, 1, NPM_405, True, "405 Method Not Allowed"),
        (NPM, 1, NPM_AWAY, True, "not offered here"),
        (NPM, 1, "npm error code ENOLOCK", False, "ENOLOCK"),
    ],
)
def test_only_a_vulnerability_or_a_broken_tool_fails(
    scan: Scan, status: int, output: str, passed: bool, told: str
) -> None:
    command = ("sh", "-c", f'printf "%s" "$0" >&2; exit {status}', output)
    found = run(dataclasses.replace(scan, command=command), os.environ)
    assert found[0] is passed
    assert told in found[1]
