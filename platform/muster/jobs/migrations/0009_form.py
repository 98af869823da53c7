
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0008_fewer_indexes'),
    ]

    operations = [
        migrations.AddField(
            model_name='job',
            name='form',
            field=models.CharField(choices=[('any', 'any'), ('plain', 'plain'), ('image', 'image'), ('container', 'container')], default='any', max_length=10),
        ),
        migrations.AlterField(
            model_name='job',
            name='hold_reason',
            field=models.CharField(blank=True, choices=[('quota', 'quota'), ('quota_too_small', 'quota_too_small'), ('infeasible', 'infeasible'), ('no_free_gpus', 'no_free_gpus'), ('fragmented', 'fragmented'), ('behind_head', 'behind_head'), ('cpu_or_memory', 'cpu_or_memory'), ('back_off', 'back_off'), ('still_stopping', 'still_stopping'), ('cycle_limit', 'cycle_limit'), ('reserved', 'reserved'), ('refused', 'refused'), ('runtime', 'runtime'), ('maintenance', 'maintenance')], default='', max_length=20),
        ),
        # Of finished jobs nobody asks any more.
        migrations.RunSQL(
            "UPDATE jobs_job SET form = CASE WHEN spec->>'image' <> '' THEN 'image' "
            "WHEN spec->>'shm' <> '' THEN 'container' ELSE 'plain' END WHERE state IN ('queued', 'active')",
            migrations.RunSQL.noop,
        ),
    ]
