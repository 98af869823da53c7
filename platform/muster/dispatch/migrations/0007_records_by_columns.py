"""Drops the snapshots and plans that were stored by rows: records are stored by columns now."""

from django.db import migrations

# A lane would carry out a target that it cannot read; without one it solves again.
_DROP = """
UPDATE dispatch_cycle SET snapshot = NULL, plan = NULL, target_id = NULL
WHERE snapshot IS NOT NULL OR target_id IS NOT NULL;
DELETE FROM dispatch_target;
"""


class Migration(migrations.Migration):

    dependencies = [('dispatch', '0006_queues_from_the_tree')]

    operations = [migrations.RunSQL(_DROP, migrations.RunSQL.noop)]
