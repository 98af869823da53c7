from django.db import migrations, models
import django.core.validators
import django.db.models.deletion

from muster.common.migrations import InitialMigration
import muster.common.models


class Migration(InitialMigration):
    dependencies = [
        ('fleet', '0001_initial'),
        ('tenants', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel('Planner', [
            ('id', models.BigAutoField(primary_key=True, serialize=False)),
            ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='planners', to='fleet.pool')),
            ('name', models.CharField(max_length=63, validators=[django.core.validators.RegexValidator('\\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\Z', "Use a-z, 0-9 and '-', at most 63 characters.")])),
            ('policy', models.CharField(default='fifo', max_length=40)),
            ('policy_params', models.JSONField(blank=True, default=dict)),
            ('placement', models.CharField(default='consolidate', max_length=40)),
            ('placement_params', models.JSONField(blank=True, default=dict)),
            ('all_or_nothing', models.BooleanField(default=False, help_text='If another planner was faster for one place of a plan, nothing of the plan is applied.')),
            ('fallback', models.JSONField(blank=True, editable=False, null=True)),
        ], {'constraints': [
            models.UniqueConstraint(fields=('pool', 'name'), name='planner_name_once_a_pool'),
        ]}),
        migrations.CreateModel('PlannedCluster', [
            ('vc', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='planned_by', serialize=False, to='tenants.virtualcluster')),
            ('planner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='clusters', to='dispatch.planner')),
        ]),
        migrations.CreateModel('PolicyState', [
            ('policy', models.CharField(blank=True, default='', max_length=100)),
            ('version', models.PositiveIntegerField(default=0, help_text='The version in which the policy wrote its data.')),
            ('data', models.JSONField(default=dict)),
            ('wake_at', models.DateTimeField(db_index=True, null=True)),
            ('pool', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='policy_state', serialize=False, to='fleet.pool')),
        ]),
        migrations.CreateModel('PlannerState', [
            ('policy', models.CharField(blank=True, default='', max_length=100)),
            ('version', models.PositiveIntegerField(default=0, help_text='The version in which the policy wrote its data.')),
            ('data', models.JSONField(default=dict)),
            ('wake_at', models.DateTimeField(db_index=True, null=True)),
            ('planner', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='policy_state', serialize=False, to='dispatch.planner')),
        ]),
        migrations.CreateModel('Lane', [
            ('pool', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='lane', serialize=False, to='fleet.pool')),
            ('mode', models.CharField(choices=[('off', 'Off: cycles decide by the policy'), ('shadow', 'Shadow: targets are stored and compared'), ('on', 'On: cycles carry out targets')], default='shadow', max_length=6)),
            ('limit_s', models.PositiveIntegerField(default=30, help_text='A longer solve is discarded.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(3600)])),
            ('fill_policy', models.CharField(default='fifo', help_text='The policy by which cycles fill what a target leaves.', max_length=100)),
            ('fill_params', models.JSONField(blank=True, default=dict)),
        ]),
        migrations.CreateModel('Target', [
            ('id', models.BigAutoField(primary_key=True, serialize=False)),
            ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='targets', to='fleet.pool')),
            ('made_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
            ('solve_ms', models.FloatField(default=0)),
            ('state', models.CharField(choices=[('stored', 'Stored'), ('compared', 'Compared'), ('applied', 'Applied'), ('superseded', 'Superseded'), ('discarded', 'Discarded')], default='stored', max_length=10)),
            ('reason', models.TextField(blank=True, default='', help_text='Why it was discarded.')),
            ('places', models.PositiveIntegerField(default=0)),
            ('preempts', models.PositiveIntegerField(default=0)),
            ('dropped', models.JSONField(blank=True, default=dict, help_text='Why parts of it were not carried out, by job.')),
            ('agreement', models.JSONField(blank=True, default=dict, help_text='In shadow: where the cycles placed its jobs.')),
            ('wake_at', models.DateTimeField(help_text='When its policy wants to decide again without an event.', null=True)),
            ('config', models.JSONField()),
            ('snapshot', models.BinaryField(help_text='Compressed JSON.', null=True)),
            ('plan', models.BinaryField(help_text='Compressed JSON.', null=True)),
        ], {'indexes': [
            models.Index(fields=['pool', '-id'], name='target_of_pool'),
        ]}),
        migrations.CreateModel('Cycle', [
            ('id', models.BigAutoField(primary_key=True, serialize=False)),
            ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='cycles', to='fleet.pool')),
            ('started_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
            ('planner', models.CharField(blank=True, default='', help_text="Empty: the pool's default planner.", max_length=63)),
            ('trigger', models.CharField(help_text='hint, sweep, timer or command', max_length=10)),
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
            ('target', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='dispatch.target')),
        ], {'indexes': [
            models.Index(fields=['pool', '-id'], name='cycle_of_pool'),
        ]}),
    ]
