import scheduler.model.lifecycle
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('fleet', '0026_move_jobs_off'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='nodelease',
            name='lease_state_known',
        ),
        migrations.AddField(
            model_name='node',
            name='must_report',
            field=models.BooleanField(db_default=False, default=False, editable=False, help_text='Whether nothing may start there until its agent has said what runs, since a restore.'),
        ),
        migrations.AlterField(
            model_name='nodelease',
            name='state',
            field=models.CharField(choices=[('granted', 'granted'), ('renewed', 'renewed'), ('expired', 'expired'), ('void', 'void')], default=scheduler.model.lifecycle.LeaseState['GRANTED'], max_length=10),
        ),
        migrations.AddConstraint(
            model_name='nodelease',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['expired', 'granted', 'renewed', 'void'])), name='lease_state_known'),
        ),
    ]
