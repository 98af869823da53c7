from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('fleet', '0025_gang_network_default'),
    ]

    operations = [
        migrations.RenameField('node', 'clears', 'moves_jobs_off'),
        migrations.AlterField(
            model_name='node',
            name='moves_jobs_off',
            field=models.BooleanField(default=False, help_text='Whether its preemptible jobs are stopped and queued again while it is draining.'),
        ),
        migrations.RemoveConstraint('maintenance', 'maintenance_clearing_known'),
        migrations.RenameField('maintenance', 'clearing', 'running_jobs'),
        migrations.AddConstraint(
            model_name='maintenance',
            constraint=models.CheckConstraint(condition=models.Q(('running_jobs__in', ['move', 'wait'])), name='maintenance_running_jobs_known'),
        ),
    ]
