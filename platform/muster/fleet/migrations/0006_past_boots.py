from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("fleet", "0005_strikes"),
    ]

    operations = [
        migrations.AddField(
            model_name="node",
            name="past_boots",
            field=models.JSONField(blank=True, default=list, help_text="Boots before that, the newest last."),
        ),
    ]
