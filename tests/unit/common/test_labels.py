"""Labels in words for the admin."""

from __future__ import annotations

import pytest
from django.apps import apps

from muster.events.labels import words


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("memory_mib_per_gpu", "memory per GPU (MiB)"),
        ("gpus", "GPUs"),
        ("gpu_type", "GPU type"),
        ("check_s_per_day", "check per day (s)"),
        ("log_max_bytes_per_job", "log max per job (bytes)"),
        ("stop_after_s", "stop after (s)"),
        ("vc", "virtual cluster"),
    ],
)
def test_a_label_has_the_words_of_the_name_and_its_unit(name: str, label: str) -> None:
    assert words(name) == label


def test_columns_of_every_app_are_labelled() -> None:
    pool = apps.get_model("fleet", "Pool")
    assert pool._meta.get_field("memory_mib_per_gpu").verbose_name == "memory per GPU (MiB)"
    assert apps.get_model("tenants", "Quota")._meta.get_field("gpu_type").verbose_name == "GPU type"
