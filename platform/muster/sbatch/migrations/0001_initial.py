from django.db import migrations, models

from muster.common.migrations import InitialMigration
import muster.common.models


class Migration(InitialMigration):
    dependencies = []

    operations = [
        migrations.CreateModel('SlurmTable', [
            ('version', models.PositiveIntegerField(primary_key=True, serialize=False)),
            ('text', models.TextField(blank=True, help_text='YAML; see docs/operator/slurm.md.', max_length=200000)),
            ('author', models.CharField(max_length=150)),
            ('created_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
        ], {'verbose_name': "version of Slurm's words", 'verbose_name_plural': "Slurm's words"}),
    ]
