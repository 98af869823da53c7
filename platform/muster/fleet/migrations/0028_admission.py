from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ("fleet", "0027_restore"),
    ]

    operations = [
        migrations.RenameField("pool", "guard", "admission"),
        migrations.RenameField("pool", "guard_params", "admission_params"),
    ]
