from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("fleet", "0007_barred"),
    ]

    operations = [
        migrations.AddField(
            model_name="node",
            name="nonce",
            field=models.CharField(
                blank=True, default="", help_text="What its next registration must carry.", max_length=64
            ),
        ),
    ]
