from django.db import migrations, models
import django.db.models.deletion

from muster.common.migrations import InitialMigration
import muster.common.models


class Migration(InitialMigration):
    dependencies = [
        ('jobs', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel('RuleBook', [
            ('id', models.BigAutoField(primary_key=True, serialize=False)),
            ('note', models.CharField(blank=True, default='', help_text='What is new in it.', max_length=200)),
            ('author', models.CharField(editable=False, max_length=200)),
            ('created_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
            ('in_force_at', models.DateTimeField(editable=False, null=True)),
            ('text', models.TextField(blank=True, help_text='YAML: a class, and under it rules with name, match, line; see docs/user/failures.md. Empty: none.', max_length=200000)),
            ('preview', models.JSONField(default=dict, editable=False, help_text='What it changes for past failures.')),
        ], {'verbose_name': 'version of the rules', 'verbose_name_plural': 'rules for failures', 'indexes': [
            models.Index(condition=models.Q(('in_force_at__isnull', False)), fields=['-in_force_at'], name='rules_in_force'),
        ]}),
        migrations.CreateModel('LogRuleBook', [
            ('id', models.BigAutoField(primary_key=True, serialize=False)),
            ('note', models.CharField(blank=True, default='', help_text='What is new in it.', max_length=200)),
            ('author', models.CharField(editable=False, max_length=200)),
            ('created_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
            ('in_force_at', models.DateTimeField(editable=False, null=True)),
            ('text', models.TextField(blank=True, help_text='YAML: a name, and under it match, line, actions and more; docs/user/failures.md. Empty: no rules.', max_length=200000)),
            ('preview', models.JSONField(default=dict, editable=False, help_text='Which past failures it would have met.')),
        ], {'verbose_name': 'version of the rules for logs', 'verbose_name_plural': 'rules for logs', 'indexes': [
            models.Index(condition=models.Q(('in_force_at__isnull', False)), fields=['-in_force_at'], name='log_rules_in_force'),
        ]}),
        migrations.CreateModel('LogMatch', [
            ('id', models.BigAutoField(primary_key=True, serialize=False)),
            ('job', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='log_matches', to='jobs.job')),
            ('rule', models.CharField(max_length=60)),
            ('allocation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='jobs.allocation')),
            ('actions', models.JSONField()),
            ('line', models.CharField(max_length=400)),
            ('at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
        ], {'verbose_name_plural': 'log matches', 'constraints': [
            models.UniqueConstraint(fields=('job', 'rule'), name='log_match_once'),
        ]}),
    ]
