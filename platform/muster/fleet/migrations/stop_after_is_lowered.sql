-- Keeps the longer `stop_after_s` that was lowered, by any way: an agent may still go by what it was told before.

CREATE FUNCTION fleet_stop_after_is_lowered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.lowered_at + make_interval(secs => OLD.lowered_from_s) + interval '1 day' < clock_timestamp() THEN
        NEW.lowered_from_s := OLD.stop_after_s;  -- nobody goes by what was lowered before that
    ELSE
        NEW.lowered_from_s := GREATEST(OLD.lowered_from_s, OLD.stop_after_s);
    END IF;
    NEW.lowered_at := clock_timestamp();
    RETURN NEW;
END $$;

CREATE TRIGGER stop_after_is_lowered BEFORE UPDATE OF stop_after_s ON fleet_pool FOR EACH ROW
    WHEN (NEW.stop_after_s < OLD.stop_after_s) EXECUTE FUNCTION fleet_stop_after_is_lowered();
