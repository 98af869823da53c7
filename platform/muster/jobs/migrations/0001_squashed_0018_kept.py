import django.contrib.postgres.constraints
import django.contrib.postgres.fields.ranges
import django.contrib.postgres.indexes
import django.contrib.postgres.operations
import django.db.models.deletion
import django.db.models.expressions
import django.db.models.functions.text
import muster.common.models
import scheduler.model.lifecycle
from django.conf import settings
from django.db import migrations, models

# A live attempt that commits has exactly the allocations and GPUs that its job asked for; a trial those that its
# attempt says that it takes.
CREATE = """
CREATE FUNCTION jobs_gang_is_whole() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wanted_nodes integer;
    wanted_gpus integer;
    found_nodes integer;
    found_gpus integer;
BEGIN
    IF NEW.trial IS NOT NULL THEN
        wanted_nodes := (NEW.trial->>'nodes')::integer;
        wanted_gpus := wanted_nodes * (NEW.trial->>'gpus')::integer;
    ELSE
        SELECT nodes, nodes * gpus INTO wanted_nodes, wanted_gpus FROM jobs_job WHERE id = NEW.job_id;
    END IF;
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

    replaces = [('jobs', '0001_initial'), ('jobs', '0002_gangs_are_whole'), ('jobs', '0003_queue_order'), ('jobs', '0004_stop_after_of_the_launch'), ('jobs', '0005_preemption'), ('jobs', '0006_images'), ('jobs', '0007_sharing'), ('jobs', '0008_fewer_indexes'), ('jobs', '0009_form'), ('jobs', '0010_verdicts'), ('jobs', '0011_gpu_failed'), ('jobs', '0012_screening_passed'), ('jobs', '0013_gpu_check_failed'), ('jobs', '0014_form_with_volumes'), ('jobs', '0015_trials'), ('jobs', '0016_stopped_for_good'), ('jobs', '0017_excluded_node'), ('jobs', '0018_kept')]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('fleet', '0001_squashed_0018_kept'),
        ('tenants', '0001_squashed_0005_idle'),
    ]

    operations = [
        django.contrib.postgres.operations.TrigramExtension(
        ),
        migrations.CreateModel(
            name='CodeArchive',
            fields=[
                ('sha256', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('size', models.BigIntegerField()),
                ('created_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
                ('owners', models.ManyToManyField(related_name='code_archives', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='Job',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=200)),
                ('spec', models.JSONField()),
                ('tags', models.JSONField(default=dict)),
                ('state', models.CharField(choices=[('queued', 'queued'), ('active', 'active'), ('succeeded', 'succeeded'), ('failed', 'failed'), ('cancelled', 'cancelled')], default=scheduler.model.lifecycle.JobState['QUEUED'], max_length=10)),
                ('desired', models.CharField(choices=[('run', 'run'), ('stop', 'stop')], default=scheduler.model.lifecycle.Desired['RUN'], max_length=4)),
                ('stage', models.CharField(choices=[('screening', 'screening'), ('full', 'full')], default=scheduler.model.lifecycle.Stage['FULL'], max_length=10)),
                ('trial', models.JSONField(help_text='While it is tried: what that takes (jobs.demand), and until when it waits for it.', null=True)),
                ('hold_reason', models.CharField(blank=True, choices=[('quota', 'quota'), ('quota_too_small', 'quota_too_small'), ('infeasible', 'infeasible'), ('no_free_gpus', 'no_free_gpus'), ('fragmented', 'fragmented'), ('behind_head', 'behind_head'), ('cpu_or_memory', 'cpu_or_memory'), ('back_off', 'back_off'), ('still_stopping', 'still_stopping'), ('cycle_limit', 'cycle_limit'), ('reserved', 'reserved'), ('refused', 'refused'), ('runtime', 'runtime'), ('maintenance', 'maintenance')], default='', max_length=20)),
                ('hold', models.JSONField(null=True)),
                ('gpu_type', models.CharField(blank=True, default='', max_length=63)),
                ('gpus', models.PositiveIntegerField(help_text='GPUs on each node.')),
                ('nodes', models.PositiveIntegerField(default=1)),
                ('cpus', models.PositiveIntegerField(help_text='CPUs on each node.')),
                ('memory_mib', models.PositiveBigIntegerField(help_text='Memory on each node.')),
                ('time_limit_s', models.FloatField(null=True)),
                ('grace_s', models.FloatField(default=30)),
                ('priority', models.IntegerField(default=10)),
                ('klass', models.CharField(choices=[('guaranteed', 'guaranteed'), ('opportunistic', 'opportunistic')], default=scheduler.model.lifecycle.JobClass['GUARANTEED'], max_length=14)),
                ('submitted_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
                ('eligible_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
                ('started_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('attempt_count', models.PositiveIntegerField(default=0)),
                ('retries_used', models.PositiveIntegerField(default=0)),
                ('requeued_at', models.DateTimeField(help_text='When it last went back to the queue.', null=True)),
                ('attained_gpu_s', models.FloatField(default=0, help_text='By the attempts that have ended.')),
                ('ran_s', models.FloatField(default=0, help_text='With its GPUs, in the attempts that have ended.')),
                ('expected_s', models.FloatField(help_text='Predicted run time, from the first start to the end.', null=True)),
                ('memo', models.JSONField(default=dict, help_text="What the pool's policy asked to be told again.")),
                ('preemptible', models.BooleanField(default=True)),
                ('checkpoints', models.BooleanField(default=False, help_text='Whether it goes on where it was stopped.')),
                ('locality', models.CharField(choices=[('node', 'node'), ('rack', 'rack'), ('any', 'any')], default=scheduler.model.lifecycle.Locality['ANY'], max_length=4)),
                ('relax_after_s', models.FloatField(help_text='How long it waits for its locality.', null=True)),
                ('form', models.CharField(choices=[('any', 'any'), ('plain', 'plain'), ('image', 'image'), ('container', 'container'), ('image_volumes', 'image_volumes'), ('container_volumes', 'container_volumes')], default=scheduler.model.lifecycle.RuntimeNeed['ANY'], max_length=20)),
                ('packs', models.BooleanField(default=False, help_text='Whether another job may share its GPUs.')),
                ('gpu_memory_mib', models.PositiveIntegerField(help_text='That it needs of each of its GPUs.', null=True)),
                ('avoid_nodes', models.JSONField(default=list)),
                ('exit_code', models.IntegerField(null=True)),
                ('reason', models.CharField(blank=True, choices=[('completed', 'completed'), ('exit_nonzero', 'exit_nonzero'), ('killed_by_signal', 'killed_by_signal'), ('command_not_found', 'command_not_found'), ('launch_failed', 'launch_failed'), ('code_unavailable', 'code_unavailable'), ('image_not_found', 'image_not_found'), ('image_denied', 'image_denied'), ('image_unreachable', 'image_unreachable'), ('image_no_space', 'image_no_space'), ('out_of_memory', 'out_of_memory'), ('spec_refused', 'spec_refused'), ('time_limit', 'time_limit'), ('cancelled_by_user', 'cancelled_by_user'), ('preempted', 'preempted'), ('requeued_by_user', 'requeued_by_user'), ('not_claimed', 'not_claimed'), ('never_started', 'never_started'), ('node_lost', 'node_lost'), ('node_rebooted', 'node_rebooted'), ('gpu_failed', 'gpu_failed'), ('screening_passed', 'screening_passed'), ('gpu_check_failed', 'gpu_check_failed'), ('idle', 'idle'), ('agent_stopped', 'agent_stopped'), ('unknown', 'unknown'), ('infeasible', 'infeasible'), ('loss_diverged', 'loss_diverged'), ('log_rule', 'log_rule')], default='', max_length=20)),
                ('reason_detail', models.CharField(blank=True, default='', max_length=500)),
                ('failure', models.JSONField(help_text='The verdict on its last attempt, if that failed: jobs.verdicts.', null=True)),
                ('cloned_from', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='clones', to='jobs.job')),
                ('code', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='jobs.codearchive')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to=settings.AUTH_USER_MODEL)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='fleet.pool')),
                ('tenant', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='tenants.tenant')),
                ('vc', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='jobs', to='tenants.virtualcluster')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('state', scheduler.model.lifecycle.JobState['QUEUED'])), fields=['pool', 'id'], name='job_queued'), models.Index(condition=models.Q(('state', scheduler.model.lifecycle.JobState['ACTIVE'])), fields=['pool', 'id'], name='job_active'), models.Index(condition=models.Q(('stage', scheduler.model.lifecycle.Stage['SCREENING']), ('state__in', [scheduler.model.lifecycle.JobState['QUEUED'], scheduler.model.lifecycle.JobState['ACTIVE']])), fields=['pool'], name='job_on_trial'), models.Index(models.F('vc'), django.db.models.expressions.CombinedExpression(models.F('priority'), '*', models.Value(-1)), models.F('submitted_at'), models.F('id'), condition=models.Q(('state', scheduler.model.lifecycle.JobState['QUEUED'])), name='job_queue_order'), models.Index(fields=['tenant', '-id'], name='job_of_tenant'), models.Index(fields=['tenant', 'state', '-id'], name='job_of_tenant_by_state'), models.Index(fields=['owner', '-id'], name='job_of_owner'), models.Index(fields=['state', '-id'], name='job_by_state'), django.contrib.postgres.indexes.GinIndex(fields=['tags'], name='job_tags'), django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.indexes.OpClass(django.db.models.functions.text.Upper('name'), name='gin_trgm_ops'), name='job_name_search')],
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['active', 'cancelled', 'failed', 'queued', 'succeeded'])), name='job_state_known'), models.CheckConstraint(condition=models.Q(models.Q(('ended_at__isnull', False), ('state__in', [scheduler.model.lifecycle.JobState['CANCELLED'], scheduler.model.lifecycle.JobState['FAILED'], scheduler.model.lifecycle.JobState['SUCCEEDED']])), models.Q(models.Q(('state__in', [scheduler.model.lifecycle.JobState['CANCELLED'], scheduler.model.lifecycle.JobState['FAILED'], scheduler.model.lifecycle.JobState['SUCCEEDED']]), _negated=True), ('ended_at__isnull', True)), _connector='OR'), name='job_ended_has_time'), models.CheckConstraint(condition=models.Q(('nodes__gte', 1)), name='job_has_nodes'), models.CheckConstraint(condition=models.Q(models.Q(('stage', scheduler.model.lifecycle.Stage['FULL']), ('trial__isnull', True)), models.Q(('stage', scheduler.model.lifecycle.Stage['SCREENING']), ('trial__isnull', False)), _connector='OR'), name='job_on_trial_says_of_what'), models.CheckConstraint(condition=models.Q(('klass', scheduler.model.lifecycle.JobClass['GUARANTEED']), ('preemptible', True), _connector='OR'), name='job_that_borrows_is_preemptible'), models.CheckConstraint(condition=models.Q(('preemptible', True), ('time_limit_s__isnull', False), _connector='OR'), name='job_that_stays_has_limit'), models.CheckConstraint(condition=models.Q(('locality__in', ['any', 'node', 'rack'])), name='job_locality_known'), models.CheckConstraint(condition=models.Q(('packs', False), models.Q(('gpu_memory_mib__isnull', False), ('gpus__gte', 1)), _connector='OR'), name='job_that_packs_says_size'), models.CheckConstraint(condition=models.Q(('state', scheduler.model.lifecycle.JobState['QUEUED']), ('hold_reason', ''), _connector='OR'), name='job_hold_only_while_queued')],
            },
        ),
        migrations.CreateModel(
            name='Attempt',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField()),
                ('state', models.CharField(choices=[('placed', 'placed'), ('starting', 'starting'), ('running', 'running'), ('stopping', 'stopping'), ('succeeded', 'succeeded'), ('failed', 'failed'), ('cancelled', 'cancelled'), ('preempted', 'preempted'), ('lost', 'lost')], default=scheduler.model.lifecycle.AttemptState['PLACED'], max_length=10)),
                ('stage', models.CharField(choices=[('screening', 'screening'), ('full', 'full')], default=scheduler.model.lifecycle.Stage['FULL'], max_length=10)),
                ('trial', models.JSONField(help_text='What it takes, if it is a trial: jobs.demand.', null=True)),
                ('outcome', models.CharField(choices=[('placed', 'placed'), ('starting', 'starting'), ('running', 'running'), ('stopping', 'stopping'), ('succeeded', 'succeeded'), ('failed', 'failed'), ('cancelled', 'cancelled'), ('preempted', 'preempted'), ('lost', 'lost')], default='', help_text='What it becomes once all is released.', max_length=10)),
                ('reason', models.CharField(choices=[('completed', 'completed'), ('exit_nonzero', 'exit_nonzero'), ('killed_by_signal', 'killed_by_signal'), ('command_not_found', 'command_not_found'), ('launch_failed', 'launch_failed'), ('code_unavailable', 'code_unavailable'), ('image_not_found', 'image_not_found'), ('image_denied', 'image_denied'), ('image_unreachable', 'image_unreachable'), ('image_no_space', 'image_no_space'), ('out_of_memory', 'out_of_memory'), ('spec_refused', 'spec_refused'), ('time_limit', 'time_limit'), ('cancelled_by_user', 'cancelled_by_user'), ('preempted', 'preempted'), ('requeued_by_user', 'requeued_by_user'), ('not_claimed', 'not_claimed'), ('never_started', 'never_started'), ('node_lost', 'node_lost'), ('node_rebooted', 'node_rebooted'), ('gpu_failed', 'gpu_failed'), ('screening_passed', 'screening_passed'), ('gpu_check_failed', 'gpu_check_failed'), ('idle', 'idle'), ('agent_stopped', 'agent_stopped'), ('unknown', 'unknown'), ('infeasible', 'infeasible'), ('loss_diverged', 'loss_diverged'), ('log_rule', 'log_rule')], default='', max_length=20)),
                ('reason_detail', models.CharField(default='', max_length=500)),
                ('exit_code', models.IntegerField(null=True)),
                ('failure', models.JSONField(help_text='Why it failed, by its logs: jobs.verdicts.', null=True)),
                ('master_addr', models.CharField(max_length=255)),
                ('master_port', models.PositiveIntegerField()),
                ('stop_after_s', models.FloatField(default=600, help_text="The pool's, as the agents are told at the launch.")),
                ('placed_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
                ('starting_at', models.DateTimeField(null=True)),
                ('running_at', models.DateTimeField(null=True)),
                ('stopping_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('unreachable_since', models.DateTimeField(null=True)),
                ('kept_until', models.DateTimeField(help_text="Until when what its first failed rank ran in is kept; reason and exit code are that one's.", null=True)),
                ('fence_at', models.DateTimeField(help_text='When its processes must be gone, if a node stays away.', null=True)),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='attempts', to='jobs.job')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['cancelled', 'failed', 'lost', 'placed', 'preempted', 'running', 'starting', 'stopping', 'succeeded'])), name='attempt_state_known'), models.UniqueConstraint(fields=('job', 'number'), name='attempt_number'), models.CheckConstraint(condition=models.Q(models.Q(('stage', scheduler.model.lifecycle.Stage['FULL']), ('trial__isnull', True)), models.Q(('stage', scheduler.model.lifecycle.Stage['SCREENING']), ('trial__isnull', False)), _connector='OR'), name='attempt_on_trial_says_of_what'), models.UniqueConstraint(condition=models.Q(('state__in', [scheduler.model.lifecycle.AttemptState['PLACED'], scheduler.model.lifecycle.AttemptState['RUNNING'], scheduler.model.lifecycle.AttemptState['STARTING'], scheduler.model.lifecycle.AttemptState['STOPPING']])), fields=('job',), name='one_live_attempt_a_job'), models.UniqueConstraint(condition=models.Q(('state__in', [scheduler.model.lifecycle.AttemptState['PLACED'], scheduler.model.lifecycle.AttemptState['RUNNING'], scheduler.model.lifecycle.AttemptState['STARTING'], scheduler.model.lifecycle.AttemptState['STOPPING']])), fields=('master_addr', 'master_port'), name='master_port_once_per_address'), models.CheckConstraint(condition=models.Q(models.Q(('ended_at__isnull', False), ('state__in', [scheduler.model.lifecycle.AttemptState['CANCELLED'], scheduler.model.lifecycle.AttemptState['FAILED'], scheduler.model.lifecycle.AttemptState['LOST'], scheduler.model.lifecycle.AttemptState['PREEMPTED'], scheduler.model.lifecycle.AttemptState['SUCCEEDED']])), models.Q(models.Q(('state__in', [scheduler.model.lifecycle.AttemptState['CANCELLED'], scheduler.model.lifecycle.AttemptState['FAILED'], scheduler.model.lifecycle.AttemptState['LOST'], scheduler.model.lifecycle.AttemptState['PREEMPTED'], scheduler.model.lifecycle.AttemptState['SUCCEEDED']]), _negated=True), ('ended_at__isnull', True)), _connector='OR'), name='attempt_ended_has_time'), models.CheckConstraint(condition=models.Q(models.Q(('state', scheduler.model.lifecycle.AttemptState['RUNNING']), _negated=True), ('running_at__isnull', False), _connector='OR'), name='attempt_running_has_time'), models.CheckConstraint(condition=models.Q(models.Q(('state', scheduler.model.lifecycle.AttemptState['STOPPING']), _negated=True), models.Q(('stopping_at__isnull', False), models.Q(('outcome', ''), _negated=True)), _connector='OR'), name='attempt_stopping_has_time')],
            },
        ),
        migrations.CreateModel(
            name='Allocation',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('rank', models.PositiveIntegerField()),
                ('state', models.CharField(choices=[('reserved', 'reserved'), ('active', 'active'), ('releasing', 'releasing'), ('released', 'released')], default=scheduler.model.lifecycle.AllocationState['RESERVED'], max_length=10)),
                ('observed', models.CharField(choices=[('none', 'none'), ('starting', 'starting'), ('running', 'running'), ('kept', 'kept'), ('exited', 'exited')], default=scheduler.model.lifecycle.Observed['NONE'], max_length=10)),
                ('cpus', models.PositiveIntegerField()),
                ('memory_mib', models.PositiveBigIntegerField()),
                ('boot_id', models.CharField(default='', max_length=64)),
                ('claimed_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(help_text='When the agent said that no process is left.', null=True)),
                ('exit_code', models.IntegerField(null=True)),
                ('end_reason', models.CharField(choices=[('completed', 'completed'), ('exit_nonzero', 'exit_nonzero'), ('killed_by_signal', 'killed_by_signal'), ('command_not_found', 'command_not_found'), ('launch_failed', 'launch_failed'), ('code_unavailable', 'code_unavailable'), ('image_not_found', 'image_not_found'), ('image_denied', 'image_denied'), ('image_unreachable', 'image_unreachable'), ('image_no_space', 'image_no_space'), ('out_of_memory', 'out_of_memory'), ('spec_refused', 'spec_refused'), ('time_limit', 'time_limit'), ('cancelled_by_user', 'cancelled_by_user'), ('preempted', 'preempted'), ('requeued_by_user', 'requeued_by_user'), ('not_claimed', 'not_claimed'), ('never_started', 'never_started'), ('node_lost', 'node_lost'), ('node_rebooted', 'node_rebooted'), ('gpu_failed', 'gpu_failed'), ('screening_passed', 'screening_passed'), ('gpu_check_failed', 'gpu_check_failed'), ('idle', 'idle'), ('agent_stopped', 'agent_stopped'), ('unknown', 'unknown'), ('infeasible', 'infeasible'), ('loss_diverged', 'loss_diverged'), ('log_rule', 'log_rule')], default='', max_length=20)),
                ('end_detail', models.CharField(default='', max_length=500)),
                ('released_at', models.DateTimeField(null=True)),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='allocations', to='fleet.node')),
                ('attempt', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='allocations', to='jobs.attempt')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('state', scheduler.model.lifecycle.AllocationState['RELEASED']), _negated=True), fields=['node', 'id'], name='allocation_held')],
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['active', 'released', 'releasing', 'reserved'])), name='allocation_state_known'), models.UniqueConstraint(fields=('attempt', 'rank'), name='allocation_rank'), models.UniqueConstraint(fields=('attempt', 'node'), name='allocation_node_once'), models.CheckConstraint(condition=models.Q(models.Q(('released_at__isnull', False), ('state', scheduler.model.lifecycle.AllocationState['RELEASED'])), models.Q(models.Q(('state', scheduler.model.lifecycle.AllocationState['RELEASED']), _negated=True), ('released_at__isnull', True)), _connector='OR'), name='allocation_released_has_time'), models.CheckConstraint(condition=models.Q(('state__in', [scheduler.model.lifecycle.AllocationState['RESERVED'], scheduler.model.lifecycle.AllocationState['RELEASED']]), ('claimed_at__isnull', False), _connector='OR'), name='allocation_active_was_claimed')],
            },
        ),
        migrations.CreateModel(
            name='RankTail',
            fields=[
                ('allocation', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='tail', serialize=False, to='jobs.allocation')),
                ('text', models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name='GpuClaim',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('span', django.contrib.postgres.fields.ranges.BigIntegerRangeField()),
                ('claimed_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
                ('released_at', models.DateTimeField(null=True)),
                ('allocation', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='claims', to='jobs.allocation')),
                ('gpu', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='claims', to='fleet.gpu')),
            ],
            options={
                'constraints': [django.contrib.postgres.constraints.ExclusionConstraint(condition=models.Q(('released_at__isnull', True)), expressions=[('span', '&&')], name='gpu_slot_once')],
            },
        ),
        migrations.CreateModel(
            name='IdempotencyKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=200)),
                ('body_digest', models.CharField(max_length=64)),
                ('job_ids', models.JSONField(default=list)),
                ('errors', models.JSONField(default=list)),
                ('created_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(fields=['created_at'], name='idempotency_age')],
                'constraints': [models.UniqueConstraint(fields=('owner', 'key'), name='idempotency_key_once')],
            },
        ),
        migrations.CreateModel(
            name='Reservation',
            fields=[
                ('job', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='reservation', serialize=False, to='jobs.job')),
                ('allocations', models.JSONField(help_text='node_id, rank, gpu_ids, cpus and memory_mib for each rank.')),
                ('created_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
                ('until', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='ReservedGpu',
            fields=[
                ('gpu', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='reserved', serialize=False, to='fleet.gpu')),
                ('reservation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='gpus', to='jobs.reservation')),
            ],
        ),
        migrations.CreateModel(
            name='ExcludedNode',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='fleet.node')),
                ('job', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='excluded_nodes', to='jobs.job')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('job', 'node'), name='node_excluded_once')],
            },
        ),
        migrations.RunSQL(CREATE, DROP),
    ]
