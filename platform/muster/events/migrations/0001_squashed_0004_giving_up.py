import muster.common.models
from django.db import migrations, models

# Audit rows can be added and read, and neither changed nor removed, also not all at once: TRUNCATE fires no trigger of
# rows, so it has one of its own. There is deliberately no setting that opens it: any session can set a setting, so one
# would be a way around the promise. Tests that must empty the table disable the triggers, which changes the schema for
# everybody to see.
CREATE = """
CREATE FUNCTION events_audit_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit rows never change' USING ERRCODE = 'insufficient_privilege';
END $$;

CREATE TRIGGER audit_is_final BEFORE UPDATE OR DELETE ON events_auditentry
    FOR EACH ROW EXECUTE FUNCTION events_audit_is_final();

CREATE TRIGGER audit_is_not_truncated BEFORE TRUNCATE ON events_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION events_audit_is_final();
"""

DROP = """
DROP TRIGGER audit_is_not_truncated ON events_auditentry;
DROP TRIGGER audit_is_final ON events_auditentry;
DROP FUNCTION events_audit_is_final();
"""


class Migration(migrations.Migration):

    replaces = [('events', '0001_initial'), ('events', '0002_audit_rows_never_change'), ('events', '0003_audit_is_not_truncated'), ('events', '0004_giving_up')]

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
                ('actor', models.CharField(max_length=200)),
                ('action', models.CharField(max_length=64)),
                ('object_type', models.CharField(max_length=64)),
                ('object_id', models.CharField(max_length=200)),
                ('before', models.JSONField(null=True)),
                ('after', models.JSONField(null=True)),
            ],
            options={
                'verbose_name_plural': 'audit entries',
                'indexes': [models.Index(fields=['object_type', 'object_id', '-id'], name='audit_of_object')],
            },
        ),
        migrations.CreateModel(
            name='Event',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('tx', models.BigIntegerField(db_default=muster.common.models.CurrentTransactionId())),
                ('at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
                ('kind', models.CharField(max_length=64)),
                ('actor', models.CharField(max_length=200)),
                ('tenant_id', models.BigIntegerField(null=True)),
                ('job_id', models.BigIntegerField(null=True)),
                ('node_id', models.BigIntegerField(null=True)),
                ('data', models.JSONField(default=dict)),
            ],
            options={
                'indexes': [models.Index(fields=['tx', 'id'], name='event_order'), models.Index(condition=models.Q(('job_id__isnull', False)), fields=['job_id', 'tx', 'id'], name='event_of_job'), models.Index(condition=models.Q(('node_id__isnull', False)), fields=['node_id', 'id'], name='event_of_node')],
            },
        ),
        migrations.CreateModel(
            name='Outbox',
            fields=[
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
            ],
            options={
                'verbose_name_plural': 'outbox',
                'indexes': [models.Index(condition=models.Q(('delivered_at__isnull', True), ('dropped_at__isnull', True)), fields=['due_at', 'topic'], name='outbox_waiting'), models.Index(condition=models.Q(('delivered_at__isnull', False), ('dropped_at__isnull', False), _connector='OR'), fields=['created_at'], name='outbox_over')],
            },
        ),
        migrations.RunSQL(CREATE, DROP),
    ]
