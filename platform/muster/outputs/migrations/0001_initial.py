from django.db import migrations, models
import django.db.models.deletion

from muster.common.migrations import InitialMigration
import muster.common.models
import muster.outputs.models


class Migration(InitialMigration):
    dependencies = [
        ('jobs', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel('Collection', [
            ('allocation', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='outputs', serialize=False, to='jobs.allocation')),
            ('finished_at', models.DateTimeField(null=True)),
            ('more', models.PositiveIntegerField(default=0, help_text='Files that were left out and have no row.')),
            ('cut_short', models.BooleanField(default=False, help_text='The folder held more than could be looked at.')),
        ]),
        migrations.CreateModel('OutputFile', [
            ('id', models.BigAutoField(primary_key=True, serialize=False)),
            ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='output_files', to='jobs.job')),
            ('allocation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='output_files', to='jobs.allocation')),
            ('path', models.CharField(max_length=1024)),
            ('size', models.BigIntegerField(help_text='As the agent found it.')),
            ('stored', models.BigIntegerField(default=0, help_text='Bytes that have come.')),
            ('sha256', models.CharField(default='', max_length=64)),
            ('state', models.CharField(choices=[('arriving', 'arriving'), ('kept', 'kept'), ('too_large', 'too_large'), ('over_limit', 'over_limit'), ('no_space', 'no_space'), ('changed', 'changed'), ('vanished', 'vanished'), ('bad_name', 'bad_name'), ('not_a_file', 'not_a_file'), ('not_owned', 'not_owned'), ('too_deep', 'too_deep'), ('unreadable', 'unreadable'), ('incomplete', 'incomplete'), ('made_room', 'made_room'), ('expired', 'expired')], max_length=12)),
            ('at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
        ], {'constraints': [
            models.CheckConstraint(condition=models.Q(('state__in', ['arriving', 'bad_name', 'changed', 'expired', 'incomplete', 'kept', 'made_room', 'no_space', 'not_a_file', 'not_owned', 'over_limit', 'too_deep', 'too_large', 'unreadable', 'vanished'])), name='output_file_state_known'),
            models.UniqueConstraint(fields=('allocation', 'path'), name='output_file_path_once'),
            models.CheckConstraint(condition=models.Q(models.Q(('state', muster.outputs.models.FileState['KEPT']), _negated=True), models.Q(('stored', models.F('size')), models.Q(('sha256', ''), _negated=True)), _connector='OR'), name='output_file_kept_is_whole'),
        ]}),
    ]
