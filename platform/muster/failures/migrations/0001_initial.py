
import muster.common.models
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='RuleBook',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('text', models.TextField(blank=True, help_text='YAML: a class, and under it rules with name, match, line and more; docs/failures.md. Empty: none.', max_length=200000)),
                ('note', models.CharField(blank=True, default='', help_text='What is new in it.', max_length=200)),
                ('trial', models.JSONField(default=dict, editable=False, help_text='What it changes for past failures.')),
                ('author', models.CharField(editable=False, max_length=200)),
                ('created_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
                ('in_force_at', models.DateTimeField(editable=False, null=True)),
            ],
            options={
                'verbose_name': 'version of the rules',
                'verbose_name_plural': 'rules for failures',
                'indexes': [models.Index(condition=models.Q(('in_force_at__isnull', False)), fields=['-in_force_at'], name='rules_in_force')],
            },
        ),
    ]
