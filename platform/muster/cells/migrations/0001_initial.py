from django.db import migrations, models
import django.db.models.deletion

from muster.common.migrations import InitialMigration


class Migration(InitialMigration):
    dependencies = [
        ('fleet', '0001_initial'),
        ('jobs', '0001_initial'),
        ('tenants', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel('CellShare', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('vc', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='cells', to='tenants.virtualcluster')),
            ('cell', models.CharField(help_text='The type with those above it, such as 4-A100-NODE.A100-NODE: a node of such a rack.', max_length=255)),
            ('number', models.PositiveIntegerField()),
            ('gpu_type', models.CharField(max_length=63)),
            ('gpus', models.PositiveIntegerField(help_text='Of one such cell.')),
        ], {'constraints': [
            models.UniqueConstraint(fields=('vc', 'cell'), name='cell_share_once_a_type'),
            models.CheckConstraint(condition=models.Q(('gpus__gte', 1), ('number__gte', 1)), name='cell_share_not_empty'),
        ]}),
        migrations.CreateModel('PinnedCell', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('vc', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='pinned_cells', to='tenants.virtualcluster')),
            ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='pinned_cells', to='fleet.pool')),
            ('address', models.CharField(help_text='Of the physical cell, such as rack1/node3.', max_length=255)),
            ('gpu_type', models.CharField(max_length=63)),
            ('gpus', models.PositiveIntegerField()),
        ], {'constraints': [
            models.UniqueConstraint(fields=('pool', 'address'), name='pinned_cell_once'),
        ]}),
        migrations.CreateModel('Chain', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='chains', to='fleet.pool')),
            ('gpu_type', models.CharField(max_length=63)),
            ('bindings', models.BigIntegerField(default=0)),
        ], {'constraints': [
            models.UniqueConstraint(fields=('pool', 'gpu_type'), name='chain_once'),
        ]}),
        migrations.CreateModel('Binding', [
            ('id', models.BigAutoField(primary_key=True, serialize=False)),
            ('allocation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='bindings', to='jobs.allocation')),
            ('cell', models.CharField(help_text='The virtual cell, such as 4-A100-NODE.A100-NODE/0.', max_length=300)),
            ('gpu_ids', models.JSONField()),
        ], {'constraints': [
            models.UniqueConstraint(fields=('allocation', 'cell'), name='binding_once'),
        ]}),
    ]
