-- A released allocation holds no GPUs.

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
