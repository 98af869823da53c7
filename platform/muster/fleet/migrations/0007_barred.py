from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("fleet", "0006_past_boots")]

    operations = [
        migrations.AddField(
            model_name="node",
            name="barred",
            field=models.CharField(
                blank=True,
                default="",
                help_text="Why nothing new may start there, whatever operators want.",
                max_length=300,
            ),
        ),
    ]
