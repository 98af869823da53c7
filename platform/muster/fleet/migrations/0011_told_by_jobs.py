
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('fleet', '0010_shells'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='strike',
            name='strike_reason_known',
        ),
        migrations.AlterField(
            model_name='strike',
            name='reason',
            field=models.CharField(choices=[('node_lost', 'node_lost'), ('node_rebooted', 'node_rebooted'), ('not_claimed', 'not_claimed'), ('never_started', 'never_started'), ('launch_failed', 'launch_failed'), ('gpu_lost', 'gpu_lost'), ('gpu_ecc', 'gpu_ecc'), ('told_by_jobs', 'told_by_jobs')], max_length=20),
        ),
        migrations.AddConstraint(
            model_name='strike',
            constraint=models.CheckConstraint(condition=models.Q(('reason__in', ['gpu_ecc', 'gpu_lost', 'launch_failed', 'never_started', 'node_lost', 'node_rebooted', 'not_claimed', 'told_by_jobs'])), name='strike_reason_known'),
        ),
    ]
