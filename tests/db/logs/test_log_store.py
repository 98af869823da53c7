"""The log store: what a rank wrote is what is read, or the log states its holes."""

from __future__ import annotations

import hashlib
import random
import threading
from itertools import pairwise
from typing import Any
from zlib import crc32

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.common.errors import Conflict, Invalid
from muster.fleet.models import Node, Pool
from muster.jobs.models import Allocation, Attempt
from muster.logs import store
from muster.logs.models import LogChunk, LogFile
from muster.logs.selectors import MAX_TURNS, extract, is_over, log_file, pieces, rank_of
from muster.logs.store import Chunk, Gap, LogEnd, append, finish, merged, read_to_hole
from tests.db.stories import WAIT_S, Other, World, end, make_world, now_of, ranks, start
from tests.profiles import examples

pytestmark = pytest.mark.django_db

SEGMENT = 16
WRITTEN = random.Random(7).randbytes(4096)


@pytest.fixture
def world() -> World:
    world = make_world(nodes=2)
    Node.objects.update(cpus=100_000, memory_mib=1 << 40)
    return world


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_SEGMENT_BYTES", SEGMENT)
    monkeypatch.setattr(store, "MIN_SEGMENT_BYTES", 1)


def rank_0(world: World) -> Allocation:
    return ranks(start(world, gpus=0))[0]


def chunk(begin: int, stop: int, *, dropped: tuple[int, int] | None = None) -> Chunk:
    """These bytes of what the rank wrote."""
    return Chunk(begin, WRITTEN[begin:stop], crc32(WRITTEN[begin:stop]), dropped)


def stored(allocation: Allocation) -> list[tuple[int, bytes]]:
    """The runs of bytes between the holes, read to the end as a reader does."""
    found, offset = [], 0
    log = log_file(rank_of(allocation.attempt, allocation.rank))
    while True:
        begin, body = read_to_hole(allocation, log, offset=offset, limit=50)
        if not body:
            return found
        found.append((begin, body))
        offset = begin + len(body)


def on_disk(allocation: Allocation) -> int:
    """The bytes of the rank's files."""
    return sum(path.stat().st_size for path in store._folder(allocation).glob("*"))


def as_written(runs: list[tuple[int, bytes]], size: int, holes: list[tuple[int, int]]) -> None:
    """Every byte outside the holes is there once, in its place, and none inside them."""
    seen: set[int] = set()
    for begin, body in runs:
        assert body == WRITTEN[begin : begin + len(body)]
        places = set(range(begin, begin + len(body)))
        assert not places & seen
        seen |= places
    given_up = {place for start, stop in holes for place in range(start, stop)}
    assert seen == set(range(size)) - given_up


def followed(attempt: Attempt, *, cursor: int = 0, rank: int | None = None) -> list[tuple[int, int, bytes]]:
    """A follower's readings from the cursor on, in handfuls."""
    found: list[tuple[int, int, bytes]] = []
    while some := pieces(attempt, cursor=cursor, rank=rank, largest=20):
        found += [(piece.rank, piece.offset, piece.body) for piece in some]
        cursor = some[-1].cursor
    return found


sends = st.lists(
    st.tuples(st.sampled_from(["next", "next", "next", "again", "overlap", "ahead", "dropped"]), st.integers(1, 40)),
    min_size=1,
    max_size=25,
)


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sends=sends, seed=st.integers(0, 1000))
def test_whatever_way_the_chunks_come_each_byte_is_stored_once_in_its_place(
    world: World, sends: list[tuple[str, int]], seed: int
) -> None:
    allocation = rank_0(world)
    size, holes, choose = 0, [], random.Random(seed)
    for how, length in sends:
        back = choose.randint(0, min(size, 50))
        match how:
            case "next":
                size = append(allocation, chunk(size, size + length))
            case "again" if back:
                assert append(allocation, chunk(size - back, size - back + min(length, back))) == size
            case "overlap" if back:
                size = append(allocation, chunk(size - back, size + length))
            case "ahead":
                with pytest.raises(Gap) as gap:
                    append(allocation, chunk(size + length, size + length + 5))
                assert gap.value.size == size
            case "dropped":
                # The hole may begin before what is stored: what came is kept.
                begin = size + length
                new = append(allocation, chunk(begin, begin + 3, dropped=(size - back, begin)))
                holes.append((size, begin))
                size = new
    assert (log := LogFile.objects.filter(pk=allocation.pk).first()) is None or log.size == size
    assert [tuple(hole) for hole in log.holes] == merged(holes) if log else not holes
    as_written(stored(allocation), size, holes)
    as_written([(offset, body) for _, offset, body in followed(allocation.attempt)], size, holes)
    cursor = choose.randint(0, size)
    behind = b"".join(body for _, _, body in followed(allocation.attempt, cursor=cursor, rank=0))
    given_up = {place for begin, stop in holes for place in range(begin, stop)}
    assert behind == bytes(WRITTEN[place] for place in range(cursor, size) if place not in given_up)


def test_of_a_chunk_that_overlaps_what_is_stored_the_new_bytes_are_kept(world: World) -> None:
    allocation = rank_0(world)
    append(allocation, chunk(0, 20))
    assert append(allocation, chunk(10, 40)) == 40
    as_written(stored(allocation), 40, [])


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turns=st.lists(st.tuples(st.integers(0, 1), st.integers(1, 30)), min_size=1, max_size=20), data=st.data())
def test_all_ranks_have_one_order_and_it_can_be_taken_up_anywhere(
    world: World, turns: list[tuple[int, int]], data: Any
) -> None:
    attempt = start(world, nodes=2, gpus=0)
    both, sizes, told = ranks(attempt), [0, 0], b""
    for rank, length in turns:
        append(both[rank], chunk(sizes[rank], sizes[rank] + length))
        told += WRITTEN[sizes[rank] : sizes[rank] + length]
        sizes[rank] += length
    assert b"".join(body for _, _, body in followed(attempt)) == told
    cursor = data.draw(st.integers(0, len(told)))
    assert b"".join(body for _, _, body in followed(attempt, cursor=cursor)) == told[cursor:]
    for rank, size in enumerate(sizes):
        assert b"".join(body for _, _, body in followed(attempt, rank=rank)) == WRITTEN[:size]
    places = list(LogChunk.objects.filter(attempt=attempt).order_by("position").values_list("position", "size"))
    assert all(here + size == there for (here, size), (there, _) in pairwise(places))


class TestExtracts:
    """Reading all ranks in their order of arrival."""

    def test_a_hole_of_a_rank_has_its_place_in_the_order(self, world: World) -> None:
        attempt = start(world, nodes=2, gpus=0)
        first, second = ranks(attempt)
        append(first, chunk(0, 10))
        append(second, chunk(0, 5))
        append(first, chunk(30, 40, dropped=(10, 30)))
        finish(second, LogEnd(size=25, sha256="", holes=[(5, 25)]))
        found = extract(attempt, rank=None, offset=0, limit=100)
        assert (found.start, found.end, found.body) == (0, 15, WRITTEN[:10] + WRITTEN[:5])
        assert found.size == sum(LogFile.objects.values_list("size", flat=True)) == 65
        found = extract(attempt, rank=None, offset=15, limit=100)
        assert (found.start, found.end, found.turns) == (35, 45, [(0, 30, 10)])
        found = extract(attempt, rank=None, offset=45, limit=100)
        assert (found.start, found.end, found.body) == (65, 65, b"")

    def test_what_was_given_up_is_a_hole_in_the_order(self, world: World) -> None:
        Pool.objects.update(log_max_bytes_per_job=2 * 8 * SEGMENT)
        attempt = start(world, nodes=2, gpus=0)
        both = ranks(attempt)
        told = b""
        for begin in range(0, 40 * SEGMENT, SEGMENT // 2):
            for allocation in both:
                append(allocation, chunk(begin, begin + SEGMENT // 2))
                told += WRITTEN[begin : begin + SEGMENT // 2]
        offset, read = 0, 0
        while (found := extract(attempt, rank=None, offset=offset, limit=50)).body:
            assert found.body == told[found.start : found.end]
            assert (found.size, len(found.body) <= 50) == (len(told), True)
            offset, read = found.end, read + len(found.body)
        assert (found.start, found.end) == (len(told), len(told))
        holes = sum(stop - begin for allocation in both for begin, stop in LogFile.objects.get(pk=allocation.pk).holes)
        assert read == len(told) - holes
        assert holes > 0

    def test_ranks_that_take_turns_for_every_byte_end_an_extract_early(self, world: World) -> None:
        attempt = start(world, nodes=2, gpus=0)
        for place in range(MAX_TURNS):
            for allocation in ranks(attempt):
                append(allocation, chunk(place, place + 1))
        found = extract(attempt, rank=None, offset=0, limit=1000)
        assert (found.end, len(found.turns)) == (MAX_TURNS, MAX_TURNS)
        found = extract(attempt, rank=None, offset=0, limit=1000, max_turns=None)
        assert found.end == 2 * MAX_TURNS


@pytest.mark.parametrize("place", [0, 7, 15, 16, 39])
def test_a_single_other_byte_is_a_rewrite(world: World, place: int) -> None:
    allocation = rank_0(world)
    append(allocation, chunk(0, 25))
    append(allocation, chunk(25, 40))
    body = bytearray(WRITTEN[:40])
    body[place] ^= 1
    with pytest.raises(Conflict):
        append(allocation, Chunk(0, bytes(body), crc32(body)))
    # Nor is anything of it stored if it goes on beyond what is there.
    with pytest.raises(Conflict):
        append(allocation, Chunk(0, bytes(body) + WRITTEN[40:60], crc32(body)))
    as_written(stored(allocation), 40, [])


def test_bytes_whose_transaction_was_rolled_back_are_written_by_the_next_try(world: World) -> None:
    allocation = rank_0(world)
    append(allocation, chunk(0, 10))
    with transaction.atomic():
        append(allocation, Chunk(10, b"x" * 50, crc32(b"x" * 50)))
        transaction.set_rollback(True)
    append(allocation, chunk(10, 30))
    as_written(stored(allocation), 30, [])


@pytest.mark.usefixtures("as_committed")
class TestCap:
    CAP = 256

    @pytest.fixture(autouse=True)
    def _small_cap(self, world: World) -> None:
        Pool.objects.update(log_max_bytes_per_job=self.CAP)

    @pytest.mark.parametrize("length", [9, 16, 40])
    def test_the_first_eighth_and_the_newest_are_kept_and_the_hole_is_stated(self, world: World, length: int) -> None:
        allocation, size = rank_0(world), 0
        while size < 800:
            size = append(allocation, chunk(size, size + length))
            log = LogFile.objects.get()
            kept = size - sum(stop - begin for begin, stop in log.holes)
            assert kept <= self.CAP
        ((begin, stop),) = log.holes
        assert begin >= self.CAP // 8
        assert stop < size - self.CAP // 2
        as_written(stored(allocation), size, [(begin, stop)])
        as_written([(offset, body) for _, offset, body in followed(allocation.attempt)], size, [(begin, stop)])
        as_written([(offset, body) for _, offset, body in followed(allocation.attempt, rank=0)], size, [(begin, stop)])
        assert on_disk(allocation) == kept

    def test_what_was_given_up_may_be_sent_again_and_stays_given_up(self, world: World) -> None:
        allocation = rank_0(world)
        for begin in range(0, 600, 30):
            append(allocation, chunk(begin, begin + 30))
        before = LogFile.objects.get()
        for begin in range(0, 600, 30):
            assert append(allocation, chunk(begin, begin + 30)) == 600
        assert (LogFile.objects.get().holes, LogFile.objects.get().size) == (before.holes, 600)

    def test_no_byte_is_gone_before_its_hole_is_stated_for_good(self, world: World) -> None:
        allocation = rank_0(world)
        for begin in range(0, 240, 30):
            append(allocation, chunk(begin, begin + 30))
        with transaction.atomic():
            append(allocation, chunk(240, 300))
            assert LogFile.objects.get().holes != []
            transaction.set_rollback(True)
        as_written(stored(allocation), 240, [])

    def test_a_log_that_lost_bytes_is_not_complete(self, world: World) -> None:
        allocation = rank_0(world)
        for begin in range(0, 600, 30):
            append(allocation, chunk(begin, begin + 30))
        finish(allocation, LogEnd(size=600, sha256=hashlib.sha256(WRITTEN[:600]).hexdigest(), holes=[]))
        assert LogFile.objects.get().complete is False

    def test_nor_is_one_without_a_digest_that_has_a_hole(self, world: World) -> None:
        allocation = rank_0(world)
        append(allocation, chunk(0, 10))
        append(allocation, chunk(20, 30, dropped=(10, 20)))
        finish(allocation, LogEnd(size=30, sha256="", holes=[]))
        assert LogFile.objects.get().complete is False

    def test_the_ranks_of_a_gang_share_the_cap(self, world: World) -> None:
        attempt = start(world, nodes=2, gpus=0)
        for allocation in ranks(attempt):
            for begin in range(0, 600, 30):
                append(allocation, chunk(begin, begin + 30))
        for log in LogFile.objects.all():
            assert log.size - sum(stop - begin for begin, stop in log.holes) <= self.CAP // 2

    # From a cap that is smaller than a chunk and than two segments up to one of many segments.
    @pytest.mark.parametrize("nodes", [1, 2])
    @pytest.mark.parametrize("cap", [16, 40, 130, 600])
    @pytest.mark.parametrize("length", [9, 64])
    def test_no_more_lies_on_disk_than_the_cap_and_one_chunk(
        self, world: World, monkeypatch: pytest.MonkeyPatch, cap: int, nodes: int, length: int
    ) -> None:
        monkeypatch.setattr(store, "MAX_SEGMENT_BYTES", 64)
        Pool.objects.update(log_max_bytes_per_job=cap)
        attempt = start(world, nodes=nodes, gpus=0)
        allocations, size, most = ranks(attempt), 0, 0
        write = store._write

        def look(*of: Any) -> None:
            nonlocal most
            write(*of)
            # The chunk is there, and nothing was removed for it yet: no moment has more.
            most = max(most, sum(on_disk(allocation) for allocation in allocations))

        monkeypatch.setattr(store, "_write", look)
        while size < 3 * cap:
            for allocation in allocations:
                append(allocation, chunk(size, size + length))
                assert on_disk(allocation) <= cap // nodes
            size += length
        assert most <= cap + length
        for allocation, log in zip(allocations, LogFile.objects.order_by("pk"), strict=True):
            as_written(stored(allocation), size, [tuple(hole) for hole in log.holes])
        # The beginning and the end are what is kept.
        assert all(min(begin for begin, _ in log.holes) >= cap // nodes // 8 for log in LogFile.objects.all())
        assert all(max(stop for _, stop in log.holes) < size for log in LogFile.objects.all())

    def test_a_log_that_has_begun_goes_on_with_its_segments_when_the_cap_is_changed(self, world: World) -> None:
        allocation, size = rank_0(world), 0
        for cap in (self.CAP, 64, 4096, 40):
            Pool.objects.update(log_max_bytes_per_job=cap)
            allocation = rank_of(allocation.attempt, 0)
            for _ in range(8):
                size = append(allocation, chunk(size, size + 30))
            log = LogFile.objects.get()
            assert log.segment_bytes == SEGMENT
            as_written(stored(allocation), size, [tuple(hole) for hole in log.holes])


class TestFinish:
    def test_a_hole_outside_the_log_is_refused(self, world: World) -> None:
        allocation = rank_0(world)
        for hole in ((-1, 5), (5, 5), (5, 200)):
            with pytest.raises(Invalid):
                finish(allocation, LogEnd(size=100, sha256="", holes=[hole]))

    def test_bytes_that_come_after_the_end_was_told_are_given_up_and_no_error(self, world: World) -> None:
        allocation = rank_0(world)
        append(allocation, chunk(0, 10))
        finish(allocation, LogEnd(size=30, sha256="0" * 64, holes=[]))
        assert append(allocation, chunk(10, 20)) == 30
        as_written(stored(allocation), 30, [(10, 30)])

    def test_a_log_is_over_when_the_attempt_has_ended_and_every_rank_has_finished(self, world: World) -> None:
        attempt = start(world, nodes=2, gpus=0)
        first, second = ranks(attempt)
        for allocation in (first, second):
            end(allocation)
        finish(first, LogEnd(size=0, sha256="", holes=[]))
        assert is_over(now_of(attempt)) is False
        finish(second, LogEnd(size=0, sha256="", holes=[]))
        assert is_over(now_of(attempt)) is True


@pytest.mark.django_db(transaction=True)
class TestTwoAtOnce:
    def test_the_second_of_two_ranks_waits_for_its_place_in_the_order(self, world: World) -> None:
        attempt = start(world, nodes=2, gpus=0)
        first, second = ranks(attempt)
        append(second, chunk(0, 5))
        with transaction.atomic():
            append(first, chunk(0, 10))
            other = Other(lambda: append(second, chunk(5, 20))).until_it_waits()
            # A reader sees no later place than one that may still be taken back.
            assert max(LogChunk.objects.values_list("position", flat=True)) == 5
        other.result()
        assert [(rank, len(body)) for rank, _, body in followed(attempt)] == [(1, 5), (0, 10), (1, 15)]

    def test_the_same_chunk_sent_twice_at_once_is_stored_once(self, world: World) -> None:
        allocation, together = rank_0(world), threading.Barrier(2)

        def send() -> int:
            together.wait(WAIT_S)
            return append(allocation, chunk(0, 40))

        assert [other.result() for other in [Other(send), Other(send)]] == [40, 40]
        assert LogChunk.objects.count() == 1
        as_written(stored(allocation), 40, [])


def test_holes_that_touch_or_overlap_are_one() -> None:
    assert merged([(5, 9), (0, 2), (9, 12), (2, 3), (6, 7)]) == [(0, 3), (5, 12)]
    assert merged([]) == []
