from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("failures", "0001_initial"),
    ]

    operations = [
        migrations.RenameField(model_name="rulebook", old_name="trial", new_name="preview"),
    ]
