from django.conf import settings
from django.db import migrations, models
import django.db.models.deletion

from muster.common.migrations import InitialMigration
import muster.common.models


class Migration(InitialMigration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel('Preferences', [
            ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='notice_preferences', serialize=False, to=settings.AUTH_USER_MODEL)),
            ('mail', models.JSONField(help_text='Kinds that are told by mail.')),
            ('webhook', models.JSONField(help_text="Kinds that are told by the user's webhooks.")),
            ('weekly_digest', models.BooleanField(default=False)),
            ('digest_through', models.DateField(help_text='The Monday up to which digests were sent.', null=True)),
        ], {'verbose_name_plural': 'preferences', 'indexes': [
            models.Index(condition=models.Q(('weekly_digest', True)), fields=['digest_through'], name='digest_wanted'),
        ]}),
        migrations.CreateModel('Webhook', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='webhooks', to=settings.AUTH_USER_MODEL)),
            ('url', models.CharField(max_length=1000)),
            ('sealed_secret', models.TextField(editable=False)),
            ('created_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
            ('disabled_at', models.DateTimeField(blank=True, null=True)),
            ('disabled_by', models.CharField(blank=True, default='', help_text='Empty: by its failures.', max_length=150)),
            ('reason', models.CharField(blank=True, default='', help_text='Why it is disabled.', max_length=500)),
            ('failures', models.PositiveIntegerField(default=0, help_text='Tries since the last one that went well.')),
            ('failing_since', models.DateTimeField(blank=True, null=True)),
            ('not_before', models.DateTimeField(blank=True, help_text='When the next try may be, after a failure.', null=True)),
            ('last_try_at', models.DateTimeField(blank=True, null=True)),
            ('last_success_at', models.DateTimeField(blank=True, null=True)),
            ('last_result', models.CharField(blank=True, default='', max_length=300)),
        ], {'constraints': [
            models.UniqueConstraint(fields=('user', 'url'), name='webhook_once'),
        ]}),
        migrations.CreateModel('Notice', [
            ('id', models.BigAutoField(primary_key=True, serialize=False)),
            ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='notices', to=settings.AUTH_USER_MODEL)),
            ('at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
            ('kind', models.CharField(max_length=40)),
            ('job_id', models.BigIntegerField()),
            ('subject', models.CharField(max_length=300)),
            ('line', models.CharField(blank=True, default='', max_length=500)),
            ('signature', models.CharField(blank=True, default='', help_text='Of failures that are alike.', max_length=64)),
            ('mail_id', models.UUIDField(help_text='The mail that told it.', null=True)),
            ('told_at', models.DateTimeField(null=True)),
            ('due_at', models.DateTimeField(null=True)),
        ], {'constraints': [
            models.CheckConstraint(condition=models.Q(models.Q(('due_at__isnull', True), ('mail_id__isnull', False), ('told_at__isnull', False)), models.Q(('due_at__isnull', False), ('mail_id__isnull', True), ('told_at__isnull', True)), _connector='OR'), name='notice_told_or_due'),
        ], 'indexes': [
            models.Index(condition=models.Q(('told_at__isnull', False)), fields=['user', 'told_at'], name='notice_told'),
            models.Index(condition=models.Q(('due_at__isnull', False)), fields=['due_at'], name='notice_due'),
            models.Index(condition=models.Q(('signature', ''), _negated=True), fields=['user', 'signature', 'told_at'], name='notice_alike'),
        ]}),
        migrations.CreateModel('Reader', [
            ('id', models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
            ('tx', models.BigIntegerField()),
            ('event_id', models.BigIntegerField()),
        ], {'constraints': [
            models.CheckConstraint(condition=models.Q(('id', 1)), name='one_reader_of_events'),
        ]}),
    ]
