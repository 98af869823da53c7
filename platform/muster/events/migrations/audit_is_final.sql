-- Audit rows can be added and read, and neither changed nor removed, also not all at once: TRUNCATE fires no trigger of
-- rows, so it has one of its own. There is deliberately no setting that opens it: any session can set a setting. Tests
-- that must empty the table disable the triggers, which changes the schema for everybody to see.

CREATE FUNCTION events_audit_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit rows never change' USING ERRCODE = 'insufficient_privilege';
END $$;

CREATE TRIGGER audit_is_final BEFORE UPDATE OR DELETE ON events_auditentry
    FOR EACH ROW EXECUTE FUNCTION events_audit_is_final();

CREATE TRIGGER audit_is_not_truncated BEFORE TRUNCATE ON events_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION events_audit_is_final();
