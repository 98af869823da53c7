"""Names the results of screening runs by what they are."""

import django.core.validators
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("fleet", "0027_restore"),
        ("jobs", "0030_attempt_request"),
        ("screening", "0001_squashed_0002_names"),
        ("tenants", "0006_wait_for_hardware"),
    ]

    operations = [
        migrations.RenameModel(old_name="Trial", new_name="ScreeningResult"),
        migrations.RemoveConstraint(
            model_name='screeningresult',
            name='trial_verdict_known',
        ),
        migrations.RemoveConstraint(
            model_name='screeningresult',
            name='trial_saves_by_failing',
        ),
        migrations.RenameIndex(
            model_name='screeningresult',
            new_name='screening_passed',
            old_name='trial_passed',
        ),
        migrations.RenameIndex(
            model_name='screeningresult',
            new_name='screening_result_at',
            old_name='trial_at',
        ),
        migrations.AlterField(
            model_name='poolscreening',
            name='max_wait_s',
            field=models.FloatField(default=600, help_text='A job that has waited for its screening run for so long goes on unscreened.', validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(86400.0)]),
        ),
        migrations.AlterField(
            model_name='poolscreening',
            name='min_gpus',
            field=models.PositiveIntegerField(default=2, help_text='A job of more GPUs than these is screened.', validators=[django.core.validators.MinValueValidator(1)]),
        ),
        migrations.AlterField(
            model_name='poolscreening',
            name='minutes',
            field=models.FloatField(default=5, help_text="How long a screening run is; it ends before that with the job's first step.", validators=[django.core.validators.MaxValueValidator(120.0)]),
        ),
        migrations.AlterField(
            model_name='poolscreening',
            name='screening_pool',
            field=models.ForeignKey(help_text='Where its jobs are screened; it needs few GPUs.', on_delete=django.db.models.deletion.PROTECT, related_name='screens', to='fleet.pool'),
        ),
        migrations.AlterField(
            model_name='poolscreening',
            name='tenant_gpus',
            field=models.PositiveIntegerField(default=2, help_text='How many GPUs of the screening pool the runs of one tenant may hold at once.', validators=[django.core.validators.MinValueValidator(1)]),
        ),
        migrations.AlterField(
            model_name='poolscreening',
            name='trust_days',
            field=models.FloatField(default=7, help_text='What has passed is not screened again for so long; 0: it always is.', validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(365.0)]),
        ),
        migrations.AlterField(
            model_name='poolscreening',
            name='world',
            field=models.PositiveSmallIntegerField(choices=[(1, 'one'), (2, 'two, or one where no two are free')], default=2, help_text='On how many GPUs a job is screened.'),
        ),
        migrations.AlterField(
            model_name='screeningresult',
            name='attempt',
            field=models.OneToOneField(help_text='None: the job was not screened.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='jobs.attempt'),
        ),
        migrations.AlterField(
            model_name='screeningresult',
            name='gpus',
            field=models.PositiveIntegerField(default=0, help_text='Of the screening run.'),
        ),
        migrations.AlterField(
            model_name='screeningresult',
            name='job',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='screening_results', to='jobs.job'),
        ),
        migrations.AlterField(
            model_name='screeningresult',
            name='pool',
            field=models.ForeignKey(help_text='Of its gang.', on_delete=django.db.models.deletion.PROTECT, related_name='screening_results', to='fleet.pool'),
        ),
        migrations.AlterField(
            model_name='screeningresult',
            name='tenant',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='screening_results', to='tenants.tenant'),
        ),
        migrations.AlterField(
            model_name='screeningresult',
            name='waited_s',
            field=models.FloatField(default=0, help_text='For the run, also where it never started.'),
        ),
        migrations.AddConstraint(
            model_name='screeningresult',
            constraint=models.CheckConstraint(condition=models.Q(('verdict__in', ['failed', 'inconclusive', 'interrupted', 'passed', 'trusted', 'untried'])), name='screening_verdict_known'),
        ),
        migrations.AddConstraint(
            model_name='screeningresult',
            constraint=models.CheckConstraint(condition=models.Q(('verdict', 'failed'), ('saved_gpu_s', 0), _connector='OR'), name='screening_saves_by_failing'),
        ),
    ]
