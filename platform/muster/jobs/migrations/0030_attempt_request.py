"""Lets an attempt own what it was given to run with: its request in one choice, its time limit and its grace.

A screening run is an attempt whose request differs from the job's, so that its column `trial` goes. What a job stores of
the screening run that it waits for, or is in, gets the shape of `muster.jobs.attempt.runs.ScreeningRun`.
"""

from django.db import migrations, models

import muster.jobs.fields

_GANG_IS_WHOLE = """
CREATE OR REPLACE FUNCTION jobs_gang_is_whole() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    {declared}
    found_nodes integer;
    found_gpus integer;
BEGIN
    {wanted}
    SELECT count(*) INTO found_nodes FROM jobs_allocation WHERE attempt_id = NEW.id;
    {found}
    IF found_nodes <> wanted_nodes OR found_gpus <> wanted_gpus THEN
        RAISE EXCEPTION 'attempt % of job % has % nodes and % GPUs; {whose} and %',
            NEW.number, NEW.job_id, found_nodes, found_gpus, wanted_nodes, wanted_gpus
            USING ERRCODE = 'check_violation', CONSTRAINT = 'gang_is_whole';
    END IF;
    RETURN NULL;
END $$;
"""
_SIZES = "wanted_nodes integer; wanted_gpus integer;"
# A live attempt that commits has exactly the allocations and the GPUs of its request, and no GPU of another type.
GANG_OF_REQUEST = _GANG_IS_WHOLE.format(
    declared=f"{_SIZES} wanted_type text := NEW.request #>> '{{choices,0,gpu_type}}';",
    wanted="""wanted_nodes := (NEW.request ->> 'nodes')::integer;
    wanted_gpus := wanted_nodes * (NEW.request #>> '{choices,0,gpus}')::integer;""",
    found="""SELECT count(*) FILTER (WHERE wanted_type IS NULL OR gpu.type = wanted_type) INTO found_gpus
        FROM jobs_gpuclaim claim JOIN jobs_allocation held ON held.id = claim.allocation_id
        JOIN fleet_gpu gpu ON gpu.id = claim.gpu_id WHERE held.attempt_id = NEW.id;""",
    whose="it was given %",
)
GANG_OF_JOB = _GANG_IS_WHOLE.format(
    declared=_SIZES,
    wanted="""IF NEW.trial IS NOT NULL THEN
        wanted_nodes := (NEW.trial->>'nodes')::integer;
        wanted_gpus := wanted_nodes * (NEW.trial->>'gpus')::integer;
    ELSE
        SELECT nodes, nodes * gpus INTO wanted_nodes, wanted_gpus FROM jobs_job WHERE id = NEW.job_id;
    END IF;""",
    found="""SELECT count(*) INTO found_gpus
        FROM jobs_gpuclaim claim JOIN jobs_allocation held ON held.id = claim.allocation_id
        WHERE held.attempt_id = NEW.id;""",
    whose="its job asks for %",
)

# What a trial took, beside what its job asked for; a key that an old row lacks is as the job has it.
_OF_TRIAL = """job.request || jsonb_build_object(
    'choices', jsonb_build_array(jsonb_build_object(
        'gpu_type', CASE WHEN {gpus} > 0 THEN {gpu_type} END, 'gpus', {gpus},
        'cpus', COALESCE(({trial} ->> 'cpus')::integer, (job.request #>> '{{choices,0,cpus}}')::integer),
        'memory_mib', COALESCE(({trial} ->> 'memory_mib')::bigint, (job.request #>> '{{choices,0,memory_mib}}')::bigint))),
    'nodes', COALESCE(({trial} ->> 'nodes')::integer, job.nodes), 'locality', 'any', 'nodes_in', '[]'::jsonb,
    'exclude_nodes', '[]'::jsonb, 'shares_gpu', false, 'gpu_memory_mib', NULL, 'elastic', NULL,
    'resources', '[]'::jsonb)"""
_TRIAL_GPUS = "COALESCE(({trial} ->> 'gpus')::integer, job.gpus)"
_ATTEMPTS_TRIAL = _OF_TRIAL.format(
    trial="attempt.trial",
    gpus=_TRIAL_GPUS.format(trial="attempt.trial"),
    gpu_type="COALESCE(held.gpu_type, nullif(attempt.trial ->> 'gpu_type', ''))",
)
_JOBS_TRIAL = _OF_TRIAL.format(
    trial="job.trial", gpus=_TRIAL_GPUS.format(trial="job.trial"), gpu_type="nullif(job.trial ->> 'gpu_type', '')"
)

# What each attempt held says of which type it was given GPUs.
FORWARD = (
    f"""
ALTER TABLE jobs_attempt ADD COLUMN request jsonb, ADD COLUMN time_limit_s double precision,
    ADD COLUMN grace_s double precision;
UPDATE jobs_attempt AS updated SET
    request = CASE WHEN attempt.trial IS NOT NULL THEN {_ATTEMPTS_TRIAL}
        ELSE job.request || jsonb_build_object('choices', jsonb_build_array((job.request #> '{{choices,0}}')
            || jsonb_build_object('gpu_type', CASE WHEN job.gpus > 0
                THEN COALESCE(held.gpu_type, job.request #>> '{{choices,0,gpu_type}}') END)), 'elastic', NULL) END,
    time_limit_s = CASE WHEN attempt.trial ->> 'time_limit_s' IS NOT NULL
        THEN (attempt.trial ->> 'time_limit_s')::double precision ELSE job.time_limit_s END,
    grace_s = CASE WHEN attempt.trial IS NOT NULL THEN least(job.grace_s, 30) ELSE job.grace_s END
FROM jobs_attempt AS attempt JOIN jobs_job AS job ON job.id = attempt.job_id
LEFT JOIN (
    SELECT allocation.attempt_id, min(gpu.type) AS gpu_type FROM jobs_allocation AS allocation
    JOIN jobs_gpuclaim AS claim ON claim.allocation_id = allocation.id JOIN fleet_gpu AS gpu ON gpu.id = claim.gpu_id
    GROUP BY allocation.attempt_id
) AS held ON held.attempt_id = attempt.id
WHERE updated.id = attempt.id;
ALTER TABLE jobs_attempt ALTER COLUMN request SET NOT NULL, ALTER COLUMN grace_s SET NOT NULL, DROP COLUMN trial,
    ADD CONSTRAINT attempt_has_one_choice
        CHECK ((request #> '{{choices,0}}') IS NOT NULL AND (request #> '{{choices,1}}') IS NULL);

ALTER TABLE jobs_job ADD COLUMN screening jsonb;
UPDATE jobs_job AS job SET screening = jsonb_build_object(
    'request', {_JOBS_TRIAL},
    'time_limit_s', COALESCE((job.trial ->> 'time_limit_s')::double precision, job.time_limit_s, 300),
    'world', COALESCE((job.trial ->> 'world')::integer, 1),
    'since', COALESCE((job.trial ->> 'since')::double precision, extract(epoch FROM job.submitted_at)::double precision),
    'until', COALESCE((job.trial ->> 'until')::double precision, extract(epoch FROM now())::double precision))
WHERE job.trial IS NOT NULL;
ALTER TABLE jobs_job DROP COLUMN trial, ADD CONSTRAINT job_screened_with_request
    CHECK ((stage = 'full' AND screening IS NULL) OR (stage = 'screening' AND screening IS NOT NULL));
ALTER INDEX job_on_trial RENAME TO job_screened;
"""
    + GANG_OF_REQUEST
)

_AS_TRIAL = """jsonb_build_object('nodes', ({request} -> 'nodes'), 'gpus', ({request} #> '{{choices,0,gpus}}'),
    'cpus', ({request} #> '{{choices,0,cpus}}'), 'memory_mib', ({request} #> '{{choices,0,memory_mib}}'),
    'gpu_type', COALESCE({request} #>> '{{choices,0,gpu_type}}', ''), 'time_limit_s', {limit})"""
BACKWARD = (
    f"""
ALTER TABLE jobs_job ADD COLUMN trial jsonb;
UPDATE jobs_job SET trial = {_AS_TRIAL.format(request="(screening -> 'request')", limit="screening -> 'time_limit_s'")}
    || (screening - 'request' - 'time_limit_s') WHERE screening IS NOT NULL;
ALTER TABLE jobs_job DROP COLUMN screening, ADD CONSTRAINT job_on_trial_says_of_what
    CHECK ((stage = 'full' AND trial IS NULL) OR (stage = 'screening' AND trial IS NOT NULL));
ALTER INDEX job_screened RENAME TO job_on_trial;

ALTER TABLE jobs_attempt ADD COLUMN trial jsonb;
UPDATE jobs_attempt SET trial = {_AS_TRIAL.format(request="request", limit="time_limit_s")} WHERE stage = 'screening';
ALTER TABLE jobs_attempt DROP COLUMN request, DROP COLUMN time_limit_s, DROP COLUMN grace_s,
    ADD CONSTRAINT attempt_on_trial_says_of_what
        CHECK ((stage = 'full' AND trial IS NULL) OR (stage = 'screening' AND trial IS NOT NULL));
"""
    + GANG_OF_JOB
)


class Migration(migrations.Migration):
    dependencies = [("fleet", "0027_restore"), ("jobs", "0029_named_nodes")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(FORWARD, BACKWARD)],
            state_operations=[
                migrations.RemoveConstraint(model_name="attempt", name="attempt_on_trial_says_of_what"),
                migrations.RemoveConstraint(model_name="job", name="job_on_trial_says_of_what"),
                migrations.RemoveField(model_name="attempt", name="trial"),
                migrations.RemoveField(model_name="job", name="trial"),
                migrations.AddField(
                    model_name="attempt",
                    name="request",
                    field=muster.jobs.fields.RequestField(
                        default=None,
                        help_text="What it was given to run with: the job's request, in exactly one choice.",
                    ),
                    preserve_default=False,
                ),
                migrations.AddField(
                    model_name="attempt",
                    name="time_limit_s",
                    field=models.FloatField(null=True),
                ),
                migrations.AddField(model_name="attempt", name="grace_s", field=models.FloatField(default=30)),
                migrations.AddField(
                    model_name="job",
                    name="screening",
                    field=models.JSONField(
                        help_text="The screening run that it waits for or is in: jobs.runs.ScreeningRun.", null=True
                    ),
                ),
                migrations.RenameIndex(model_name="job", old_name="job_on_trial", new_name="job_screened"),
                migrations.AddConstraint(
                    model_name="attempt",
                    constraint=models.CheckConstraint(
                        condition=models.Q(
                            ("request__choices__0__isnull", False), ("request__choices__1__isnull", True)
                        ),
                        name="attempt_has_one_choice",
                    ),
                ),
                migrations.AddConstraint(
                    model_name="job",
                    constraint=models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("screening__isnull", True), ("stage", "full")),
                            models.Q(("screening__isnull", False), ("stage", "screening")),
                            _connector="OR",
                        ),
                        name="job_screened_with_request",
                    ),
                ),
            ],
        ),
    ]
