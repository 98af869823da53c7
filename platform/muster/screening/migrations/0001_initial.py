from django.db import migrations, models
import django.core.validators
import django.db.models.deletion

from muster.common.migrations import InitialMigration
import muster.common.models
import scheduler.diagnosis.screening


class Migration(InitialMigration):
    dependencies = [
        ('fleet', '0001_initial'),
        ('jobs', '0001_initial'),
        ('tenants', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel('PoolScreening', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('pool', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='screening', to='fleet.pool')),
            ('screening_pool', models.ForeignKey(help_text='Where its jobs are screened; it needs few GPUs.', on_delete=django.db.models.deletion.PROTECT, related_name='screens', to='fleet.pool')),
            ('min_gpus', models.PositiveIntegerField(default=2, help_text='A job of more GPUs than these is screened.', validators=[django.core.validators.MinValueValidator(1)])),
            ('minutes', models.FloatField(default=5, help_text="How long a screening run is; it ends before that with the job's first step.", validators=[django.core.validators.MaxValueValidator(120.0)])),
            ('world', models.PositiveSmallIntegerField(choices=[(1, 'one'), (2, 'two, or one where no two are free')], default=2, help_text='On how many GPUs a job is screened.')),
            ('max_wait_s', models.FloatField(default=600, help_text='A job that has waited for its screening run for so long goes on unscreened.', validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(86400.0)])),
            ('trust_days', models.FloatField(default=7, help_text='What has passed is not screened again for so long; 0: it always is.', validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(365.0)])),
            ('tenant_gpus', models.PositiveIntegerField(default=2, help_text='How many GPUs of the screening pool the runs of one tenant may hold at once.', validators=[django.core.validators.MinValueValidator(1)])),
        ], {'verbose_name': 'screening of pools', 'verbose_name_plural': 'screening of pools', 'constraints': [
            models.CheckConstraint(condition=models.Q(('pool', models.F('screening_pool')), _negated=True), name='screening_in_another_pool'),
            models.CheckConstraint(condition=models.Q(('min_gpus__gte', 1), ('minutes__gt', 0), ('minutes__lte', 120.0), ('world__in', [1, 2]), ('max_wait_s__gte', 0), ('max_wait_s__lte', 86400.0), ('trust_days__gte', 0), ('trust_days__lte', 365.0), ('tenant_gpus__gte', 1)), name='screening_has_sense'),
        ]}),
        migrations.CreateModel('ScreeningResult', [
            ('id', models.BigAutoField(primary_key=True, serialize=False)),
            ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='screening_results', to='jobs.job')),
            ('tenant', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='screening_results', to='tenants.tenant')),
            ('pool', models.ForeignKey(help_text='Of its gang.', on_delete=django.db.models.deletion.PROTECT, related_name='screening_results', to='fleet.pool')),
            ('attempt', models.OneToOneField(help_text='None: the job was not screened.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='jobs.attempt')),
            ('verdict', models.CharField(choices=[('passed', 'passed'), ('failed', 'failed'), ('inconclusive', 'inconclusive'), ('interrupted', 'interrupted'), ('untried', 'untried'), ('trusted', 'trusted')], max_length=12)),
            ('detail', models.CharField(blank=True, default='', help_text='Why, in words.', max_length=500)),
            ('failure', models.CharField(blank=True, default='', help_text='The class of its failure.', max_length=60)),
            ('line', models.CharField(blank=True, default='', max_length=400)),
            ('hint', models.TextField(blank=True, default='')),
            ('digest', models.CharField(help_text='SHA-256 of what it runs: scheduler.diagnosis.screening.', max_length=64)),
            ('gpus_asked', models.PositiveIntegerField(help_text='By the job, for its whole gang.')),
            ('gpus', models.PositiveIntegerField(default=0, help_text='Of the screening run.')),
            ('waited_s', models.FloatField(default=0, help_text='For the run, also where it never started.')),
            ('ran_s', models.FloatField(default=0)),
            ('spent_gpu_s', models.FloatField(default=0)),
            ('full_gpu_s', models.FloatField(default=0)),
            ('saved_gpu_s', models.FloatField(default=0)),
            ('at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
        ], {'constraints': [
            models.CheckConstraint(condition=models.Q(('verdict__in', ['failed', 'inconclusive', 'interrupted', 'passed', 'trusted', 'untried'])), name='screening_verdict_known'),
            models.CheckConstraint(condition=models.Q(('verdict', scheduler.diagnosis.screening.ScreeningVerdict['FAILED']), ('saved_gpu_s', 0), _connector='OR'), name='screening_saves_by_failing'),
        ], 'indexes': [
            models.Index(condition=models.Q(('verdict', scheduler.diagnosis.screening.ScreeningVerdict['PASSED'])), fields=['tenant', 'digest', '-at'], name='screening_passed'),
            models.Index(fields=['at'], name='screening_result_at'),
        ]}),
    ]
