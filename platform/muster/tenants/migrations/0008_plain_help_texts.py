from django.db import migrations, models

import scheduler.diagnosis.idle
import scheduler.diagnosis.screening


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0007_tree"),
    ]

    operations = [
        migrations.AlterField(
            model_name="tenant",
            name="idle_action",
            field=models.CharField(
                choices=[("off", "off"), ("warn", "warn"), ("stop", "stop")],
                default=scheduler.diagnosis.idle.Action["WARN"],
                help_text="What happens to a job whose GPUs are all idle, unless its spec says something else.",
                max_length=4,
            ),
        ),
        migrations.AlterField(
            model_name="tenant",
            name="idle_below",
            field=models.FloatField(default=5, help_text="GPUs below this utilisation, in per cent, count as idle."),
        ),
        migrations.AlterField(
            model_name="tenant",
            name="idle_binding",
            field=models.BooleanField(
                default=False, help_text="Whether this rule wins over a spec that asks for less."
            ),
        ),
        migrations.AlterField(
            model_name="tenant",
            name="idle_for_s",
            field=models.FloatField(default=3600, help_text="For how many seconds they must be idle: 120 to a week."),
        ),
        migrations.AlterField(
            model_name="tenant",
            name="screening",
            field=models.CharField(
                choices=[("auto", "auto"), ("always", "always"), ("never", "never")],
                default=scheduler.diagnosis.screening.Mode["AUTO"],
                help_text="Whether jobs first run on a few GPUs, in pools with screening; auto: as each job says.",
                max_length=6,
            ),
        ),
        migrations.AlterField(
            model_name="tenant",
            name="wait_for_hardware",
            field=models.BooleanField(
                default=False,
                help_text="Whether jobs that no node or quota of their pool can meet today may be submitted. They "
                "wait until one can.",
            ),
        ),
    ]
