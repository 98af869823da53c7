from django.db import migrations, models
import django.db.models.deletion

from muster.common.migrations import InitialMigration


class Migration(InitialMigration):
    dependencies = [
        ('jobs', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel('Trial', [
            ('job', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='trial', serialize=False, to='jobs.job')),
            ('value', models.FloatField(help_text='The best that it has reported.', null=True)),
            ('value_step', models.FloatField(help_text='Where it reported that.', null=True)),
            ('score', models.FloatField(help_text='The value, so that less is better.', null=True)),
            ('step', models.FloatField(help_text='The highest step that it has reported.', null=True)),
            ('readings', models.JSONField(default=list, help_text='At each rung that it has reached: when, and the value then; null: no finite number.')),
            ('stopped_at', models.DateTimeField(help_text='When the sweep gave up on it.', null=True)),
            ('why', models.CharField(blank=True, default='', help_text='Why the sweep stopped or paused it.', max_length=500)),
            ('saved_gpu_s', models.FloatField(default=0, help_text='GPU-seconds that its steps to come would have cost.')),
        ]),
        migrations.CreateModel('Progress', [
            ('group', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='progress', serialize=False, to='jobs.jobgroup')),
            ('looked_at', models.DateTimeField(help_text="When its members' reports were last taken over.", null=True)),
            ('best_so_far', models.JSONField(default=list, help_text='Seconds since the submission, and the best value then.')),
        ], {'verbose_name_plural': 'progress'}),
    ]
