"""CPUs and memory of jobs that name none: by the nodes' share where no operator has set them."""

import django.core.validators
from django.db import migrations, models


def unset_old_defaults(apps, _editor):
    """1 CPU and 1024 MiB are what every pool got when it was made, and too little for a job with a GPU: no choice."""
    pools = apps.get_model("fleet", "Pool").objects
    pools.filter(cpus_per_gpu=1).update(cpus_per_gpu=None)
    pools.filter(memory_mib_per_gpu=1024).update(memory_mib_per_gpu=None)


def set_old_defaults(apps, _editor):
    pools = apps.get_model("fleet", "Pool").objects
    pools.filter(cpus_per_gpu=None).update(cpus_per_gpu=1)
    pools.filter(memory_mib_per_gpu=None).update(memory_mib_per_gpu=1024)


class Migration(migrations.Migration):
    dependencies = [("fleet", "0028_admission")]

    operations = [
        migrations.AlterField(
            "pool",
            "cpus_per_gpu",
            models.PositiveIntegerField(
                blank=True,
                null=True,
                validators=[django.core.validators.MinValueValidator(1)],
                help_text="CPUs of a job that names none, for each of its GPUs. Empty: the smallest share of its GPU "
                "type, a node's CPUs ÷ its GPUs.",
            ),
        ),
        migrations.AlterField(
            "pool",
            "memory_mib_per_gpu",
            models.PositiveIntegerField(
                blank=True,
                null=True,
                validators=[django.core.validators.MinValueValidator(1)],
                help_text="Memory of a job that names none, for each of its GPUs. Empty: the smallest share of its GPU "
                "type, a node's memory ÷ its GPUs.",
            ),
        ),
        migrations.RunPython(unset_old_defaults, set_old_defaults),
    ]
