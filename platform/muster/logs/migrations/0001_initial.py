from django.db import migrations, models
import django.db.models.deletion

from muster.common.migrations import InitialMigration
import muster.common.models


class Migration(InitialMigration):
    dependencies = [
        ('jobs', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel('LogHead', [
            ('attempt', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='log_head', serialize=False, to='jobs.attempt')),
            ('position', models.BigIntegerField(default=0)),
        ]),
        migrations.CreateModel('LogFile', [
            ('allocation', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='log_file', serialize=False, to='jobs.allocation')),
            ('size', models.BigIntegerField(default=0)),
            ('holes', models.JSONField(default=list, help_text='Byte ranges [from, to) that were given up.')),
            ('segment_bytes', models.PositiveIntegerField(db_default=4194304, help_text='How much of the log one file holds.')),
            ('finished_at', models.DateTimeField(null=True)),
            ('complete', models.BooleanField(help_text='Whether the stored bytes have the digest the agent stated.', null=True)),
        ]),
        migrations.CreateModel('LogChunk', [
            ('id', models.BigAutoField(primary_key=True, serialize=False)),
            ('attempt', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='log_chunks', to='jobs.attempt')),
            ('position', models.BigIntegerField()),
            ('allocation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='log_chunks', to='jobs.allocation')),
            ('offset', models.BigIntegerField()),
            ('size', models.PositiveIntegerField()),
            ('crc32', models.BigIntegerField()),
            ('stored_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
        ], {'constraints': [
            models.UniqueConstraint(fields=('attempt', 'position'), name='log_chunk_position'),
            models.UniqueConstraint(fields=('allocation', 'offset'), name='log_chunk_offset'),
        ]}),
    ]
