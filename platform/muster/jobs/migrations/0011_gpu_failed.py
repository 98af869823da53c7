from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0010_verdicts'),
    ]

    operations = [
        migrations.AlterField(
            model_name='allocation',
            name='end_reason',
            field=models.CharField(choices=[('completed', 'completed'), ('exit_nonzero', 'exit_nonzero'), ('killed_by_signal', 'killed_by_signal'), ('command_not_found', 'command_not_found'), ('launch_failed', 'launch_failed'), ('code_unavailable', 'code_unavailable'), ('image_not_found', 'image_not_found'), ('image_denied', 'image_denied'), ('image_unreachable', 'image_unreachable'), ('image_no_space', 'image_no_space'), ('out_of_memory', 'out_of_memory'), ('spec_refused', 'spec_refused'), ('time_limit', 'time_limit'), ('cancelled_by_user', 'cancelled_by_user'), ('preempted', 'preempted'), ('requeued_by_user', 'requeued_by_user'), ('not_claimed', 'not_claimed'), ('never_started', 'never_started'), ('node_lost', 'node_lost'), ('node_rebooted', 'node_rebooted'), ('gpu_failed', 'gpu_failed'), ('agent_stopped', 'agent_stopped'), ('unknown', 'unknown'), ('infeasible', 'infeasible')], default='', max_length=20),
        ),
        migrations.AlterField(
            model_name='attempt',
            name='reason',
            field=models.CharField(choices=[('completed', 'completed'), ('exit_nonzero', 'exit_nonzero'), ('killed_by_signal', 'killed_by_signal'), ('command_not_found', 'command_not_found'), ('launch_failed', 'launch_failed'), ('code_unavailable', 'code_unavailable'), ('image_not_found', 'image_not_found'), ('image_denied', 'image_denied'), ('image_unreachable', 'image_unreachable'), ('image_no_space', 'image_no_space'), ('out_of_memory', 'out_of_memory'), ('spec_refused', 'spec_refused'), ('time_limit', 'time_limit'), ('cancelled_by_user', 'cancelled_by_user'), ('preempted', 'preempted'), ('requeued_by_user', 'requeued_by_user'), ('not_claimed', 'not_claimed'), ('never_started', 'never_started'), ('node_lost', 'node_lost'), ('node_rebooted', 'node_rebooted'), ('gpu_failed', 'gpu_failed'), ('agent_stopped', 'agent_stopped'), ('unknown', 'unknown'), ('infeasible', 'infeasible')], default='', max_length=20),
        ),
        migrations.AlterField(
            model_name='job',
            name='reason',
            field=models.CharField(blank=True, choices=[('completed', 'completed'), ('exit_nonzero', 'exit_nonzero'), ('killed_by_signal', 'killed_by_signal'), ('command_not_found', 'command_not_found'), ('launch_failed', 'launch_failed'), ('code_unavailable', 'code_unavailable'), ('image_not_found', 'image_not_found'), ('image_denied', 'image_denied'), ('image_unreachable', 'image_unreachable'), ('image_no_space', 'image_no_space'), ('out_of_memory', 'out_of_memory'), ('spec_refused', 'spec_refused'), ('time_limit', 'time_limit'), ('cancelled_by_user', 'cancelled_by_user'), ('preempted', 'preempted'), ('requeued_by_user', 'requeued_by_user'), ('not_claimed', 'not_claimed'), ('never_started', 'never_started'), ('node_lost', 'node_lost'), ('node_rebooted', 'node_rebooted'), ('gpu_failed', 'gpu_failed'), ('agent_stopped', 'agent_stopped'), ('unknown', 'unknown'), ('infeasible', 'infeasible')], default='', max_length=20),
        ),
    ]
