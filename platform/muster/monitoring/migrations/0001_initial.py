from django.db import migrations, models
import django.contrib.postgres.fields
import django.db.models.deletion

from muster.common.migrations import InitialMigration
import muster.common.models


class Migration(InitialMigration):
    dependencies = [
        ('fleet', '0001_initial'),
        ('jobs', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel('Series', [
            ('id', models.BigAutoField(primary_key=True, serialize=False)),
            ('attempt', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='series', to='jobs.attempt')),
            ('name', models.CharField(max_length=64)),
            ('from_log', models.BooleanField(help_text='Read from lines of the log; else the job reported it.')),
            ('steps', django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), default=list, size=None)),
            ('values', django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), default=list, size=None)),
            ('stride', models.PositiveIntegerField(default=1)),
            ('count', models.PositiveIntegerField(default=0)),
            ('finite', models.PositiveIntegerField(default=0)),
            ('total', models.FloatField(default=0)),
            ('last_step', models.FloatField(null=True)),
            ('last_value', models.FloatField(null=True)),
            ('odd_run', models.PositiveIntegerField(default=0)),
            ('at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
            ('fresh', models.BooleanField(default=True, help_text='Whether nobody has looked at it since it changed.')),
        ], {'verbose_name_plural': 'series', 'constraints': [
            models.UniqueConstraint(fields=('attempt', 'name'), name='series_once'),
        ], 'indexes': [
            models.Index(condition=models.Q(('fresh', True)), fields=['id'], name='series_fresh'),
            models.Index(fields=['at'], name='series_by_age'),
        ]}),
        migrations.CreateModel('JobAdvice', [
            ('id', models.BigAutoField(primary_key=True, serialize=False)),
            ('job', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='advice', to='jobs.job')),
            ('attempt', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='jobs.attempt')),
            ('kind', models.CharField(choices=[('nan', 'nan'), ('rising', 'rising'), ('plateau', 'plateau')], max_length=10)),
            ('text', models.CharField(max_length=300)),
            ('step', models.FloatField()),
            ('at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
        ], {'verbose_name_plural': 'advice', 'constraints': [
            models.CheckConstraint(condition=models.Q(('kind__in', ['nan', 'plateau', 'rising'])), name='advice_kind_known'),
            models.UniqueConstraint(fields=('job', 'kind'), name='advice_once'),
        ]}),
        migrations.CreateModel('LogPlace', [
            ('allocation', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='jobs.allocation')),
            ('offset', models.BigIntegerField(default=0)),
            ('base', models.FloatField(default=0, help_text='What is added to steps, which may begin anew with each epoch.')),
            ('last', models.FloatField(help_text='The step of the last line that has one.', null=True)),
        ]),
        migrations.CreateModel('FailureRate', [
            ('pool', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='failure_rate', serialize=False, to='fleet.pool')),
            ('failures', models.PositiveIntegerField()),
            ('node_hours', models.FloatField()),
            ('at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
        ]),
        migrations.CreateModel('IdleWatch', [
            ('attempt', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='idle_watch', serialize=False, to='jobs.attempt')),
            ('counts', models.JSONField(default=dict)),
            ('warned_at', models.DateTimeField(help_text='When its owner was told; empty while it is at work.', null=True)),
            ('since', models.DateTimeField(help_text='Since when it is idle.', null=True)),
            ('stop_at', models.DateTimeField(help_text='When it is stopped if that goes on.', null=True)),
        ], {'constraints': [
            models.CheckConstraint(condition=models.Q(models.Q(('since__isnull', True), ('stop_at__isnull', True), ('warned_at__isnull', True)), models.Q(('since__isnull', False), ('warned_at__isnull', False)), _connector='OR'), name='idle_watch_warned_since'),
        ]}),
    ]
