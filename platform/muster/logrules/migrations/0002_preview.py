from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("logrules", "0001_initial"),
    ]

    operations = [
        migrations.RenameField(model_name="logrulebook", old_name="trial", new_name="preview"),
    ]
