from django.db import migrations, models
import django.db.models.deletion

from muster.common.migrations import InitialMigration


class Migration(InitialMigration):
    dependencies = [
        ('jobs', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel('Efficiency', [
            ('job', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='efficiency', serialize=False, to='jobs.job')),
            ('attempt', models.PositiveIntegerField(help_text='The number of the run that it is about.')),
            ('ended_at', models.DateTimeField(help_text='When that ended.')),
            ('grade', models.CharField(blank=True, choices=[('good', 'good'), ('fair', 'fair'), ('poor', 'poor'), ('idle', 'idle')], default='', max_length=10)),
            ('silence', models.CharField(blank=True, choices=[('no_gpus', 'no_gpus'), ('shared', 'shared'), ('too_short', 'too_short'), ('not_measured', 'not_measured')], default='', max_length=15)),
            ('gpu_s', models.FloatField(help_text='GPU-seconds of the run.')),
            ('utilization', models.FloatField(help_text='Mean of all GPUs, in percent.', null=True)),
            ('idle_gpus', models.PositiveIntegerField(default=0)),
            ('idle_gpu_s', models.FloatField(default=0, help_text='GPU-seconds in which they did nothing, if it has a grade.')),
            ('use', models.JSONField(help_text='What was measured: gpus, and cpus and memory of a rank.')),
            ('advice', models.JSONField(default=list)),
        ], {'verbose_name_plural': 'efficiency', 'constraints': [
            models.CheckConstraint(condition=models.Q(models.Q(('grade__in', ['fair', 'good', 'idle', 'poor']), ('silence', ''), ('utilization__isnull', False)), models.Q(('grade', ''), ('silence__in', ['no_gpus', 'not_measured', 'shared', 'too_short']), ('utilization__isnull', True)), _connector='OR'), name='efficiency_grade_or_silence'),
        ], 'indexes': [
            models.Index(condition=models.Q(('grade', ''), _negated=True), fields=['ended_at'], name='efficiency_graded'),
        ]}),
        migrations.CreateModel('Reader', [
            ('id', models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
            ('tx', models.BigIntegerField()),
            ('event_id', models.BigIntegerField()),
        ], {'constraints': [
            models.CheckConstraint(condition=models.Q(('id', 1)), name='one_reader_for_grades'),
        ]}),
        migrations.CreateModel('HeldDay', [
            ('pk', models.CompositePrimaryKey('attempt_id', 'day', 'gpu_type', blank=True, editable=False, primary_key=True, serialize=False)),
            ('attempt', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='jobs.attempt')),
            ('day', models.DateField()),
            ('gpu_type', models.CharField(max_length=63)),
            ('job_id', models.BigIntegerField()),
            ('tenant_id', models.BigIntegerField()),
            ('vc_id', models.BigIntegerField()),
            ('owner_id', models.BigIntegerField()),
            ('klass', models.CharField(max_length=14)),
            ('state', models.CharField(help_text='Of the job.', max_length=10)),
            ('outcome', models.CharField(max_length=20)),
            ('failure', models.TextField(help_text='Empty if it did not fail.')),
            ('category', models.TextField()),
            ('retry', models.BooleanField()),
            ('slot_us', models.BigIntegerField(help_text='Microseconds of a slot, so that sums are exact.')),
            ('began', models.BooleanField(help_text='Whether this is its first day.')),
            ('alone', models.BooleanField(help_text='Whether it is the only attempt of its job, and so in the totals of the day.')),
        ], {'indexes': [
            models.Index(fields=['day', 'alone'], name='held_day'),
        ]}),
        migrations.CreateModel('DayTotal', [
            ('id', models.BigAutoField(primary_key=True, serialize=False)),
            ('day', models.DateField()),
            ('tenant_id', models.BigIntegerField()),
            ('vc_id', models.BigIntegerField()),
            ('owner_id', models.BigIntegerField()),
            ('gpu_type', models.CharField(max_length=63)),
            ('klass', models.CharField(max_length=14)),
            ('state', models.CharField(max_length=10)),
            ('outcome', models.CharField(max_length=20)),
            ('failure', models.TextField()),
            ('category', models.TextField()),
            ('slot_us', models.BigIntegerField()),
            ('attempts', models.BigIntegerField(help_text='That held something on this day.')),
            ('began', models.BigIntegerField(help_text='Of these, the ones whose first day it is.')),
        ], {'constraints': [
            models.UniqueConstraint(fields=('day', 'tenant_id', 'vc_id', 'owner_id', 'gpu_type', 'klass', 'state', 'outcome', 'failure', 'category'), name='day_total_once'),
            models.CheckConstraint(condition=models.Q(('attempts__gte', models.F('began')), ('began__gte', 0), ('slot_us__gte', 0)), name='day_total_adds_up'),
        ]}),
        migrations.CreateModel('FinishTime', [
            ('tenant_id', models.BigIntegerField()),
            ('vc_id', models.BigIntegerField()),
            ('owner_id', models.BigIntegerField()),
            ('ended_at', models.DateTimeField()),
            ('taken_s', models.FloatField(help_text='From submission to end.')),
            ('pool_gpus', models.PositiveIntegerField()),
            ('quota_gpus', models.PositiveIntegerField(help_text='Of its virtual cluster, as far as the pool has them.')),
            ('contention', models.FloatField(help_text='Mean number of applications in the pool while it was there.')),
            ('vc_contention', models.FloatField(help_text='The same for its virtual cluster.')),
            ('rho_cluster', models.FloatField(null=True)),
            ('rho_quota', models.FloatField(null=True)),
            ('job', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='finish_time', serialize=False, to='jobs.job')),
            ('alone_s', models.FloatField(help_text='The run time of its work on the GPUs that it asks for.')),
        ], {'indexes': [
            models.Index(fields=['ended_at'], name='finish_time_ended'),
        ]}),
        migrations.CreateModel('GroupFinishTime', [
            ('tenant_id', models.BigIntegerField()),
            ('vc_id', models.BigIntegerField()),
            ('owner_id', models.BigIntegerField()),
            ('ended_at', models.DateTimeField()),
            ('taken_s', models.FloatField(help_text='From submission to end.')),
            ('pool_gpus', models.PositiveIntegerField()),
            ('quota_gpus', models.PositiveIntegerField(help_text='Of its virtual cluster, as far as the pool has them.')),
            ('contention', models.FloatField(help_text='Mean number of applications in the pool while it was there.')),
            ('vc_contention', models.FloatField(help_text='The same for its virtual cluster.')),
            ('rho_cluster', models.FloatField(null=True)),
            ('rho_quota', models.FloatField(null=True)),
            ('group', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='finish_time', serialize=False, to='jobs.jobgroup')),
            ('total_gpu_s', models.FloatField(help_text='The work of all members, on the GPUs that they ask for.')),
            ('longest_s', models.FloatField(help_text="The longest member's.")),
            ('demand', models.PositiveIntegerField(help_text='The GPUs that it asked for at its submission.')),
        ], {'indexes': [
            models.Index(fields=['ended_at'], name='group_finish_time_ended'),
        ]}),
    ]
