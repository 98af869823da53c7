"""A live attempt that commits has exactly the allocations and GPUs that its job asked for."""

from django.db import migrations

CREATE = """
CREATE FUNCTION jobs_gang_is_whole() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wanted_nodes integer;
    wanted_gpus integer;
    found_nodes integer;
    found_gpus integer;
BEGIN
    SELECT nodes, nodes * gpus INTO wanted_nodes, wanted_gpus FROM jobs_job WHERE id = NEW.job_id;
    SELECT count(*) INTO found_nodes FROM jobs_allocation WHERE attempt_id = NEW.id;
    SELECT count(*) INTO found_gpus
        FROM jobs_gpuclaim claim JOIN jobs_allocation held ON held.id = claim.allocation_id
        WHERE held.attempt_id = NEW.id;
    IF found_nodes <> wanted_nodes OR found_gpus <> wanted_gpus THEN
        RAISE EXCEPTION 'attempt % of job % has % nodes and % GPUs; its job asks for % and %',
            NEW.number, NEW.job_id, found_nodes, found_gpus, wanted_nodes, wanted_gpus
            USING ERRCODE = 'check_violation', CONSTRAINT = 'gang_is_whole';
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER gang_is_whole AFTER INSERT ON jobs_attempt
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION jobs_gang_is_whole();

CREATE FUNCTION jobs_attempt_end_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'attempt % of job % has ended as % and cannot become %',
        OLD.number, OLD.job_id, OLD.state, NEW.state
        USING ERRCODE = 'check_violation', CONSTRAINT = 'attempt_end_is_final';
END $$;

CREATE TRIGGER attempt_end_is_final BEFORE UPDATE OF state ON jobs_attempt FOR EACH ROW
    WHEN (OLD.ended_at IS NOT NULL AND NEW.state IS DISTINCT FROM OLD.state)
    EXECUTE FUNCTION jobs_attempt_end_is_final();

CREATE FUNCTION jobs_claims_are_freed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM jobs_gpuclaim WHERE allocation_id = NEW.id AND released_at IS NULL) THEN
        RAISE EXCEPTION 'allocation % is released while it holds GPUs', NEW.id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'claims_are_freed';
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER claims_are_freed AFTER UPDATE OF state ON jobs_allocation
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.state = 'released')
    EXECUTE FUNCTION jobs_claims_are_freed();
"""

DROP = """
DROP TRIGGER claims_are_freed ON jobs_allocation;
DROP FUNCTION jobs_claims_are_freed();
DROP TRIGGER attempt_end_is_final ON jobs_attempt;
DROP FUNCTION jobs_attempt_end_is_final();
DROP TRIGGER gang_is_whole ON jobs_attempt;
DROP FUNCTION jobs_gang_is_whole();
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0001_initial")]
    operations = [migrations.RunSQL(CREATE, DROP)]
