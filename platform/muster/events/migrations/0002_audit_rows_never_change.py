"""Audit rows can be added and read, and neither changed nor removed."""

from django.db import migrations

CREATE = """
CREATE FUNCTION events_audit_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit rows never change' USING ERRCODE = 'insufficient_privilege';
END $$;

CREATE TRIGGER audit_is_final BEFORE UPDATE OR DELETE ON events_auditentry
    FOR EACH ROW EXECUTE FUNCTION events_audit_is_final();
"""

DROP = """
DROP TRIGGER audit_is_final ON events_auditentry;
DROP FUNCTION events_audit_is_final();
"""


class Migration(migrations.Migration):
    dependencies = [("events", "0001_initial")]
    operations = [migrations.RunSQL(CREATE, DROP)]
