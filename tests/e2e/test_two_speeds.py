"""`manage.py demo --heterogeneous`: the same script on two emulated GPU types is as fast as their profiles say."""

from __future__ import annotations

import contextlib
import signal

import psycopg2
import pytest

from muster.local.places import find_places, service_password
from muster.local.postgres import DATABASE, OWNER
from tests.e2e.demo import Demo, new_demo, read_until

pytestmark = pytest.mark.timeout(600)

QUERY = """SELECT job.name, speed.gpu_type, speed.per_s FROM samples_speedalone speed
JOIN jobs_job job ON job.id = speed.job_id"""


def measured(demo: Demo) -> dict[str, tuple[str, float]]:
    """The GPU type and the measured steps per second of each job."""
    places = find_places(demo.home)
    address = {"user": OWNER, "password": service_password(places), "dbname": DATABASE, "host": str(places.sockets)}
    with contextlib.closing(psycopg2.connect(**address)) as link, link.cursor() as cursor:
        cursor.execute(QUERY)
        return {name: (gpu_type, per_s) for name, gpu_type, per_s in cursor.fetchall()}


def test_measured_rates_are_in_the_ratio_of_the_profiles() -> None:
    with new_demo() as demo, demo.start("--heterogeneous") as process:
        try:
            shown = read_until(process, "Ctrl-C stops everything")
            rates = measured(demo)
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
    assert shown.count("✓ │") >= 7, shown
    assert {name: gpu_type for name, (gpu_type, _) in rates.items()} == {
        "big-net-a100": "A100",
        "big-net-v100": "V100",
        "small-net-a100": "A100",
        "small-net-v100": "V100",
    }
    assert rates["big-net-a100"][1] == pytest.approx(25, rel=0.05)
    assert rates["big-net-a100"][1] / rates["big-net-v100"][1] == pytest.approx(2.5, rel=0.05)
    assert rates["small-net-a100"][1] / rates["small-net-v100"][1] == pytest.approx(1.2, rel=0.05)
