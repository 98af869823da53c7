-- A database of the last version before 0.1.0 becomes one of 0.1.0: tables and content types of merged apps get their
-- present names. Constraints and indexes keep names that Postgres or Django have made for them.

ALTER TABLE logrules_logrulebook RENAME TO failures_logrulebook;
ALTER TABLE logrules_logmatch RENAME TO failures_logmatch;
ALTER TABLE idle_idlewatch RENAME TO monitoring_idlewatch;
ALTER TABLE training_series RENAME TO monitoring_series;
ALTER TABLE training_jobadvice RENAME TO monitoring_jobadvice;
ALTER TABLE training_logplace RENAME TO monitoring_logplace;
ALTER TABLE training_failurerate RENAME TO monitoring_failurerate;

ALTER SEQUENCE logrules_logrulebook_id_seq RENAME TO failures_logrulebook_id_seq;
ALTER SEQUENCE logrules_logmatch_id_seq RENAME TO failures_logmatch_id_seq;
ALTER SEQUENCE training_series_id_seq RENAME TO monitoring_series_id_seq;
ALTER SEQUENCE training_jobadvice_id_seq RENAME TO monitoring_jobadvice_id_seq;
ALTER SEQUENCE screening_trial_id_seq RENAME TO screening_screeningresult_id_seq;

-- Which of two boots registered later is told by their nonces.
ALTER TABLE fleet_node DROP COLUMN past_boots;

-- The same rule as before, in the words of the model.
ALTER TABLE jobs_job DROP CONSTRAINT job_screened_with_request, ADD CONSTRAINT job_screened_with_request
    CHECK ((screening IS NULL AND stage = 'full') OR (screening IS NOT NULL AND stage = 'screening'));

UPDATE django_content_type SET app_label = 'failures' WHERE app_label = 'logrules';
UPDATE django_content_type SET app_label = 'monitoring' WHERE app_label IN ('idle', 'training');
