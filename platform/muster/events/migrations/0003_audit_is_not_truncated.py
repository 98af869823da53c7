"""Audit rows cannot be removed all at once either: TRUNCATE fires no trigger of rows, so it has one of its own.

There is deliberately no setting that opens it: any session can set a setting, so one would be a way around the promise.
Tests that must empty the table disable the trigger, which changes the schema for everybody to see.
"""

from django.db import migrations

CREATE = """
CREATE TRIGGER audit_is_not_truncated BEFORE TRUNCATE ON events_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION events_audit_is_final();
"""

DROP = """
DROP TRIGGER audit_is_not_truncated ON events_auditentry;
"""


class Migration(migrations.Migration):
    dependencies = [("events", "0002_audit_rows_never_change")]
    operations = [migrations.RunSQL(CREATE, DROP)]
