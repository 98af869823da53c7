from django.db import migrations, models

# Whoever lowers it, and by whatever way: an agent may still go by the longer time that it was told.
CREATE = """
CREATE FUNCTION fleet_stop_after_is_lowered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.lowered_at + make_interval(secs => OLD.lowered_from_s) + interval '1 day' < clock_timestamp() THEN
        NEW.lowered_from_s := OLD.stop_after_s;  -- nobody goes by what was lowered before that
    ELSE
        NEW.lowered_from_s := GREATEST(OLD.lowered_from_s, OLD.stop_after_s);
    END IF;
    NEW.lowered_at := clock_timestamp();
    RETURN NEW;
END $$;

CREATE TRIGGER stop_after_is_lowered BEFORE UPDATE OF stop_after_s ON fleet_pool FOR EACH ROW
    WHEN (NEW.stop_after_s < OLD.stop_after_s) EXECUTE FUNCTION fleet_stop_after_is_lowered();
"""

DROP = """
DROP TRIGGER stop_after_is_lowered ON fleet_pool;
DROP FUNCTION fleet_stop_after_is_lowered();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('fleet', '0019_drained_for_gpu'),
    ]

    operations = [
        migrations.AlterField(
            model_name='pool',
            name='fence_margin_s',
            field=models.FloatField(default=30, help_text='For how long at least what a silent node had is kept after its jobs were to be killed; 3 % of the time until then if that is more.'),
        ),
        migrations.AddField(
            model_name='pool',
            name='lowered_at',
            field=models.DateTimeField(editable=False, help_text='When stop_after_s was last lowered; Postgres writes it.', null=True),
        ),
        migrations.AddField(
            model_name='pool',
            name='lowered_from_s',
            field=models.FloatField(editable=False, help_text='What it was before: agents that were told so may still go by it.', null=True),
        ),
        migrations.AddField(
            model_name='pool',
            name='silent_since',
            field=models.DateTimeField(editable=False, help_text='Since when more than half of it is silent, so that no node is given up.', null=True),
        ),
        migrations.AddField(
            model_name='node',
            name='down_at',
            field=models.DateTimeField(editable=False, help_text='When it last went down.', null=True),
        ),
        migrations.AddField(
            model_name='node',
            name='gone_at',
            field=models.DateTimeField(editable=False, help_text='When an operator declared it gone: nothing is held there until it is resumed.', null=True),
        ),
        migrations.AddField(
            model_name='node',
            name='gone_why',
            field=models.CharField(blank=True, db_default='', default='', editable=False, help_text='By whom, and why.', max_length=500),
        ),
        migrations.RunSQL(CREATE, DROP),
    ]
