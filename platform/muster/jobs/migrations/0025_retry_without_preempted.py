"""Takes the word `preempted` out of stored specs: preemptions never used up a retry, whatever `retry.on` said."""

from django.db import migrations

FORGET = """
UPDATE jobs_job SET spec = jsonb_set(spec, '{retry,on}', (spec #> '{retry,on}') - 'preempted')
WHERE (spec #> '{retry,on}') ? 'preempted'
"""


class Migration(migrations.Migration):

    dependencies = [("jobs", "0024_single_user")]

    operations = [migrations.RunSQL(FORGET, migrations.RunSQL.noop)]
