import django.db.models.deletion
import muster.common.models
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('dispatch', '0001_initial'), ('dispatch', '0002_failed_and_preempting_cycles')]

    initial = True

    dependencies = [
        ('fleet', '0001_squashed_0018_kept'),
    ]

    operations = [
        migrations.CreateModel(
            name='Cycle',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('started_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
                ('trigger', models.CharField(help_text='hint, sweep or command', max_length=10)),
                ('snapshot_ms', models.FloatField(default=0)),
                ('decide_ms', models.FloatField(default=0)),
                ('apply_ms', models.FloatField(default=0)),
                ('waiting', models.PositiveIntegerField(default=0)),
                ('placed', models.PositiveIntegerField(default=0)),
                ('reserved', models.PositiveIntegerField(default=0, help_text='Jobs that start once others have stopped.')),
                ('preempted', models.PositiveIntegerField(default=0)),
                ('held', models.PositiveIntegerField(default=0)),
                ('repeats', models.PositiveIntegerField(default=0, help_text='How many later cycles changed nothing either.')),
                ('refused', models.PositiveIntegerField(default=0)),
                ('refusals', models.JSONField(default=list)),
                ('error', models.TextField(blank=True, default='', help_text='Why nothing of the plan was carried out.')),
                ('violations', models.JSONField(default=list, help_text='The invariants that the plan would have violated.')),
                ('snapshot', models.BinaryField(help_text='Compressed JSON.', null=True)),
                ('config', models.JSONField(null=True)),
                ('plan', models.BinaryField(help_text='Compressed JSON.', null=True)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='cycles', to='fleet.pool')),
            ],
            options={
                'indexes': [models.Index(fields=['pool', '-id'], name='cycle_of_pool')],
            },
        ),
    ]
