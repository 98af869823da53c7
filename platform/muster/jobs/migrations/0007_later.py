from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0006_private_code'),
    ]

    operations = [
        migrations.AddField(
            model_name='dependency',
            name='later_s',
            field=models.PositiveIntegerField(db_default=0, default=0, help_text='How long after the start of the other job it may start.'),
        ),
    ]
