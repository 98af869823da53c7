"""The page that documents REST: what it loads, and that its examples work."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest

from muster.api.openapi.schema import GROUPS
from muster.jobs.models import Job
from tests.db.stories import World
from tests.factories import make_token

pytestmark = pytest.mark.django_db(transaction=True)

PAGE = "/api/v1/docs"
LOADED = re.compile(r"<(?:script|img|iframe)\b[^>]*\bsrc=\"([^\"]+)\"|<link\b[^>]*\bhref=\"([^\"]+)\"")


def test_the_page_loads_scripts_and_styles_from_this_server_alone(server: str) -> None:
    answer = httpx.get(server + PAGE)
    assert answer.headers["content-type"].startswith("text/html")
    # Only elements that name a file: the policy runs no script that is written in the page.
    assert re.findall(r"<script(?![^>]*\bsrc=)", answer.text) == []
    loaded = [(script or link).replace("&amp;", "&") for script, link in LOADED.findall(answer.text)]
    assert len(loaded) == 5
    for path in loaded:
        address = urljoin(server, path)
        assert address.startswith(f"{server}/"), path
        assert httpx.get(address).status_code == 200, path


def test_the_script_of_the_page_has_the_policy_of_pages_and_reads_the_document_of_this_server(server: str) -> None:
    script = httpx.get(f"{server}{PAGE}?script=")
    assert script.headers["content-type"].startswith("application/javascript")
    policy = dict(one.strip().split(" ", 1) for one in script.headers["content-security-policy"].split(";"))
    assert policy["script-src"] == policy["connect-src"] == "'self'"
    assert 'url: "/api/v1/openapi.json"' in script.text.replace("\\u002D", "-")
    assert '"validatorUrl": null' in script.text
    groups = re.search(r"urls: (\[.+?\])", script.text)
    assert groups is not None
    assert json.loads(groups[1]) == list(GROUPS)
    assert "//" not in re.sub(r"^\s*//.*$", "", script.text, flags=re.MULTILINE)


class TestExamples:
    def run(self, example: str, server: str, token: str, job: int = 0) -> str:
        """Run an example of the document for this job; return its output."""
        if shutil.which("curl") is None:
            pytest.skip("curl is not installed")
        script = re.sub(r"^JOB=\d+$", f"JOB={job}", example, flags=re.MULTILINE)
        environment = {"PATH": "/usr/bin:/bin", "MUSTER_URL": server, "MUSTER_TOKEN": token}
        return subprocess.run(
            ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=True
        ).stdout

    def test_submit_a_job_cancel_it_and_follow_its_log(self, server: str, world: World) -> None:
        document = httpx.get(f"{server}/api/v1/openapi.json").json()
        submit, follow, cancel = re.findall(r"```bash\n(.+?)```", document["info"]["description"], re.DOTALL)
        token = make_token(world.user)
        submitted: dict[str, Any] = json.loads(self.run(submit, server, token))
        job = Job.objects.get(pk=submitted["id"])
        assert (job.name, job.state) == ("hello", "queued")
        assert json.loads(self.run(cancel, server, token, job.pk))["id"] == job.pk
        job.refresh_from_db()
        assert job.state == "cancelled"
        log = self.run(follow, server, token, job.pk)
        assert re.search(r'event: end\n.*data: \{"state":\s*"cancelled"', log, re.DOTALL)
