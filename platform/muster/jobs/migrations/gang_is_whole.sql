-- A live attempt that commits has exactly the allocations and the GPUs of its request, and no GPU of another type.

CREATE FUNCTION jobs_gang_is_whole() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wanted_nodes integer;
    wanted_gpus integer;
    wanted_type text := NEW.request #>> '{choices,0,gpu_type}';
    found_nodes integer;
    found_gpus integer;
BEGIN
    wanted_nodes := (NEW.request ->> 'nodes')::integer;
    wanted_gpus := wanted_nodes * (NEW.request #>> '{choices,0,gpus}')::integer;
    SELECT count(*) INTO found_nodes FROM jobs_allocation WHERE attempt_id = NEW.id;
    SELECT count(*) FILTER (WHERE wanted_type IS NULL OR gpu.type = wanted_type) INTO found_gpus
        FROM jobs_gpuclaim claim JOIN jobs_allocation held ON held.id = claim.allocation_id
        JOIN fleet_gpu gpu ON gpu.id = claim.gpu_id WHERE held.attempt_id = NEW.id;
    IF found_nodes <> wanted_nodes OR found_gpus <> wanted_gpus THEN
        RAISE EXCEPTION 'attempt % of job % has % nodes and % GPUs; it was given % and %',
            NEW.number, NEW.job_id, found_nodes, found_gpus, wanted_nodes, wanted_gpus
            USING ERRCODE = 'check_violation', CONSTRAINT = 'gang_is_whole';
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER gang_is_whole AFTER INSERT ON jobs_attempt
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION jobs_gang_is_whole();
