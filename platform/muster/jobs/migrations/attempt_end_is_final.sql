-- An attempt that has ended keeps its state.

CREATE FUNCTION jobs_attempt_end_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'attempt % of job % has ended as % and cannot become %',
        OLD.number, OLD.job_id, OLD.state, NEW.state
        USING ERRCODE = 'check_violation', CONSTRAINT = 'attempt_end_is_final';
END $$;

CREATE TRIGGER attempt_end_is_final BEFORE UPDATE OF state ON jobs_attempt FOR EACH ROW
    WHEN (OLD.ended_at IS NOT NULL AND NEW.state IS DISTINCT FROM OLD.state)
    EXECUTE FUNCTION jobs_attempt_end_is_final();
