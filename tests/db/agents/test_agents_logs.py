"""The agents' logs and code, spoken to the real web process over HTTP."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zlib

import pytest

from muster.jobs.models import Allocation, Attempt
from muster.jobs.services import clone_job
from muster.jobs.submit.uploads import new_draft, store_code
from muster.logs import store
from muster.logs.models import LogFile
from muster.logs.store import read
from nodeagent.protocol.calls import bearer, code_path
from nodeagent.protocol.messages import MAX_CHUNK_BYTES
from tests.db.agent_calls import Agent, agent_of
from tests.db.stories import (
    World,
    cycle,
    place,
    ranks,
    start,
)
from tests.factories import make_node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]


class TestLog:
    @pytest.fixture
    def allocation(self, world: World) -> Allocation:
        return ranks(start(world))[0]

    @pytest.fixture
    def nothing_is_digested(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def digest(_allocation: Allocation, size: int) -> str:
            raise AssertionError(f"the digest of {size} bytes was asked for")

        monkeypatch.setattr(store, "_digest", digest)

    def test_chunks_are_stored_in_order_and_a_duplicate_is_fine(self, agent: Agent, allocation: Allocation) -> None:
        for offset, body in ((0, b"hello\n"), (6, b"world\n"), (0, b"hello\n"), (6, b"world\n")):
            answer = agent.log(allocation, offset, body)
            assert answer.status_code == 202
        assert answer.json() == {"size": 12}
        assert read(allocation, start=0, end=12) == b"hello\nworld\n"

    def test_a_rewrite_is_refused(self, agent: Agent, allocation: Allocation) -> None:
        agent.log(allocation, 0, b"hello\n")
        assert agent.log(allocation, 0, b"jello\n").status_code == 409
        assert read(allocation, start=0, end=6) == b"hello\n"

    def test_a_gap_is_answered_with_the_size_that_is_stored(self, agent: Agent, allocation: Allocation) -> None:
        agent.log(allocation, 0, b"hello\n")
        answer = agent.log(allocation, 9, b"world\n")
        assert (answer.status_code, answer.json()) == (416, {"size": 6})

    def test_bytes_that_were_given_up_are_a_hole_in_the_log(self, agent: Agent, allocation: Allocation) -> None:
        agent.log(allocation, 0, b"hello\n")
        answer = agent.log(allocation, 100, b"world\n", X_Muster_Dropped="6-99")
        assert (answer.status_code, answer.json()) == (202, {"size": 106})
        assert LogFile.objects.get().holes == [[6, 100]]

    @pytest.mark.parametrize("dropped", ["8-99", "6-98", "9", "99-6", "6-99-7"])
    def test_a_hole_that_does_not_fit_is_refused(self, agent: Agent, allocation: Allocation, dropped: str) -> None:
        agent.log(allocation, 0, b"hello\n")
        assert agent.log(allocation, 100, b"world\n", X_Muster_Dropped=dropped).status_code in {416, 422}
        assert LogFile.objects.get().size == 6

    def test_a_chunk_that_is_too_large_is_refused(self, agent: Agent, allocation: Allocation) -> None:
        assert agent.log(allocation, 0, b"x" * (MAX_CHUNK_BYTES + 1)).status_code == 413
        assert agent.log(allocation, 0, b"x" * MAX_CHUNK_BYTES).status_code == 202

    def test_a_chunk_that_says_that_it_is_packed_is_stored_as_it_came(
        self, agent: Agent, allocation: Allocation
    ) -> None:
        packed = gzip.compress(bytes(2 * MAX_CHUNK_BYTES))
        assert agent.log(allocation, 0, packed, Content_Encoding="gzip").json() == {"size": len(packed)}
        assert read(allocation, start=0, end=len(packed)) == packed

    def test_a_chunk_that_changed_on_the_way_is_refused(self, agent: Agent, allocation: Allocation) -> None:
        wrong = f"{zlib.crc32(b'other'):08x}"
        assert agent.log(allocation, 0, b"hello", X_Muster_Crc32=wrong).status_code == 422
        assert agent.log(allocation, 0, b"hello", Content_Range="bytes 0-3/*").status_code == 422
        assert agent.log(allocation, 0, b"hello", Content_Range=None).status_code == 422
        assert not LogFile.objects.exists()

    def test_an_old_fence_is_refused(self, agent: Agent, allocation: Allocation) -> None:
        fence = str(allocation.attempt_id - 1)
        assert agent.log(allocation, 0, b"hello", X_Muster_Fence=fence).status_code == 409
        assert agent.log(allocation, 0, b"hello", X_Muster_Fence="x").status_code == 422

    def test_a_log_may_come_after_the_end(self, agent: Agent, allocation: Allocation) -> None:
        agent.end(allocation)
        assert agent.log(allocation, 0, b"late\n").status_code == 202

    def test_a_log_with_the_right_digest_is_complete(self, agent: Agent, allocation: Allocation) -> None:
        agent.log(allocation, 0, b"hello\n")
        assert agent.finish(allocation, 6, hashlib.sha256(b"hello\n").hexdigest()).status == 200
        assert LogFile.objects.get().complete is True

    def test_an_empty_log_can_be_complete(self, agent: Agent, allocation: Allocation) -> None:
        agent.finish(allocation, 0, hashlib.sha256(b"").hexdigest())
        assert LogFile.objects.get().complete is True

    @pytest.mark.parametrize(
        ("size", "body", "holes"),
        [
            pytest.param(6, b"jello\n", (), id="another digest"),
            pytest.param(9, b"hello\nyou", (), id="bytes that never came"),
            pytest.param(9, b"hello\n", ((6, 8),), id="a hole at the end"),
        ],
    )
    def test_a_log_that_differs_says_so(
        self, agent: Agent, allocation: Allocation, size: int, body: bytes, holes: tuple[tuple[int, int], ...]
    ) -> None:
        agent.log(allocation, 0, b"hello\n")
        assert agent.finish(allocation, size, hashlib.sha256(body).hexdigest(), holes=holes).status == 200
        log = LogFile.objects.get()
        assert (log.complete, log.size) == (False, size)
        assert log.holes == ([[6, 9]] if size == 9 else [])

    @pytest.mark.parametrize(
        ("dropped_to", "size", "holes"),
        [
            pytest.param(0, 2**62, (), id="a size"),
            pytest.param(0, 2**62, ((6, 2**61), (2**61 + 2, 2**62 - 1)), id="a size and holes"),
            pytest.param(0, 6, ((0, 5),), id="a hole over all that came"),
            pytest.param(10**17, 10**17 + 6, (), id="a hole that came with a chunk"),
        ],
    )
    @pytest.mark.usefixtures("nothing_is_digested")
    def test_a_log_whose_end_is_far_off_is_closed_without_a_look_at_what_is_not_there(
        self, agent: Agent, allocation: Allocation, dropped_to: int, size: int, holes: tuple[tuple[int, int], ...]
    ) -> None:
        agent.log(allocation, 0, b"hello\n")
        if dropped_to:
            answer = agent.log(allocation, dropped_to, b"world\n", X_Muster_Dropped=f"6-{dropped_to - 1}")
            assert answer.status_code == 202
        assert agent.finish(allocation, size, "0" * 64, holes=holes).status == 200
        log = LogFile.objects.get()
        assert (log.complete, log.size) == (False, size)
        assert read(allocation, start=0, end=6) == b"hello\n"

    def test_a_second_finish_changes_nothing(self, agent: Agent, allocation: Allocation) -> None:
        agent.log(allocation, 0, b"hello\n")
        agent.finish(allocation, 6, hashlib.sha256(b"hello\n").hexdigest())
        assert agent.finish(allocation, 6, "0" * 64).status == 200
        assert LogFile.objects.get().complete is True

    def test_a_finished_log_grows_no_more(self, agent: Agent, allocation: Allocation) -> None:
        agent.log(allocation, 0, b"hello\n")
        agent.finish(allocation, 6, hashlib.sha256(b"hello\n").hexdigest())
        assert agent.log(allocation, 0, b"hello\n").status_code == 202
        assert agent.log(allocation, 6, b"more\n").status_code == 409
        assert LogFile.objects.get().size == 6


class TestCode:
    @pytest.fixture
    def sha256(self, world: World) -> str:
        draft = new_draft()
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
            member = tarfile.TarInfo("train.py")
            member.size = 5
            archive.addfile(member, io.BytesIO(b"print"))
        draft.write_bytes(buffer.getvalue())
        name = hashlib.sha256(buffer.getvalue()).hexdigest()
        store_code(user=world.user, draft=draft, sha256=name)
        return name

    def test_the_code_of_a_job_on_this_node_is_served(self, agent: Agent, world: World, sha256: str) -> None:
        (allocation,) = ranks(place(world, code={"upload": sha256}))
        code = agent.launch(allocation).code
        answer = agent.http.get(code_path(sha256), headers={"Authorization": bearer(agent.secret)})
        assert (answer.status_code, hashlib.sha256(answer.content).hexdigest()) == (200, sha256)
        assert code is not None
        assert code.size == len(answer.content)

    def test_the_code_of_other_nodes_jobs_is_not_there(
        self, agent: Agent, server: str, world: World, sha256: str
    ) -> None:
        place(world, code={"upload": sha256})
        with (other := agent_of(server, make_node(world.pool))).http:
            answer = other.http.get(code_path(sha256), headers={"Authorization": bearer(other.secret)})
        assert answer.status_code == 404

    def test_the_code_is_not_there_once_the_job_has_ended(self, agent: Agent, world: World, sha256: str) -> None:
        (allocation,) = ranks(start(world, code={"upload": sha256}))
        headers = {"Authorization": bearer(agent.secret)}
        assert agent.http.get(code_path(sha256), headers=headers).status_code == 200
        agent.end(allocation)
        assert agent.http.get(code_path(sha256), headers=headers).status_code == 404
        clone_job(user=world.user, job=allocation.attempt.job)
        cycle(world)
        assert Attempt.objects.count() == 2
        assert agent.http.get(code_path(sha256), headers=headers).status_code == 200
