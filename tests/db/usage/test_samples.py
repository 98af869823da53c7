"""Samples: taken over from agents, summed up level by level, read at a bounded resolution, and forgotten."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.models import Min

from muster.common.errors import Invalid
from muster.fleet.models import GpuReading
from muster.jobs.models import GpuClaim
from muster.samples import levels
from muster.samples.families import FAMILIES, GPU, RANK
from muster.samples.levels import floor, forget, roll_up
from muster.samples.models import (
    GpuHour,
    GpuMinute,
    GpuTenSeconds,
    HostTenSeconds,
    RankTenSeconds,
    RollUp,
)
from muster.samples.selectors import MAX_POINTS, read, window_of
from muster.samples.store import Values, add, sound
from nodeagent.protocol.messages import GpuSample, HostSample, UsageSample
from tests.db.agent_calls import Agent
from tests.db.stories import Other, World, end, ranks, start
from tests.factories import make_node

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def measured(at: datetime, *, gpu: int = 1, allocation: int = 7, samples: int = 1, **figures: Any) -> None:
    """A row of the finest level."""
    most = {f"{name}_max": figures.get(f"{name}_max", value) for name, value in figures.items() if "_max" not in name}
    GpuTenSeconds.objects.create(gpu_id=gpu, allocation_id=allocation, at=at, samples=samples, **{**figures, **most})


def roll_up_all(now: datetime = NOW) -> None:
    while roll_up(now=now):
        pass


class TestFamilies:
    @pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
    def test_every_level_has_a_mean_and_a_maximum_of_every_figure(self, family: Any) -> None:
        wanted = {name for figure in family.figures for name in (figure.name, f"{figure.name}_max")}
        for level in family.levels:
            columns = {field.column for field in level.model._meta.concrete_fields}
            assert columns == {*family.keys, "at", "samples", *wanted}


class TestSound:
    def test_what_nothing_can_have_is_left_out_and_the_log_names_the_field(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        told = {
            "utilization": 130.0,
            "power_w": -1.0,
            "temperature_c": -20.0,
            "sm_clock_mhz": 1 << 62,
            "ecc_corrected": 3,
        }
        with caplog.at_level(logging.WARNING):
            values = sound(GPU, told, where="gpu01.gpus[3]")
        assert {name: value for name, value in values.items() if value is not None} == {
            "temperature_c": -20.0,
            "ecc_corrected": 3.0,
        }
        (record,) = caplog.records
        for name in ("gpu01.gpus[3].utilization=130.0", "gpu01.gpus[3].power_w=-1.0", "gpu01.gpus[3].sm_clock_mhz="):
            assert name in record.getMessage()

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
    def test_no_number_is_no_measurement(self, value: float) -> None:
        assert sound(GPU, {"power_w": value}, where="n")["power_w"] is None


@pytest.mark.django_db
class TestAdd:
    def test_two_samples_of_ten_seconds_make_one_row_with_mean_and_maximum(self) -> None:
        add(GPU, {(1, 7): _values(power_w=100.0, utilization=50.0)})
        before = GpuTenSeconds.objects.get()
        add(GPU, {(1, 7): _values(power_w=300.0)})
        rows = list(GpuTenSeconds.objects.order_by("at"))
        if len(rows) == 2:  # ten seconds began between the two
            assert (rows[0].power_w, rows[1].power_w) == (100.0, 300.0)
            return
        assert (rows[0].at, rows[0].samples) == (before.at, 2)
        assert (rows[0].power_w, rows[0].power_w_max) == (200.0, 300.0)
        assert (rows[0].utilization, rows[0].utilization_max) == (50.0, 50.0)

    def test_what_was_not_measured_stays_unknown(self) -> None:
        add(GPU, {(1, 7): _values()})
        row = GpuTenSeconds.objects.get()
        assert (row.power_w, row.power_w_max, row.samples) == (None, None, 1)

    def test_no_sample_is_no_statement(self, django_assert_num_queries: Any) -> None:
        with django_assert_num_queries(0):
            add(GPU, {})


def _values(**figures: float) -> Values:
    return {figure.name: figures.get(figure.name) for figure in GPU.figures}


@pytest.mark.django_db
class TestRollUp:
    def test_a_minute_has_the_weighted_mean_and_the_maximum(self) -> None:
        measured(NOW - seconds(120), power_w=100.0, power_w_max=150.0, samples=1)
        measured(NOW - seconds(110), power_w=400.0, power_w_max=410.0, samples=2)
        measured(NOW - seconds(100), utilization=80.0)
        roll_up_all()
        row = GpuMinute.objects.get()
        assert (row.at, row.samples, row.gpu_id, row.allocation_id) == (NOW - seconds(120), 4, 1, 7)
        assert (row.power_w, row.power_w_max) == (300.0, 410.0)
        assert (row.utilization, row.temperature_c) == (80.0, None)

    def test_what_was_measured_of_two_jobs_is_kept_apart(self) -> None:
        measured(NOW - seconds(120), allocation=7, power_w=100.0)
        measured(NOW - seconds(110), allocation=8, power_w=300.0)
        roll_up_all()
        rows = GpuMinute.objects.order_by("allocation_id").values_list("allocation_id", "power_w")
        assert list(rows) == [(7, 100.0), (8, 300.0)]

    def test_a_minute_that_has_not_settled_is_left_for_later(self) -> None:
        measured(NOW - seconds(60), power_w=100.0)
        roll_up_all(now=NOW)
        assert not GpuMinute.objects.exists()
        roll_up_all(now=NOW + levels.SETTLED_AFTER)
        assert GpuMinute.objects.get().at == NOW - seconds(60)

    def test_doing_it_again_changes_nothing(self) -> None:
        for step in range(0, 7200, 30):
            measured(NOW - seconds(7200) + seconds(step), power_w=float(step))
        roll_up_all()
        first = [list(model.objects.order_by("at").values()) for model in (GpuMinute, GpuHour)]
        assert [len(rows) for rows in first] == [119, 1]  # the last minute and the hour that it is in have not settled
        RollUp.objects.update(upto=NOW - timedelta(days=1))
        roll_up_all()
        assert [list(model.objects.order_by("at").values()) for model in (GpuMinute, GpuHour)] == first

    def test_a_turn_is_bounded_and_the_next_goes_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(levels, "MAX_WINDOWS", 1)
        for step in range(0, 3600, 60):
            measured(NOW - seconds(3600) + seconds(step), power_w=1.0)
        roll_up(now=NOW)
        assert GpuMinute.objects.count() == levels.MAX_BUCKETS_PER_WINDOW[60]
        roll_up_all()
        assert GpuMinute.objects.count() == 59

    def test_a_long_silence_is_passed_in_one_window(self) -> None:
        measured(NOW - timedelta(days=30), power_w=1.0)
        measured(NOW - timedelta(hours=2), power_w=2.0)
        assert roll_up(now=NOW) < 30
        roll_up_all()
        assert list(GpuHour.objects.order_by("at").values_list("power_w", flat=True)) == [1.0, 2.0]


@pytest.mark.django_db(transaction=True)
def test_somebody_else_who_rolls_up_is_left_to_it() -> None:
    measured(NOW - seconds(600), power_w=1.0)
    roll_up_all(now=NOW - seconds(300))
    with transaction.atomic():
        list(RollUp.objects.select_for_update(no_key=True))
        assert Other(lambda: roll_up(now=NOW)).result() == 0
    assert roll_up(now=NOW) > 0


@pytest.mark.django_db
class TestForget:
    def test_each_level_is_kept_for_its_time(self, settings: Any) -> None:
        settings.SAMPLES_KEPT_FOR = {10: seconds(600), 60: seconds(3600), 3600: timedelta(hours=3)}
        for step in range(0, 18_000, 60):
            measured(NOW - seconds(18_000) + seconds(step), power_w=1.0)
        roll_up_all()
        forget(now=NOW)
        assert [model.objects.aggregate(at=Min("at"))["at"] for model in (GpuTenSeconds, GpuMinute, GpuHour)] == [
            NOW - seconds(600),
            NOW - seconds(3600),
            NOW - timedelta(hours=3),
        ]

    def test_nothing_is_forgotten_that_is_not_rolled_up(self, settings: Any) -> None:
        measured(NOW - timedelta(days=3), power_w=1.0)
        assert forget(now=NOW) == 0
        roll_up_all()
        assert forget(now=NOW) == 1
        assert GpuMinute.objects.count() == 1

    def test_a_batch_is_not_all_there_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(levels, "BATCH", 3)
        for step in range(0, 100, 10):
            measured(NOW - timedelta(days=1) + seconds(step), power_w=1.0)
        roll_up_all()
        assert forget(now=NOW) == 10


@pytest.mark.django_db
class TestRead:
    def test_the_newest_steps_come_from_the_level_below(self) -> None:
        for step in range(0, 600, 10):
            measured(NOW - seconds(600) + seconds(step), power_w=float(step))
        roll_up_all()
        assert GpuMinute.objects.count() == 9
        window = window_of(GPU, start=NOW - seconds(600), end=NOW, step_s=60, now=NOW)
        lines = read(GPU, window, by="gpu_id", only={"gpu_id": [1]})[1]
        at = dict(zip(window.times, lines.mean["power_w"], strict=True))
        assert [at[int((NOW - seconds(600)).timestamp()) + 60 * minute] for minute in range(10)] == [
            25.0 + 60 * minute for minute in range(10)
        ]
        assert list(lines.mean) == ["power_w"]
        assert lines.most["power_w"][0] == 50.0

    def test_it_is_the_same_at_every_level_of_doneness(self) -> None:
        for step in range(0, 7200, 20):
            measured(NOW - seconds(7200) + seconds(step), power_w=float(step % 700), allocation=1 + step % 3)
        window = window_of(GPU, start=NOW - seconds(7200), end=NOW, step_s=3600, now=NOW)
        before = read(GPU, window, by="gpu_id", only={"gpu_id": [1]})
        roll_up_all(now=NOW + seconds(3600))
        assert GpuHour.objects.exists()
        after = read(GPU, window, by="gpu_id", only={"gpu_id": [1]})
        means = [[value for value in lines[1].mean["power_w"] if value is not None] for lines in (before, after)]
        assert means[1] == pytest.approx(means[0], rel=1e-4)
        assert after[1].most == before[1].most

    def test_only_the_rows_of_the_job_count(self) -> None:
        measured(NOW - seconds(100), allocation=7, power_w=100.0)
        measured(NOW - seconds(90), allocation=8, power_w=300.0)
        window = window_of(GPU, start=NOW - seconds(200), end=NOW, step_s=0, now=NOW)
        lines = read(GPU, window, by="gpu_id", only={"gpu_id": [1], "allocation_id": [7]})[1]
        assert [value for value in lines.mean["power_w"] if value is not None] == [100.0]
        assert read(GPU, window, by="gpu_id", only={"gpu_id": [], "allocation_id": [7]}) == {}

    @pytest.mark.parametrize(
        ("ago", "asked", "step"),
        [
            (seconds(600), 0, 10),
            (seconds(600), 45, 60),
            (timedelta(hours=2), 0, 20),
            (timedelta(hours=5), 0, 60),
            (timedelta(hours=8), 0, 60),
            (timedelta(days=5), 10, 1200),
            (timedelta(days=30), 0, 7200),
            (timedelta(days=390), 0, 86_400),
        ],
    )
    def test_the_step_follows_the_span_and_what_is_kept(self, ago: timedelta, asked: int, step: int) -> None:
        window = window_of(GPU, start=NOW - ago, end=NOW, step_s=asked, now=NOW)
        assert window.step_s == step
        assert len(window.times) <= MAX_POINTS + 1
        assert window.start <= NOW - ago
        assert floor(window.start, step) == window.start

    def test_a_short_window_of_long_ago_is_read_in_what_is_left_of_it(self) -> None:
        start_at = NOW - timedelta(days=2)
        assert window_of(GPU, start=start_at, end=start_at + seconds(300), step_s=0, now=NOW).step_s == 60

    @pytest.mark.parametrize(
        ("start_at", "end_at"),
        [(NOW, NOW), (NOW + seconds(5), NOW + seconds(9)), (NOW - timedelta(days=900), NOW - timedelta(days=800))],
    )
    def test_a_window_with_nothing_in_it_is_refused(self, start_at: datetime, end_at: datetime) -> None:
        with pytest.raises(Invalid, match="from"):
            window_of(RANK, start=start_at, end=end_at, step_s=0, now=NOW)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("sound")
class TestSync:
    def test_samples_belong_to_the_job_that_holds_the_gpu(self, agent: Agent, world: World) -> None:
        allocation = ranks(start(world, gpus=1))[0]
        held = allocation.claims.get().gpu
        free = world.nodes[0].gpus.exclude(pk=held.pk).order_by("index").first()
        assert free is not None
        samples = tuple(GpuSample(gpu.uuid, utilization=55.0, sm_clock_mhz=1410) for gpu in (held, free))
        assert agent.sync(gpus=samples).status_code == 200
        rows = GpuTenSeconds.objects.values_list("gpu_id", "allocation_id", "utilization", "sm_clock_mhz")
        assert set(rows) == {(held.pk, allocation.pk, 55.0, 1410.0), (free.pk, 0, 55.0, 1410.0)}
        end(allocation)
        assert GpuClaim.objects.filter(released_at__isnull=True).count() == 0
        agent.sync(gpus=samples)
        assert GpuTenSeconds.objects.filter(gpu_id=held.pk, allocation_id=0).exists()

    def test_usage_is_stored_under_the_right_fence_only(self, agent: Agent, world: World) -> None:
        allocation = ranks(start(world))[0]
        elsewhere = ranks(start(world))[0]
        other = make_node(world.pool)
        type(elsewhere).objects.filter(pk=elsewhere.pk).update(node=other)
        usage = (
            UsageSample(allocation.pk, allocation.attempt_id, cpu_cores=1.5, memory_mib=512.0),
            UsageSample(elsewhere.pk, elsewhere.attempt_id, cpu_cores=9.0),
            UsageSample(999_999_999, 1, cpu_cores=9.0),
        )
        assert agent.sync(usage=usage).status_code == 200
        assert agent.sync(usage=(UsageSample(allocation.pk, 1 << 40, cpu_cores=9.0),)).status_code == 200
        row = RankTenSeconds.objects.get()
        assert (row.allocation_id, row.cpu_cores, row.memory_mib) == (allocation.pk, 1.5, 512.0)
        type(elsewhere).objects.filter(pk=elsewhere.pk).update(node=world.nodes[0])

    def test_the_host_is_kept_too(self, agent: Agent, world: World) -> None:
        assert agent.sync(host=HostSample(cpu_percent=12.5, memory_used_mib=2048, load1=-4.0)).status_code == 200
        row = HostTenSeconds.objects.get()
        assert (row.node_id, row.cpu_percent, row.memory_used_mib, row.load1) == (world.nodes[0].pk, 12.5, 2048.0, None)

    def test_a_gpu_that_is_named_twice_counts_once(self, agent: Agent, world: World) -> None:
        gpu = world.nodes[0].gpus.first()
        assert gpu is not None
        assert agent.sync(gpus=(GpuSample(gpu.uuid, power_w=1.0), GpuSample(gpu.uuid, power_w=2.0))).status_code == 200
        assert GpuTenSeconds.objects.get().power_w == 2.0

    def test_nonsense_hurts_neither_the_message_nor_the_newest_reading(self, agent: Agent, world: World) -> None:
        gpu = world.nodes[0].gpus.first()
        assert gpu is not None
        nonsense = GpuSample(gpu.uuid, 1e18, -5, 1e18, 40.0, -1, 1 << 62, -3, 1 << 62, -1)
        assert agent.sync(gpus=(nonsense,)).status_code == 200
        reading = GpuReading.objects.get(gpu=gpu)
        assert (reading.utilization, reading.memory_used_mib, reading.power_w, reading.processes) == (
            None,
            None,
            None,
            0,
        )
        assert reading.temperature_c == 40.0

    @pytest.mark.parametrize("text", ["NaN", "Infinity", "1e999"])
    def test_what_is_no_number_is_refused_with_the_fields_name(self, text: str, agent: Agent, world: World) -> None:
        body = (
            f'{{"epoch": {agent.epoch}, "seq": 1, "boot_id": "boot-1", "generation": "", "wait_s": 0,'
            f' "usage": [{{"id": 1, "fence": 1, "cpu_cores": {text}}}]}}'
        )
        answer = agent.http.post(
            "/agent/v1/sync", content=body.encode(), headers={"Authorization": f"Bearer {agent.secret}"}
        )
        assert answer.status_code == 422
        assert "usage[0].cpu_cores" in answer.json()["detail"]
