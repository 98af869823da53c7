"""Stores what a job asks for as one value, from which Postgres computes the columns that queries need.

The table is rewritten twice, whatever its size, and its indexes are built once each time: an UPDATE of 100,000 jobs
would have added an entry to each of fourteen indexes for each of them.
"""

import django.db.models.fields.json
import django.db.models.functions.comparison
from django.conf import settings
from django.db import migrations, models

import muster.jobs.fields

_CHOICE = "jsonb_build_object('gpu_type', {gpu_type}, 'gpus', gpus, 'cpus', cpus, 'memory_mib', memory_mib)"
_REQUEST = f"""jsonb_build_object(
    'choices', jsonb_build_array({_CHOICE.format(gpu_type="CASE WHEN gpus > 0 THEN nullif(gpu_type, '') END")}),
    'nodes', nodes, 'locality', locality, 'nodes_in', '[]'::jsonb, 'exclude_nodes', '[]'::jsonb,
    'shares_gpu', packs, 'gpu_memory_mib', gpu_memory_mib, 'divisible', false, 'elastic', NULL,
    'runtime', form, 'resources', '[]'::jsonb)"""

# What goes by a column that is dropped goes with it: its constraints, and the index job_alike.
FORWARD = f"""
ALTER TABLE jobs_job ADD COLUMN request jsonb;
ALTER TABLE jobs_job ALTER COLUMN request TYPE jsonb USING {_REQUEST}, ALTER COLUMN request SET NOT NULL;
ALTER TABLE jobs_job
    DROP COLUMN gpu_type, DROP COLUMN gpus, DROP COLUMN nodes, DROP COLUMN cpus, DROP COLUMN memory_mib,
    DROP COLUMN locality, DROP COLUMN packs, DROP COLUMN gpu_memory_mib, DROP COLUMN form;
ALTER TABLE jobs_job
    ADD COLUMN gpu_type varchar(63) GENERATED ALWAYS AS (CASE WHEN (request #> '{{choices,1}}') IS NULL
        THEN COALESCE(request #>> '{{choices,0,gpu_type}}', '') ELSE '' END) STORED,
    ADD COLUMN gpus integer GENERATED ALWAYS AS ((request #>> '{{choices,0,gpus}}')::integer) STORED,
    ADD COLUMN nodes integer GENERATED ALWAYS AS ((request ->> 'nodes')::integer) STORED,
    ADD CONSTRAINT job_has_nodes CHECK (nodes >= 1 AND nodes IS NOT NULL),
    ADD CONSTRAINT job_gpus_not_negative CHECK (gpus >= 0 AND gpus IS NOT NULL),
    ADD CONSTRAINT job_locality_known
        CHECK ((request -> 'locality') IN ('"any"'::jsonb, '"node"'::jsonb, '"rack"'::jsonb)),
    ADD CONSTRAINT job_that_shares_gpus_says_size CHECK ((request -> 'shares_gpu') = 'false'::jsonb
        OR (gpus >= 1 AND NOT ((request -> 'gpu_memory_mib') = 'null'::jsonb)));
CREATE INDEX job_alike ON jobs_job (owner_id, name, gpu_type, gpus, nodes, ended_at);
"""

# A job of several choices goes back as its first one.
BACKWARD = """
ALTER TABLE jobs_job
    DROP CONSTRAINT job_locality_known, DROP CONSTRAINT job_that_shares_gpus_says_size,
    DROP COLUMN gpu_type, DROP COLUMN gpus, DROP COLUMN nodes;
ALTER TABLE jobs_job
    ADD COLUMN gpu_type varchar(63), ADD COLUMN gpus integer, ADD COLUMN nodes integer, ADD COLUMN cpus integer,
    ADD COLUMN memory_mib bigint, ADD COLUMN locality varchar(4), ADD COLUMN packs boolean,
    ADD COLUMN gpu_memory_mib integer, ADD COLUMN form varchar(20);
ALTER TABLE jobs_job
    ALTER COLUMN gpu_type TYPE varchar(63) USING COALESCE(request #>> '{choices,0,gpu_type}', ''),
    ALTER COLUMN gpus TYPE integer USING (request #>> '{choices,0,gpus}')::integer,
    ALTER COLUMN nodes TYPE integer USING (request ->> 'nodes')::integer,
    ALTER COLUMN cpus TYPE integer USING (request #>> '{choices,0,cpus}')::integer,
    ALTER COLUMN memory_mib TYPE bigint USING (request #>> '{choices,0,memory_mib}')::bigint,
    ALTER COLUMN locality TYPE varchar(4) USING request ->> 'locality',
    ALTER COLUMN packs TYPE boolean USING (request ->> 'shares_gpu')::boolean,
    ALTER COLUMN gpu_memory_mib TYPE integer USING (request ->> 'gpu_memory_mib')::integer,
    ALTER COLUMN form TYPE varchar(20) USING request ->> 'runtime';
ALTER TABLE jobs_job
    DROP COLUMN request,
    ALTER COLUMN gpu_type SET NOT NULL, ALTER COLUMN gpus SET NOT NULL, ALTER COLUMN nodes SET NOT NULL,
    ALTER COLUMN cpus SET NOT NULL, ALTER COLUMN memory_mib SET NOT NULL, ALTER COLUMN locality SET NOT NULL,
    ALTER COLUMN packs SET NOT NULL, ALTER COLUMN form SET NOT NULL,
    ADD CONSTRAINT jobs_job_gpus_check CHECK (gpus >= 0), ADD CONSTRAINT jobs_job_nodes_check CHECK (nodes >= 0),
    ADD CONSTRAINT jobs_job_cpus_check CHECK (cpus >= 0),
    ADD CONSTRAINT jobs_job_memory_mib_check CHECK (memory_mib >= 0),
    ADD CONSTRAINT jobs_job_gpu_memory_mib_check CHECK (gpu_memory_mib >= 0),
    ADD CONSTRAINT job_has_nodes CHECK (nodes >= 1),
    ADD CONSTRAINT job_locality_known CHECK (locality IN ('any', 'node', 'rack')),
    ADD CONSTRAINT job_that_packs_says_size CHECK (NOT packs OR (gpu_memory_mib IS NOT NULL AND gpus >= 1));
CREATE INDEX job_alike ON jobs_job (owner_id, name, gpu_type, gpus, nodes, ended_at);
"""


class Migration(migrations.Migration):

    dependencies = [
        ("fleet", "0027_restore"),
        ("jobs", "0027_retried_because"),
        ("tenants", "0006_wait_for_hardware"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(FORWARD, BACKWARD)],
            state_operations=[
                migrations.RemoveConstraint(
                    model_name='job',
                    name='job_has_nodes',
                ),
                migrations.RemoveConstraint(
                    model_name='job',
                    name='job_locality_known',
                ),
                migrations.RemoveConstraint(
                    model_name='job',
                    name='job_that_packs_says_size',
                ),
                migrations.RemoveField(
                    model_name='job',
                    name='cpus',
                ),
                migrations.RemoveField(
                    model_name='job',
                    name='form',
                ),
                migrations.RemoveField(
                    model_name='job',
                    name='gpu_memory_mib',
                ),
                migrations.RemoveField(
                    model_name='job',
                    name='locality',
                ),
                migrations.RemoveField(
                    model_name='job',
                    name='memory_mib',
                ),
                migrations.RemoveField(
                    model_name='job',
                    name='packs',
                ),
                migrations.AddField(
                    model_name='job',
                    name='request',
                    field=muster.jobs.fields.RequestField(default=None, help_text='What it asks for: scheduler.model.request.'),
                    preserve_default=False,
                ),
                migrations.AlterField(
                    model_name='job',
                    name='gpu_type',
                    field=models.GeneratedField(db_persist=True, expression=models.Case(models.When(request__choices__1__isnull=True, then=django.db.models.functions.comparison.Coalesce(django.db.models.fields.json.KeyTextTransform('gpu_type', django.db.models.fields.json.KeyTextTransform('0', django.db.models.fields.json.KeyTextTransform('choices', 'request'))), models.Value('', models.TextField()))), default=models.Value('', models.TextField())), help_text='Empty where any type will do, and where there are several choices.', output_field=models.CharField(max_length=63)),
                ),
                migrations.AlterField(
                    model_name='job',
                    name='gpus',
                    field=models.GeneratedField(db_persist=True, expression=django.db.models.functions.comparison.Cast(django.db.models.fields.json.KeyTextTransform('gpus', django.db.models.fields.json.KeyTextTransform('0', django.db.models.fields.json.KeyTextTransform('choices', 'request'))), models.IntegerField()), help_text='GPUs on each node, by its first choice.', output_field=models.IntegerField()),
                ),
                migrations.AlterField(
                    model_name='job',
                    name='nodes',
                    field=models.GeneratedField(db_persist=True, expression=django.db.models.functions.comparison.Cast(django.db.models.fields.json.KeyTextTransform('nodes', 'request'), models.IntegerField()), output_field=models.IntegerField()),
                ),
                migrations.AddConstraint(
                    model_name='job',
                    constraint=models.CheckConstraint(condition=models.Q(('nodes__gte', 1), ('nodes__isnull', False)), name='job_has_nodes'),
                ),
                migrations.AddConstraint(
                    model_name='job',
                    constraint=models.CheckConstraint(condition=models.Q(('gpus__gte', 0), ('gpus__isnull', False)), name='job_gpus_not_negative'),
                ),
                migrations.AddConstraint(
                    model_name='job',
                    constraint=models.CheckConstraint(condition=models.Q(('request__locality__in', ['any', 'node', 'rack'])), name='job_locality_known'),
                ),
                migrations.AddConstraint(
                    model_name='job',
                    constraint=models.CheckConstraint(condition=models.Q(('request__shares_gpu', False), models.Q(('gpus__gte', 1), models.Q(('request__gpu_memory_mib', models.Value(None, models.JSONField())), _negated=True)), _connector='OR'), name='job_that_shares_gpus_says_size'),
                ),
            ],
        ),
    ]
