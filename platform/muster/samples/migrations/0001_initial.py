from django.db import migrations, models
import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion

from muster.common.migrations import InitialMigration
import muster.samples.models


_GPU = [
    'utilization', 'memory_used_mib', 'power_w', 'temperature_c', 'sm_clock_mhz', 'memory_clock_mhz', 'ecc_corrected',
    'ecc_uncorrected', 'processes',
]
_RANK = [
    'cpu_cores', 'memory_mib', 'page_cache_mib', 'disk_read_bytes_s', 'disk_write_bytes_s', 'net_receive_bytes_s',
    'net_transmit_bytes_s', 'processes', 'progress_s',
]
_HOST = ['cpu_percent', 'memory_used_mib', 'load1']


def _stretches(name, key, figures):
    """The models of one family: the mean and the largest value of each figure, by ten seconds, minutes and hours."""
    for level in ('TenSeconds', 'Minute', 'Hour'):
        yield migrations.CreateModel(f'{name}{level}', [
            ('pk', models.CompositePrimaryKey(*key, blank=True, editable=False, primary_key=True, serialize=False)),
            *((column, models.DateTimeField() if column == 'at' else models.BigIntegerField()) for column in key),
            ('samples', models.IntegerField()),
            *((f'{figure}{end}', muster.samples.models.Real(null=True)) for figure in figures for end in ('', '_max')),
        ], {'indexes': [
            django.contrib.postgres.indexes.BrinIndex(fields=['at'], name=f'{name}{level}_at'.lower(), pages_per_range=32),
        ]})


class Migration(InitialMigration):
    dependencies = [
        ('jobs', '0001_initial'),
    ]

    operations = [
        *_stretches('Gpu', ['gpu_id', 'at', 'allocation_id'], _GPU),
        *_stretches('Rank', ['allocation_id', 'at'], _RANK),
        *_stretches('Host', ['node_id', 'at'], _HOST),
        migrations.CreateModel('Speed', [
            ('attempt', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='speed', serialize=False, to='jobs.attempt')),
            ('gpu_type', models.CharField(max_length=63)),
            ('gpus', models.PositiveIntegerField()),
            ('at', models.DateTimeField()),
            ('count', models.FloatField()),
            ('beside', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None)),
            ('since', models.DateTimeField(null=True)),
            ('first', models.FloatField()),
            ('steps', models.PositiveIntegerField()),
            ('readings', models.PositiveIntegerField(default=0)),
            ('squares', models.FloatField(default=0.0)),
        ]),
        migrations.CreateModel('SpeedAlone', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='speeds_alone', to='jobs.job')),
            ('gpu_type', models.CharField(max_length=63)),
            ('gpus', models.PositiveIntegerField()),
            ('per_s', models.FloatField(help_text="In the job's own units.")),
            ('deviation', models.FloatField(help_text='Of per_s, by how it varied between readings; null: too few.', null=True)),
            ('at', models.DateTimeField()),
        ], {'constraints': [
            models.UniqueConstraint(fields=('job', 'gpu_type', 'gpus'), name='speed_alone_once'),
        ]}),
        migrations.CreateModel('RateEstimate', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='rate_estimates', to='jobs.job')),
            ('gpu_type', models.CharField(max_length=63)),
            ('gpus', models.PositiveIntegerField()),
            ('per_s', models.FloatField(help_text="In the job's own units. 0: the job does not run there.")),
            ('deviation', models.FloatField()),
            ('source', models.CharField(max_length=16)),
            ('slowdown', models.FloatField(help_text='The rate on one node ÷ that on several; null: unknown.', null=True)),
        ], {'constraints': [
            models.UniqueConstraint(fields=('job', 'gpu_type', 'gpus'), name='rate_estimate_once'),
        ]}),
        migrations.CreateModel('RateRefresh', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('measured_at', models.DateTimeField(null=True)),
            ('job_id', models.BigIntegerField(default=0, help_text='The newest job at that time.')),
        ]),
        migrations.CreateModel('RollUp', [
            ('table', models.CharField(max_length=63, primary_key=True, serialize=False)),
            ('upto', models.DateTimeField(help_text='Everything before this time is in the table.')),
        ]),
    ]
