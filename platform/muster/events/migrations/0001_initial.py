from django.db import migrations, models

from muster.common.migrations import InitialMigration, sql_file
import muster.common.models


class Migration(InitialMigration):
    dependencies = []

    operations = [
        migrations.CreateModel('Event', [
            ('id', models.BigAutoField(primary_key=True, serialize=False)),
            ('tx', models.BigIntegerField(db_default=muster.common.models.CurrentTransactionId())),
            ('at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
            ('kind', models.CharField(max_length=64)),
            ('actor', models.CharField(max_length=200)),
            ('tenant_id', models.BigIntegerField(null=True)),
            ('job_id', models.BigIntegerField(null=True)),
            ('node_id', models.BigIntegerField(null=True)),
            ('data', models.JSONField(default=dict)),
        ], {'indexes': [
            models.Index(fields=['tx', 'id'], name='event_order'),
            models.Index(condition=models.Q(('job_id__isnull', False)), fields=['job_id', 'tx', 'id'], name='event_of_job'),
            models.Index(condition=models.Q(('node_id__isnull', False)), fields=['node_id', 'id'], name='event_of_node'),
        ]}),
        migrations.CreateModel('Restore', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('at', models.DateTimeField(db_default=muster.common.models.DatabaseNow(), help_text="When no agent's call could be answered any more.")),
            ('backup_at', models.DateTimeField(help_text='The moment that the backup shows.')),
            ('nodes_known', models.BooleanField(help_text='Whether an operator said that no agent joined after the backup, so that all nodes are known.')),
            ('last_job', models.BigIntegerField(help_text='The highest id of a job that may have been given before the restore.')),
            ('last_uid', models.BigIntegerField(help_text='The highest uid that may have been given before the restore.')),
            ('unknown', models.JSONField(default=list, help_text='The allocations that agents reported and that began after the backup.')),
            ('resumed_at', models.DateTimeField(help_text='When jobs were placed again.', null=True)),
        ]),
        migrations.CreateModel('AuditEntry', [
            ('id', models.BigAutoField(primary_key=True, serialize=False)),
            ('at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
            ('actor', models.CharField(max_length=200)),
            ('action', models.CharField(max_length=64)),
            ('object_type', models.CharField(max_length=64)),
            ('object_id', models.CharField(max_length=200)),
            ('before', models.JSONField(null=True)),
            ('after', models.JSONField(null=True)),
            ('address', models.GenericIPAddressField(help_text='Where the request came from; null: from no request.', null=True)),
        ], {'verbose_name_plural': 'audit entries', 'indexes': [
            models.Index(fields=['object_type', 'object_id', '-id'], name='audit_of_object'),
        ]}),
        migrations.CreateModel('Outbox', [
            ('id', models.BigAutoField(primary_key=True, serialize=False)),
            ('topic', models.CharField(max_length=64)),
            ('payload', models.JSONField()),
            ('created_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
            ('due_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
            ('tries', models.PositiveIntegerField(default=0)),
            ('last_error', models.TextField(blank=True, default='')),
            ('delivered_at', models.DateTimeField(null=True)),
            ('give_up_at', models.DateTimeField(blank=True, help_text='After it a failure is final; null: never.', null=True)),
            ('dropped_at', models.DateTimeField(blank=True, help_text='When it was given up.', null=True)),
        ], {'verbose_name_plural': 'outbox', 'indexes': [
            models.Index(condition=models.Q(('delivered_at__isnull', True), ('dropped_at__isnull', True)), fields=['due_at', 'topic'], name='outbox_waiting'),
            models.Index(condition=models.Q(('delivered_at__isnull', False), ('dropped_at__isnull', False), _connector='OR'), fields=['created_at'], name='outbox_over'),
        ]}),
        sql_file(__file__, 'audit_is_final.sql'),
    ]
