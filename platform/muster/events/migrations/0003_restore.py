import muster.common.models
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('events', '0002_audit_address'),
    ]

    operations = [
        migrations.CreateModel(
            name='Restore',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(db_default=muster.common.models.DatabaseNow(), help_text="When no agent's call could be answered any more.")),
                ('backup_at', models.DateTimeField(help_text='The moment that the backup shows.')),
                ('nodes_known', models.BooleanField(help_text='Whether an operator said that no agent joined after the backup, so that all nodes are known.')),
                ('last_job', models.BigIntegerField(help_text='The highest id of a job that may have been given before the restore.')),
                ('last_uid', models.BigIntegerField(help_text='The highest uid that may have been given before the restore.')),
                ('unknown', models.JSONField(default=list, help_text='The allocations that agents reported and that began after the backup.')),
                ('resumed_at', models.DateTimeField(help_text='When jobs were placed again.', null=True)),
            ],
        ),
    ]
