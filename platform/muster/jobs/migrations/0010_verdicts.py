
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0009_form'),
    ]

    operations = [
        migrations.CreateModel(
            name='RankTail',
            fields=[
                ('allocation', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='tail', serialize=False, to='jobs.allocation')),
                ('text', models.TextField()),
            ],
        ),
        migrations.AddField(
            model_name='attempt',
            name='failure',
            field=models.JSONField(help_text='Why it failed, by its logs: jobs.verdicts.', null=True),
        ),
        migrations.AddField(
            model_name='job',
            name='failure',
            field=models.JSONField(help_text='The verdict on its last attempt, if that failed: jobs.verdicts.', null=True),
        ),
    ]
