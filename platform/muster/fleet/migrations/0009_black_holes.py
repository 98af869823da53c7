from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('fleet', '0008_nonce'),
    ]

    operations = [
        migrations.AddField(
            model_name='node',
            name='black_hole_at',
            field=models.DateTimeField(blank=True, help_text='Since when it is known to fail whatever comes to it.', null=True),
        ),
        migrations.AddField(
            model_name='node',
            name='resumed_at',
            field=models.DateTimeField(blank=True, help_text='When an operator last gave it back to the scheduler.', null=True),
        ),
        migrations.AddField(
            model_name='pool',
            name='black_hole_jobs',
            field=models.PositiveSmallIntegerField(default=3, help_text='A node where so many jobs in a row fail at once, and not elsewhere, is cordoned; 0 turns that off.'),
        ),
        migrations.AddField(
            model_name='pool',
            name='black_hole_s',
            field=models.FloatField(default=60, help_text='Within how long they must have failed.'),
        ),
        migrations.AddConstraint(
            model_name='pool',
            constraint=models.CheckConstraint(condition=models.Q(('black_hole_s__gt', 0)), name='pool_black_hole_s_positive'),
        ),
    ]
