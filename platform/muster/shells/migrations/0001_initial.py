from django.conf import settings
from django.db import migrations, models
import django.db.models.deletion

from muster.common.migrations import InitialMigration
import muster.common.models
import muster.shells.models
import scheduler.model.lifecycle


class Migration(InitialMigration):
    dependencies = [
        ('jobs', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel('Shell', [
            ('id', models.BigAutoField(primary_key=True, serialize=False)),
            ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='shells', to='jobs.job')),
            ('allocation', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='shells', to='jobs.allocation')),
            ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='shells', to=settings.AUTH_USER_MODEL)),
            ('api_token', models.ForeignKey(help_text='What the user asked for it with.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='accounts.apitoken')),
            ('address', models.GenericIPAddressField(help_text='Where the user asked from.', null=True)),
            ('state', models.CharField(choices=[('requested', 'requested'), ('open', 'open'), ('closed', 'closed')], default=scheduler.model.lifecycle.ShellState['REQUESTED'], max_length=10)),
            ('reason', models.CharField(blank=True, choices=[('exited', 'exited'), ('not_started', 'not_started'), ('not_opened', 'not_opened'), ('left', 'left'), ('client_lost', 'client_lost'), ('agent_lost', 'agent_lost'), ('job_ended', 'job_ended'), ('idle', 'idle'), ('time_limit', 'time_limit'), ('access_ended', 'access_ended'), ('switched_off', 'switched_off')], default='', max_length=20)),
            ('detail', models.CharField(blank=True, default='', max_length=500)),
            ('exit_code', models.IntegerField(null=True)),
            ('token_digest', models.CharField(max_length=64)),
            ('epoch', models.BigIntegerField(help_text='The run of the agent that opened it.', null=True)),
            ('command', models.JSONField(default=list, help_text='Forgotten when it has ended.')),
            ('terminal', models.BooleanField()),
            ('term', models.CharField(max_length=64)),
            ('rows', models.PositiveSmallIntegerField()),
            ('cols', models.PositiveSmallIntegerField()),
            ('requested_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
            ('opened_at', models.DateTimeField(null=True)),
            ('closed_at', models.DateTimeField(null=True)),
        ], {'constraints': [
            models.CheckConstraint(condition=models.Q(('state__in', ['closed', 'open', 'requested'])), name='shell_state_known'),
            models.CheckConstraint(condition=models.Q(models.Q(('reason', ''), ('state__in', [scheduler.model.lifecycle.ShellState['OPEN'], scheduler.model.lifecycle.ShellState['REQUESTED']])), models.Q(('reason__in', [muster.shells.models.ShellReason['ACCESS_ENDED'], muster.shells.models.ShellReason['AGENT_LOST'], muster.shells.models.ShellReason['CLIENT_LOST'], muster.shells.models.ShellReason['EXITED'], muster.shells.models.ShellReason['IDLE'], muster.shells.models.ShellReason['JOB_ENDED'], muster.shells.models.ShellReason['LEFT'], muster.shells.models.ShellReason['NOT_OPENED'], muster.shells.models.ShellReason['NOT_STARTED'], muster.shells.models.ShellReason['SWITCHED_OFF'], muster.shells.models.ShellReason['TIME_LIMIT']]), ('state', scheduler.model.lifecycle.ShellState['CLOSED'])), _connector='OR'), name='shell_closed_has_reason'),
            models.CheckConstraint(condition=models.Q(models.Q(('closed_at__isnull', False), ('state', scheduler.model.lifecycle.ShellState['CLOSED'])), models.Q(models.Q(('state', scheduler.model.lifecycle.ShellState['CLOSED']), _negated=True), ('closed_at__isnull', True)), _connector='OR'), name='shell_closed_has_time'),
            models.CheckConstraint(condition=models.Q(models.Q(('state', scheduler.model.lifecycle.ShellState['OPEN']), _negated=True), models.Q(('epoch__isnull', False), ('opened_at__isnull', False)), _connector='OR'), name='shell_open_has_agent'),
        ], 'indexes': [
            models.Index(condition=models.Q(('state__in', [scheduler.model.lifecycle.ShellState['OPEN'], scheduler.model.lifecycle.ShellState['REQUESTED']])), fields=['allocation'], name='shell_live'),
            models.Index(condition=models.Q(('state__in', [scheduler.model.lifecycle.ShellState['OPEN'], scheduler.model.lifecycle.ShellState['REQUESTED']])), fields=['user'], name='shell_live_of_user'),
        ]}),
    ]
