import django.db.models.deletion
import muster.common.models
import scheduler.health
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('fleet', '0013_maintenance'),
    ]

    operations = [
        migrations.CreateModel(
            name='HealthReport',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('kind', models.CharField(max_length=60)),
                ('xid', models.PositiveIntegerField(null=True)),
                ('level', models.CharField(choices=[('ok', 'ok'), ('warning', 'warning'), ('failure', 'failure')], max_length=10)),
                ('action', models.CharField(choices=[('none', 'none'), ('restart_job', 'restart_job'), ('reset_gpu', 'reset_gpu'), ('drain_gpu', 'drain_gpu'), ('drain_node', 'drain_node')], max_length=20)),
                ('words', models.CharField(help_text='What it means.', max_length=200)),
                ('detail', models.CharField(blank=True, default='', help_text='What the agent wrote.', max_length=500)),
                ('count', models.PositiveIntegerField(default=1)),
                ('at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
                ('last_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
                ('over_at', models.DateTimeField(help_text='Since when it no longer counts.', null=True)),
            ],
        ),
        migrations.RemoveConstraint(
            model_name='strike',
            name='strike_reason_known',
        ),
        migrations.AddField(
            model_name='gpu',
            name='health',
            field=models.CharField(choices=[('ok', 'ok'), ('warning', 'warning'), ('failure', 'failure')], default=scheduler.health.Level['OK'], max_length=10),
        ),
        migrations.AddField(
            model_name='gpu',
            name='health_at',
            field=models.DateTimeField(help_text='Since when it is so; null for one that always was well.', null=True),
        ),
        migrations.AddField(
            model_name='gpu',
            name='health_why',
            field=models.CharField(blank=True, default='', help_text='Why it is not well.', max_length=200),
        ),
        migrations.RunSQL(
            "UPDATE fleet_gpu SET health = 'failure', health_at = now(), health_why = 'unhealthy before levels'"
            ' WHERE NOT healthy',
            migrations.RunSQL.noop,
        ),
        # A column cannot become a generated one.
        migrations.RemoveField(model_name='gpu', name='healthy'),
        migrations.AddField(
            model_name='gpu',
            name='healthy',
            field=models.GeneratedField(db_persist=True, expression=models.Q(('health', 'failure'), _negated=True), output_field=models.BooleanField()),
        ),
        migrations.AlterField(
            model_name='strike',
            name='reason',
            field=models.CharField(choices=[('node_lost', 'node_lost'), ('node_rebooted', 'node_rebooted'), ('not_claimed', 'not_claimed'), ('never_started', 'never_started'), ('launch_failed', 'launch_failed'), ('gpu_lost', 'gpu_lost'), ('gpu_ecc', 'gpu_ecc'), ('gpu_failed', 'gpu_failed'), ('told_by_jobs', 'told_by_jobs')], max_length=20),
        ),
        migrations.AddConstraint(
            model_name='gpu',
            constraint=models.CheckConstraint(condition=models.Q(('health__in', ['failure', 'ok', 'warning'])), name='gpu_health_known'),
        ),
        migrations.AddConstraint(
            model_name='strike',
            constraint=models.CheckConstraint(condition=models.Q(('reason__in', ['gpu_ecc', 'gpu_failed', 'gpu_lost', 'launch_failed', 'never_started', 'node_lost', 'node_rebooted', 'not_claimed', 'told_by_jobs'])), name='strike_reason_known'),
        ),
        migrations.AddField(
            model_name='healthreport',
            name='gpu',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='health_reports', to='fleet.gpu'),
        ),
        migrations.AddField(
            model_name='healthreport',
            name='node',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='health_reports', to='fleet.node'),
        ),
        migrations.AddIndex(
            model_name='healthreport',
            index=models.Index(fields=['node', '-at'], name='health_of_node'),
        ),
        migrations.AddConstraint(
            model_name='healthreport',
            constraint=models.CheckConstraint(condition=models.Q(('level__in', ['failure', 'ok', 'warning'])), name='health_report_level_known'),
        ),
        migrations.AddConstraint(
            model_name='healthreport',
            constraint=models.CheckConstraint(condition=models.Q(('action__in', ['drain_gpu', 'drain_node', 'none', 'reset_gpu', 'restart_job'])), name='health_report_action_known'),
        ),
    ]
