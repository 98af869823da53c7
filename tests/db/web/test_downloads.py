"""Programs for download, and the commands for a new server that name their digest."""

from __future__ import annotations

import hashlib
import html
import io
import re
import zipfile
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from muster.fleet.package import unreachable_url_hint
from nodeagent import jobside
from tests.factories import make_node, make_user

pytestmark = pytest.mark.django_db

AGENT = "/downloads/muster-agent.pyz"
COMMAND = re.compile(r"echo '([0-9a-f]{64})  muster-agent\.pyz' \| sha256sum --check")


def test_the_digest_on_a_nodes_page_is_that_of_the_file_which_is_served(client: Client) -> None:
    served = client.get(AGENT)
    client.force_login(make_user(operator=True))
    page = client.get(reverse("admin:fleet_node_change", args=[make_node().pk])).content.decode()
    assert COMMAND.findall(html.unescape(page)) == [hashlib.sha256(served.content).hexdigest()]


def test_the_commands_come_with_the_token_of_a_node_that_is_added(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("add_node", "gpu7", "--pool", "fresh", "--new-pool")
    printed = capsys.readouterr()
    assert printed.out.strip().startswith("mjoin_")
    assert len(printed.out.split()) == 1
    assert COMMAND.search(printed.err)


def opened(client: Client, name: str) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(client.get(f"/downloads/{name}").content))


def test_every_file_is_listed_with_its_digest_and_served_without_signing_in(client: Client) -> None:
    sums = client.get("/downloads/SHA256SUMS").content.decode()
    files = dict(reversed(line.split("  ")) for line in sums.splitlines())
    assert len(files) == 2
    for name, digest in files.items():
        assert hashlib.sha256(client.get(f"/downloads/{name}").content).hexdigest() == digest


def test_the_wheel_has_a_name_of_our_own(client: Client) -> None:
    sums = client.get("/downloads/SHA256SUMS").content.decode()
    (name,) = re.findall(r"  (\S+\.whl)", sums)
    with opened(client, name) as wheel:
        (metadata,) = [entry for entry in wheel.namelist() if entry.endswith(".dist-info/METADATA")]
        assert "\nName: muster-cluster\n" in wheel.read(metadata).decode()


def test_the_sdk_reports_by_the_module_that_the_agent_gives_to_jobs(client: Client) -> None:
    (name,) = re.findall(r"  (\S+\.whl)", client.get("/downloads/SHA256SUMS").content.decode())
    with opened(client, name) as wheel, opened(client, "muster-agent.pyz") as agent:
        copies = {wheel.read("muster_client/training.py"), agent.read("nodeagent/jobside/muster_report.py")}
    assert copies == {jobside.source()}


def test_what_a_client_has_already_is_not_sent_again(client: Client) -> None:
    etag = client.get(AGENT).headers["ETag"]
    again = client.get(AGENT, headers={"If-None-Match": etag})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", ["/downloads/", "/downloads/muster.pyz", "/downloads/../manage.py"])
def test_no_other_path_is_a_download(client: Client, path: str) -> None:
    assert client.get(path).status_code == 404


@pytest.mark.parametrize(
    ("url", "hinted"), [("https://muster.example.org", False), ("http://127.0.0.1:8000", True), ("http://[::1]", True)]
)
def test_an_address_of_this_machine_alone_is_pointed_out(settings: Any, url: str, hinted: bool) -> None:
    settings.PUBLIC_URL = url
    assert ("set MUSTER_URL" in unreachable_url_hint()) is hinted
