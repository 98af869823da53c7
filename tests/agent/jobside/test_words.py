"""The programs of a batch script that ask the platform, against a server that notes what they send."""

from __future__ import annotations

import io
import json
import ssl
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from nodeagent.jobside.slurm import calls, submit, words
from nodeagent.jobside.slurm.hostlists import expand, fold

SCRIPT = "#!/bin/sh\n#SBATCH --time=5\ntrue\n"


class Platform:
    """A server of ready answers: (status, document), or None to break off after the request was read."""

    def __init__(self) -> None:
        self.requests: list[SimpleNamespace] = []
        self.answers: list[tuple[int, Any] | None] = []
        platform = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                platform.requests.append(
                    SimpleNamespace(path=self.path, headers=dict(self.headers), body=json.loads(text or "null"))
                )
                answer = platform.answers.pop(0)
                if answer is None:
                    return
                data = json.dumps(answer[1]).encode()
                self.send_response(answer[0])
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST  # noqa: N815 - the name that the server looks for

            def log_message(self, *_: Any) -> None: ...

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/below"

    def encrypt(self, folder: Path) -> Path:
        """Speak TLS from now on, and return the file with the certificate of its authority."""
        key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
        now = datetime.now(UTC)
        signed = (
            x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=True)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        certificate, key_file = folder / "ca.pem", folder / "key.pem"
        pem = serialization.Encoding.PEM
        certificate.write_bytes(signed.public_bytes(pem))
        plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        key_file.write_bytes(key.private_bytes(pem, *plain))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key_file)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        return certificate

    def say(self, stdout: str = "", stderr: str = "", exit_code: int = 0, **more: Any) -> None:
        self.answers.append((200, {"stdout": stdout, "stderr": stderr, "exit_code": exit_code, **more}))


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Platform]:
    found = Platform()
    thread = Thread(target=found.server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("MUSTER_URL", found.url)
    monkeypatch.setenv("MUSTER_JOB_TOKEN", "mj-7-abc")
    monkeypatch.setenv("MUSTER_COMMANDS", "/job/.muster-modules/muster-commands/bin")
    monkeypatch.setattr(calls, "_FIRST_WAIT_S", 0.001)
    monkeypatch.setattr(submit, "_LOOK_EVERY_S", 0.001)
    monkeypatch.chdir(tmp_path)
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


class TestWords:
    def test_a_command_sends_its_words_and_prints_the_answer(
        self, platform: Platform, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        monkeypatch.setenv("SQUEUE_FORMAT", "%i")
        monkeypatch.setenv("SINFO_FORMAT", "\udcff")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        platform.say("JOBID\n7\n", "squeue: a warning\n", 3)
        assert words.main(["squeue", "-u", "ada"]) == 3
        assert capsys.readouterr() == ("JOBID\n7\n", "squeue: a warning\n")
        (asked,) = platform.requests
        assert asked.path == "/below/api/v1/slurm/squeue"
        assert asked.headers["Authorization"] == "Bearer mj-7-abc"
        assert asked.body["arguments"] == ["-u", "ada"]
        assert asked.body["folder"] == str(tmp_path)
        assert asked.body["environment"].items() >= {("SQUEUE_FORMAT", "%i")}
        assert not {"AWS_SECRET_ACCESS_KEY", "SINFO_FORMAT", "MUSTER_JOB_TOKEN"} & asked.body["environment"].keys()

    def test_standard_input_is_left_to_the_loop_around_it(
        self, platform: Platform, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
        platform.say()
        words.main(["scancel", "7"])
        platform.say()
        words.main(["scancel", "-i", "7"])
        assert [one.body["input"] for one in platform.requests] == ["", "y\n"]

    @pytest.mark.parametrize(
        ("command", "said"),
        [
            ("squeue", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"),
            ("sinfo", "slurm_load_partitions: Unable to contact slurm controller (connect failure)\n"),
        ],
    )
    def test_without_the_platform_it_says_what_slurm_says(
        self, command: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.delenv("MUSTER_URL", raising=False)
        assert words.main([command]) == 1
        assert capsys.readouterr().err.startswith(said)

    def test_it_waits_for_a_platform_that_is_away_and_shows_its_refusal(
        self, platform: Platform, capsys: pytest.CaptureFixture[str]
    ) -> None:
        platform.answers += [None, (503, {"detail": "later"}), (401, {"detail": "the token's job has ended"})]
        assert words.main(["sacct"]) == 1
        assert capsys.readouterr().err == "sacct: error: the token's job has ended\n"

    def test_it_trusts_the_authority_of_the_agent_and_no_other(
        self,
        platform: Platform,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        tmp_path: Path,
    ) -> None:
        certificate = platform.encrypt(tmp_path)
        monkeypatch.setenv("MUSTER_URL", platform.url.replace("http:", "https:"))
        monkeypatch.setenv("MUSTER_CA_FILE", str(certificate))
        platform.say("7\n")
        assert words.main(["squeue", "-h"]) == 0
        monkeypatch.delenv("MUSTER_CA_FILE")
        monkeypatch.setattr(calls, "PATIENCE_S", 0.0)
        assert words.main(["squeue", "-h"]) == 1
        assert "CERTIFICATE_VERIFY_FAILED" in capsys.readouterr().err
        assert len(platform.requests) == 1

    # As Slurm 22.05.8 answers.
    @pytest.mark.parametrize(
        ("arguments", "printed"),
        [
            (["show", "hostnames", "n[1-3,05],x"], "n1\nn2\nn3\nn05\nx\n"),
            (["sho", "HOSTNAMES", "n[1-2]x[1-2]"], "n1x1\nn1x2\nn2x1\nn2x2\n"),
            (["-o", "show", "hostn"], "b1\nb2\n"),
            (["show", "hostlist", "n3,n1,n2,n1"], "n[3,1-2,1]\n"),
            (["show", "hostlist", "n01,n02,n10,n011"], "n[01-02,10,011]\n"),
            (["show", "hostlist", "n1x1,n1x2,n2x1,m"], "n1x[1-2],n2x1,m\n"),
            (["show", "hostlistsorted", "n3,n1,n2,n1"], "n[1,1-3]\n"),
        ],
    )
    def test_lists_of_hosts_need_no_platform(
        self,
        arguments: list[str],
        printed: str,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.delenv("MUSTER_URL", raising=False)
        monkeypatch.setenv("SLURM_JOB_NODELIST", "b[1-2]")
        assert words.main(["scontrol", *arguments]) == 0
        assert capsys.readouterr().out == printed

    @pytest.mark.parametrize("text", ["n[1-", "n[3-1]", "n]", "n[a]", "n[1-999999]", "n[1-1000]x[1-1000]"])
    def test_a_wrong_list_is_named(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"."):
            expand(text)

    def test_folding_and_expanding_a_list_gives_it_again(self) -> None:
        for names in (["n9", "n10", "n11"], ["n09", "n10"], ["n99", "n100", "n099"], ["a", "a", "b7c"], []):
            assert expand(fold(names)) == names


class TestSbatch:
    def test_it_sends_the_script_its_words_and_the_environment(
        self, platform: Platform, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        (tmp_path / "train.sh").write_text(SCRIPT)
        monkeypatch.setenv("PATH", "/job/.muster-modules/muster-commands/bin:/usr/bin")
        monkeypatch.setenv("PYTHONPATH", "/job/.muster-modules")
        monkeypatch.setenv("SLURM_JOB_ID", "7")
        platform.say("Submitted batch job 8\n", job=8, array=None)
        assert submit.main(["sbatch", "-N2", "--time", "5", "./train.sh", "--lr", "0.1"]) == 0
        assert capsys.readouterr().out == "Submitted batch job 8\n"
        (asked,) = platform.requests
        assert asked.path == "/below/api/v1/slurm/sbatch"
        assert asked.body["arguments"] == ["-N2", "--time", "5"]
        assert asked.body["script"] == SCRIPT
        assert (asked.body["script_name"], asked.body["script_arguments"]) == ("train.sh", ["--lr", "0.1"])
        environment = asked.body["environment"]
        assert (environment["PATH"], environment["SLURM_JOB_ID"]) == ("/usr/bin", "7")
        assert not [name for name in environment if name.startswith("MUSTER_") or name == "PYTHONPATH"]

    def test_a_lost_answer_submits_nothing_twice(self, platform: Platform) -> None:
        platform.answers += [None, (502, {}), (429, {"detail": "too many"})]
        platform.say("Submitted batch job 8\n", job=8, array=None)
        assert submit.main(["sbatch", "--wrap=true"]) == 0
        keys = {one.headers["Idempotency-Key"] for one in platform.requests}
        assert (len(platform.requests), len(keys)) == (4, 1)

    def test_the_script_comes_from_standard_input(self, platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SCRIPT.encode())))
        platform.say("8\n", job=8, array=None)
        assert submit.main(["sbatch", "--parsable"]) == 0
        assert (platform.requests[0].body["script"], platform.requests[0].body["script_name"]) == (SCRIPT, "sbatch")

    def test_a_missing_script_is_named(self, platform: Platform, capsys: pytest.CaptureFixture[str]) -> None:
        assert submit.main(["sbatch", "nofile.sh"]) == 1
        assert capsys.readouterr().err == "sbatch: error: Unable to open file nofile.sh\n"
        assert platform.requests == []

    @pytest.mark.parametrize(
        ("end", "code"),
        [
            ({"state": "succeeded", "exit_code": 0, "reason": "completed"}, 0),
            ({"state": "failed", "exit_code": 7, "reason": "exit_nonzero"}, 7),
            ({"state": "failed", "exit_code": None, "reason": "killed_by_signal"}, 1),
            ({"state": "failed", "exit_code": 0, "reason": "time_limit"}, 1),
            ({"state": "cancelled", "exit_code": 143, "reason": "cancelled"}, 1),
            ({"state": "cancelled", "exit_code": None, "reason": "cancelled", "started_at": None}, 0),
        ],
    )
    def test_with_wait_it_ends_as_the_job_does(self, end: dict[str, Any], code: int, platform: Platform) -> None:
        job = {"started_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:00:00Z", **end}
        platform.say("Submitted batch job 8\n", job=8, array=None)
        platform.answers += [(200, {**job, "ended_at": None}), (200, job)]
        assert submit.main(["sbatch", "-W", "--wrap=true"]) == code
        assert [one.path for one in platform.requests[1:]] == ["/below/api/v1/jobs/8"] * 2

    def test_with_wait_an_array_ends_with_its_highest_exit_code(self, platform: Platform) -> None:
        platform.say("Submitted batch job 8\n", job=None, array=8)
        platform.answers.append((200, {"ended_at": "2026-01-01T00:00:00Z"}))
        member = {"state": "failed", "why": "exit_nonzero", "started_at": "2026-01-01T00:00:00Z"}
        platform.answers.append((200, {"results": [{**member, "exit_code": 9}], "next": "c"}))
        platform.answers.append((200, {"results": [{**member, "exit_code": 4}], "next": None}))
        assert submit.main(["sbatch", "--wait", "--wrap=false", "--array=0-1"]) == 9
        assert platform.requests[-1].path == "/below/api/v1/arrays/8/members?limit=200&cursor=c"
