"""Servers over SSH, with a real sshd, the real web process, and agents and jobs as real processes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import signal
import socket
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from muster.dispatch.cycles import run_cycle
from muster.dispatch.reaper import reap
from muster.events.models import Event
from muster.fleet import package
from muster.fleet.models import Gpu, Node, NodeLease, Pool
from muster.jobs.models import Allocation, Attempt, Job
from muster.jobs.services import submit_job
from muster.links import install, link, remote
from muster.links.install import install_agent
from muster.links.keys import fingerprint_of, open_private_key, public_line
from muster.links.models import LinkState, Server, Step
from muster.links.services import remove_server
from muster.logs.models import LogFile
from nodeagent.protocol.frames import MAGIC
from scheduler.model.lifecycle import JobState
from tests.db.conftest import client as http_client
from tests.db.jobs.test_uploads import archive_of
from tests.db.linked_site import COUNTING, Site, sleepers, until
from tests.sshd import make_key

pytestmark = [pytest.mark.timeout(180), pytest.mark.usefixtures("server")]


def test_a_server_is_set_up_runs_a_job_and_keeps_it_through_a_lost_link(site: Site) -> None:
    site.add()
    site.begin()
    site.until_ready()
    assert Node.objects.get().address == "127.0.0.1"
    flag = f"{site.sshd.home}/end"
    job = site.submit(COUNTING.format(flag=flag))
    site.until_job(job, JobState.ACTIVE)
    site.until_logged(job, b"line 5\n")
    epoch = NodeLease.objects.get().epoch
    site.sshd.stop()
    site.until_state(LinkState.LOST, LinkState.UNREACHABLE)
    at_loss = site.log(job)
    assert site.sshd.agents(), "the agent goes on"
    site.until_state(LinkState.UNREACHABLE)
    site.sshd.start()
    site.until_state(LinkState.UP)
    until(lambda: len(site.log(job)) > len(at_loss) + 160, "the log goes on")
    site.sshd.shell(f"touch {flag}")
    done = site.until_job(job, JobState.SUCCEEDED, JobState.FAILED)
    assert done.state == JobState.SUCCEEDED
    # The same registration all along: a link that comes back is no new agent.
    assert NodeLease.objects.get().epoch == epoch
    assert Attempt.objects.filter(job=job).count() == 1
    until(lambda: LogFile.objects.filter(complete=True).exists(), "the log is complete")
    lines = site.log(job).splitlines(keepends=True)
    number = int(lines[-1].split()[1])
    assert number > 20
    assert lines == [b"line %d\n" % each for each in range(number)] + [b"counted %d\n" % number]
    told = [event.data["state"] for event in Event.objects.filter(kind="node.link").order_by("pk")]
    assert told[0] == "up"
    assert told[-1] == "up"
    assert "unreachable" in told


def test_a_changed_host_key_is_refused_and_an_unknown_one_is_told(site: Site) -> None:
    site.add()
    site.begin()
    site.until_ready()
    before = site.sshd.host_key
    site.sshd.stop()
    site.sshd.new_host_key()
    site.sshd.start()
    server = site.until_state(LinkState.HOST_KEY_CHANGED)
    assert fingerprint_of(site.sshd.host_key) in server.reason
    assert fingerprint_of(before) in server.reason
    tries = server.tries
    until(lambda: site.server().tries > tries, "it is tried again")
    # The platform does not sign in before the key is right, and takes over no key by itself.
    assert "Accepted publickey" not in site.sshd.said().rpartition("Server listening")[2]
    site.change(host_key="")
    assert fingerprint_of(site.sshd.host_key) in site.until_state(LinkState.HOST_KEY_UNKNOWN).reason
    site.change(host_key=fingerprint_of(site.sshd.host_key))
    site.until_state(LinkState.UP)


def test_a_wrong_key_is_refused_and_the_right_one_mends_it(site: Site, tmp_path: Path) -> None:
    site.add(private_key=make_key(tmp_path / "other"))
    site.begin()
    server = site.until_state(LinkState.AUTHENTICATION_REFUSED)
    assert fingerprint_of(server.public_key) in server.reason
    assert site.sshd.files() == []
    site.change(private_key=site.sshd.private_key)
    site.until_ready()


NO_PYTHON = {
    "none": (None, "python3"),
    "one that fails": ("#!/bin/sh\necho boom >&2\nexit 1\n", "boom"),
    "one that does nothing": ("#!/bin/sh\nexit 0\n", "status 0"),
    "an old one": ("#!/bin/sh\necho 'this python3 is 3.6.8, and the agent needs 3.9' >&2\nexit 65\n", "3.6.8"),
}


def test_a_server_without_python_is_told_and_tried_again(site: Site) -> None:
    python = site.sshd.programs / "python3"
    python.rename(site.sshd.programs / "kept")
    site.sshd.only_programs()
    server = site.add()
    for tries, (case, (program, said)) in enumerate(NO_PYTHON.items()):
        if program is not None:
            python.write_text(program)
            python.chmod(0o755)
        assert not install_agent(server.pk), case
        row = site.server()
        assert (row.state, row.tries) == (LinkState.NO_PYTHON, tries + 1), case
        assert said in row.reason, case
        assert site.sshd.files() == [], case
        Server.objects.update(due_at=row.since)
    python.unlink()
    (site.sshd.programs / "kept").rename(python)
    site.begin()
    site.until_ready()


@pytest.mark.parametrize("sshd", [{"home_options": "size=400k"}], indirect=True)
def test_a_full_disk_is_told_and_no_half_file_is_left(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    server = site.add()
    assert not install_agent(server.pk)
    row = site.server()
    assert (row.state, row.step) == (LinkState.NO_SPACE, Step.INSTALL)
    assert "are needed" in row.reason
    # A disk that fills while the file comes.
    padded = package.Package(b"x" * (600 << 10), "0" * 64)
    monkeypatch.setattr(install, "agent_package", lambda: padded)
    monkeypatch.setattr(remote, "SPARE_BYTES", -(1 << 20))
    Server.objects.update(due_at=row.since)
    assert not install_agent(server.pk)
    assert site.server().state == LinkState.NO_SPACE
    assert site.sshd.files() == []
    monkeypatch.undo()
    site.sshd.shell(f"mount -o remount,size=64m {site.sshd.home}")
    site.begin()
    site.until_ready()


@pytest.mark.parametrize("sshd", [{"home_options": "size=16m"}], indirect=True)
def test_an_agent_that_runs_is_linked_again_however_full_its_disk_is(site: Site) -> None:
    server = site.add()
    site.begin()
    site.until_ready()
    flag = f"{site.sshd.home}/end"
    job = site.submit(f'echo begun; while [ ! -e "{flag}" ]; do sleep 0.1; done; exit 3')
    site.until_job(job, JobState.ACTIVE)
    site.until_logged(job, b"begun\n")
    (agent,) = site.sshd.agents()
    site.sshd.shell(f"touch {flag}.later; cat /dev/zero > {site.sshd.home}/fill || true")
    site.sshd.cut()
    since = site.server().since
    until(lambda: site.server().since > since, "the link is lost")
    site.until_state(LinkState.UP)
    # What has to be installed finds no room: an agent of another version, which these options make of it.
    site.change(options="--gpus=emulated:A100:4 --job-user=nobody")
    assert site.until_state(LinkState.NO_SPACE).step == Step.INSTALL
    assert site.sshd.agents() == [agent]
    site.change()
    site.until_state(LinkState.UP)
    site.sshd.shell(f"mv {flag}.later {flag}")
    site.until_job(job, JobState.FAILED)
    assert Attempt.objects.get(job=job).exit_code == 3
    assert NodeLease.objects.get(pk=server.pk).epoch == 1


def test_a_folder_that_cannot_be_written_is_told(site: Site) -> None:
    site.sshd.shell(f"touch {site.sshd.home}/file")
    server = site.add(folder=f"{site.sshd.home}/file/agent")
    assert not install_agent(server.pk)
    row = site.server()
    assert row.state == LinkState.NOT_WRITABLE
    assert f"{site.sshd.home}/file" in row.reason


def test_a_file_that_arrives_otherwise_than_it_was_sent_is_not_used(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = site.add()
    sent = package.agent_package()
    monkeypatch.setattr(install, "agent_package", lambda: package.Package(sent.data[:-1] + b"?", sent.sha256))
    assert not install_agent(server.pk)
    row = site.server()
    assert row.state == LinkState.UPLOAD_FAILED
    assert "SHA-256" in row.reason
    assert site.sshd.files() == []


def test_an_agent_that_does_not_start_is_told_with_its_last_words(site: Site) -> None:
    server = site.add(options="--gpus=nvml")
    assert not install_agent(server.pk)
    row = site.server()
    assert row.state == LinkState.START_FAILED
    assert "cannot start" in row.reason
    assert row.tries == 1


UNREACHABLE = {
    "an unknown name": ({"host": "gpu7.invalid"}, LinkState.NAME_UNRESOLVED),
    "a port where nothing listens": ({"port": 1}, LinkState.UNREACHABLE),
}


@pytest.mark.parametrize("case", UNREACHABLE)
def test_what_cannot_be_reached_is_told(site: Site, case: str) -> None:
    changes, state = UNREACHABLE[case]
    server = site.add(**changes)
    assert not install_agent(server.pk)
    assert site.server().state == state
    assert site.server().reason


def test_something_that_speaks_no_ssh_is_told(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:

        def babble() -> None:
            with contextlib.suppress(OSError):
                while True:
                    caller, _ = door.accept()
                    caller.sendall(b"220 mail.example.org ESMTP\r\n" * 200)
                    caller.close()

        threading.Thread(target=babble, daemon=True).start()
        server = site.add(port=door.getsockname()[1])
        assert not install_agent(server.pk)
        assert site.server().state == LinkState.UNREACHABLE
        door.close()


def test_a_server_that_boots_again_gets_its_agent_back_and_what_ran_is_over(site: Site) -> None:
    site.add()
    site.begin()
    site.until_ready()
    job = site.submit("echo begun; sleep 1000")
    site.until_job(job, JobState.ACTIVE)
    site.until_logged(job, b"begun\n")
    boot = Node.objects.get().boot_id
    site.sshd.reboot()
    until(lambda: Node.objects.get().boot_id != boot, "the agent registers under the new boot")
    site.until_ready()
    attempt = Attempt.objects.filter(job=job).order_by("number").first()
    assert attempt is not None
    until(lambda: Attempt.objects.get(pk=attempt.pk).reason == "node_rebooted", "the attempt is lost with the boot")
    assert len(site.sshd.agents()) == 1


def test_an_agent_that_dies_is_started_again_and_adopts_its_jobs(site: Site) -> None:
    site.add()
    site.begin()
    site.until_ready()
    flag = f"{site.sshd.home}/end"
    job = site.submit(COUNTING.format(flag=flag))
    site.until_job(job, JobState.ACTIVE)
    site.until_logged(job, b"line 5\n")
    (agent,) = site.sshd.agents()
    os.kill(agent, signal.SIGKILL)
    until(lambda: NodeLease.objects.get().epoch == 2, "another agent registers")
    site.sshd.shell(f"touch {flag}")
    assert site.until_job(job, JobState.SUCCEEDED, JobState.FAILED).state == JobState.SUCCEEDED
    assert Attempt.objects.filter(job=job).count() == 1
    until(lambda: LogFile.objects.filter(complete=True).exists(), "the log is complete")
    assert any("not_running" in str(event.data) for event in Event.objects.filter(kind="node.link"))


@pytest.mark.parametrize("how", ["mv {folder} {folder}.taken", "rm -rf {folder}/state"])
def test_a_job_whose_agent_lost_its_folder_starts_again_when_it_has_ended_and_not_before(site: Site, how: str) -> None:
    Pool.objects.update(stop_after_s=12, unreachable_after_s=10, fence_margin_s=1)
    site.add()
    site.begin()
    site.until_ready()
    # A duration that no other process sleeps for: by it the test finds what the job has started.
    seconds = f"{10**8 + random.randrange(10**8)}"
    data = {"command": f"sleep {seconds} & exec sleep {seconds}", "checkpoint": {"grace": "1s"}}
    job = submit_job(user=site.user, data={**data, "gpus": 1, "vc": site.vc.name})[0]
    site.until_job(job, JobState.ACTIVE)
    until(lambda: len(sleepers(seconds)) == 2, "the job runs")
    first = sleepers(seconds)
    site.sshd.shell(how.format(folder=site.sshd.agent_folder))
    site.sshd.cut()
    until(lambda: NodeLease.objects.get().epoch == 2, "another agent registers")
    site.until_state(LinkState.UP)

    def is_tried_again() -> bool:
        assert len(sleepers(seconds)) <= 2, "it lives twice"
        reap(Pool.objects.get())
        Job.objects.update(avoid_nodes=[])  # there is no other node
        run_cycle(site.pool.pk, trigger="command")
        return Attempt.objects.filter(job=job, number=2, state="running").exists()

    until(is_tried_again, "it is tried again", every_s=0.5)
    assert Attempt.objects.get(job=job, number=1).reason == "node_lost"
    until(lambda: len(sleepers(seconds)) == 2, "it runs again")
    assert not sleepers(seconds) & first


def test_an_older_agent_is_replaced_and_its_jobs_are_adopted(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    server = site.add()
    site.begin()
    site.until_ready()
    (older,) = site.sshd.agents()
    flag = f"{site.sshd.home}/end"
    job = site.submit(COUNTING.format(flag=flag))
    site.until_job(job, JobState.ACTIVE)
    site.until_logged(job, b"line 5\n")
    site.end()
    # The platform comes back with another agent: the same program with a comment behind its archive.
    now = package.agent_package()
    data = now.data[:-2] + b"\x05\x00newer"
    newer = package.Package(data, hashlib.sha256(data).hexdigest())
    for module in (install, link):
        monkeypatch.setattr(module, "agent_package", lambda: newer)
    site.begin()
    until(lambda: NodeLease.objects.get().epoch == 2, "the newer agent registers")
    site.until_ready()
    (running,) = site.sshd.agents()
    assert running != older
    assert newer.name in Path(f"/proc/{running}/cmdline").read_bytes().decode()
    assert {now.name, newer.name} <= set(site.sshd.files())
    site.sshd.shell(f"touch {flag}")
    assert site.until_job(job, JobState.SUCCEEDED, JobState.FAILED).state == JobState.SUCCEEDED
    assert Attempt.objects.filter(job=job).count() == 1
    site.change(options="--gpus=emulated:A100:2 --job-user=nobody")
    until(lambda: Gpu.objects.filter(present=True).count() == 2, "the agent runs with the new options")
    site.until_state(LinkState.UP)
    drain_and_remove(site, server)


def drain_and_remove(site: Site, server: Server) -> None:
    until(lambda: not Allocation.objects.filter(released_at__isnull=True).exists(), "nothing is held")
    remove_server(server=server, actor="tests")
    until(lambda: not site.sshd.connections(), "the link is ended")


def test_a_login_that_talks_does_not_disturb(site: Site) -> None:
    site.sshd.chatter("echo Welcome to gpu7; echo 'Have a nice day' >&2")
    site.add()
    site.begin()
    site.until_ready()


def test_a_fingerprint_is_looked_for_among_all_kinds_of_keys(site: Site, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    other = (tmp_path / "other.pub").read_text()
    server = site.add(host_key=fingerprint_of(other))
    assert not install_agent(server.pk)
    row = site.server()
    assert row.state == LinkState.HOST_KEY_CHANGED
    assert fingerprint_of(site.sshd.host_key) in row.reason
    # A key of a kind that the server does not have.
    kind = open_private_key(
        ec.generate_private_key(ec.SECP256R1())
        .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
        .decode()
    )
    site.change(host_key=public_line(kind))
    assert not install_agent(server.pk)
    assert site.server().state == LinkState.HOST_KEY_CHANGED
    assert "no key of the kind ecdsa-sha2-nistp256" in site.server().reason
    second = site.sshd.add_host_key(kind)
    site.change(host_key=fingerprint_of(second))
    assert install_agent(server.pk), site.server().reason


HOSTILE = {
    "frames that are none": ("out.write(MAGIC + b'\\xff' * 1000); out.flush(); time.sleep(100)", LinkState.BROKEN),
    "a frame that is too large": (
        "out.write(MAGIC + struct.pack('!BIII', 2, 1, 10, 1 << 31)); out.flush(); time.sleep(100)",
        LinkState.BROKEN,
    ),
    "an answer without a request": (
        "out.write(MAGIC + struct.pack('!BIII', 2, 1, 0, 0)); out.flush(); time.sleep(100)",
        LinkState.BROKEN,
    ),
    "noise without end": ("\nwhile True: out.write(b'x' * 65536)", LinkState.LOST),
    "an end at once": ("sys.exit('no more')", LinkState.LOST),
}


def test_a_server_that_sends_nonsense_is_told_and_does_no_harm(site: Site) -> None:
    site.add()
    site.begin()
    site.until_ready()
    for program, state in HOSTILE.values():
        source = f"import struct, sys, time; MAGIC = {MAGIC!r}; out = sys.stdout.buffer; {program}\n"
        (site.sshd.folder / "hostile.py").write_text(source)
        site.sshd.shell(f"cp {site.sshd.folder}/hostile.py {site.sshd.agent_folder}/{package.agent_package().name}")
        site.sshd.cut()
        server = site.until_state(state)
        assert server.reason
        # The look finds that the agent's file has changed, and uploads it again once the agent has to be started.
        (agent,) = site.sshd.agents()
        os.kill(agent, signal.SIGKILL)
        site.until_state(LinkState.UP)


def test_code_comes_through_the_link(site: Site) -> None:
    noise = os.urandom(3 << 20).hex().encode()
    code = archive_of(("noise", noise))
    site.add()
    site.begin()
    site.until_ready()
    with http_client(site.url, site.user) as http:
        digest = hashlib.sha256(code).hexdigest()
        answer = http.post("/api/v1/uploads", content=code, headers={"X-Content-SHA256": digest})
        assert answer.status_code in {200, 201}, answer.text
    job = submit_job(
        user=site.user, data={"command": "md5sum < noise", "gpus": 1, "vc": site.vc.name, "code": {"upload": digest}}
    )[0]
    site.until_job(job, JobState.SUCCEEDED)
    site.until_logged(job, hashlib.md5(noise, usedforsecurity=False).hexdigest().encode())


def test_a_folder_may_be_below_the_users_home(site: Site) -> None:
    site.add(folder=".muster-agent", options="--gpus=emulated:A100:4")
    site.begin()
    site.until_ready()
    record = json.loads(site.sshd.shell(f"cat {site.sshd.home}/.muster-agent/state/daemon.json"))
    site.end()
    os.kill(record["pid"], signal.SIGTERM)
    until(lambda: not Path(f"/proc/{record['pid']}").exists(), "the agent has ended")
