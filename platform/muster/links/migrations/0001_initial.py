from django.db import migrations, models
import django.db.models.deletion

from muster.common.migrations import InitialMigration
import muster.common.models
import muster.links.models


class Migration(InitialMigration):
    dependencies = [
        ('fleet', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel('Server', [
            ('node', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='server', serialize=False, to='fleet.node')),
            ('host', models.CharField(max_length=253)),
            ('port', models.PositiveIntegerField(default=22)),
            ('user', models.CharField(max_length=64)),
            ('host_key', models.TextField(blank=True, default='', help_text='What the server must show: its key or the SHA256.')),
            ('sealed_key', models.TextField(editable=False)),
            ('sealed_credential', models.TextField(editable=False)),
            ('public_key', models.TextField(editable=False, help_text='What the server must list in authorized_keys.')),
            ('folder', models.CharField(blank=True, default='', max_length=200)),
            ('options', models.CharField(blank=True, default='', max_length=500)),
            ('version', models.BigIntegerField(default=1)),
            ('step', models.CharField(choices=[('install', 'install'), ('link', 'link')], default=muster.links.models.Step['INSTALL'], max_length=10)),
            ('state', models.CharField(choices=[('installing', 'installing'), ('connecting', 'connecting'), ('up', 'up'), ('lost', 'lost'), ('name_unresolved', 'name_unresolved'), ('unreachable', 'unreachable'), ('host_key_unknown', 'host_key_unknown'), ('host_key_changed', 'host_key_changed'), ('key_unreadable', 'key_unreadable'), ('authentication_refused', 'authentication_refused'), ('no_python', 'no_python'), ('no_space', 'no_space'), ('not_writable', 'not_writable'), ('upload_failed', 'upload_failed'), ('start_failed', 'start_failed'), ('not_running', 'not_running'), ('broken', 'broken')], default=muster.links.models.LinkState['INSTALLING'], max_length=24)),
            ('reason', models.TextField(blank=True, default='')),
            ('since', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
            ('tries', models.PositiveIntegerField(default=0)),
            ('due_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
            ('token', models.CharField(blank=True, default='', max_length=43)),
        ], {'verbose_name': 'server over SSH', 'verbose_name_plural': 'servers over SSH', 'constraints': [
            models.CheckConstraint(condition=models.Q(('step__in', ['install', 'link'])), name='server_step_known'),
            models.CheckConstraint(condition=models.Q(('state__in', ['authentication_refused', 'broken', 'connecting', 'host_key_changed', 'host_key_unknown', 'installing', 'key_unreadable', 'lost', 'name_unresolved', 'no_python', 'no_space', 'not_running', 'not_writable', 'start_failed', 'unreachable', 'up', 'upload_failed'])), name='server_state_known'),
            models.CheckConstraint(condition=models.Q(('port__gte', 1), ('port__lte', 65535)), name='server_port_in_range'),
            models.CheckConstraint(condition=models.Q(('host__regex', '^[A-Za-z0-9_:][A-Za-z0-9_.:-]*$')), name='server_host_plain'),
            models.CheckConstraint(condition=models.Q(('user__regex', '^[A-Za-z0-9_][A-Za-z0-9_.@-]*$')), name='server_user_plain'),
        ], 'indexes': [
            models.Index(fields=['step', 'due_at'], name='server_due'),
        ]}),
    ]
