from django.conf import settings
from django.db import migrations, models
import django.core.validators
import django.db.models.deletion

from muster.common.migrations import InitialMigration
import muster.common.models
import scheduler.model.lifecycle


class Migration(InitialMigration):
    dependencies = [
        ('fleet', '0001_initial'),
        ('jobs', '0001_initial'),
        ('tenants', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel('Role', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('name', models.CharField(max_length=63, unique=True, validators=[django.core.validators.RegexValidator('\\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\Z', "Use a-z, 0-9 and '-', at most 63 characters.")])),
            ('vc', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='roles', to='tenants.virtualcluster')),
            ('weight', models.FloatField(default=1, help_text="Its share beside the pool's other roles.")),
            ('revocable', models.BooleanField(default=False, help_text='What is launched on its offers is opportunistic and may be preempted.')),
            ('created_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
        ], {'constraints': [
            models.CheckConstraint(condition=models.Q(('weight__gt', 0)), name='role_weight_positive'),
        ]}),
        migrations.CreateModel('Framework', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('role', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='frameworks', to='offers.role')),
            ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='frameworks', to=settings.AUTH_USER_MODEL)),
            ('registered_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
            ('needs', models.CharField(choices=[('any', 'any'), ('plain', 'plain'), ('image', 'image'), ('container', 'container'), ('image_volumes', 'image_volumes'), ('container_volumes', 'container_volumes')], db_default='any', default=scheduler.model.lifecycle.RuntimeNeed['ANY'], help_text='In what form its jobs start: it is offered no node that cannot start such a job.', max_length=20)),
            ('seen_at', models.DateTimeField(help_text='When it last asked for offers; empty once it has left.', null=True)),
        ], {'constraints': [
            models.UniqueConstraint(fields=('role', 'user'), name='framework_once_in_a_role'),
            models.CheckConstraint(condition=models.Q(('needs__in', ['any', 'container', 'container_volumes', 'image', 'image_volumes', 'plain'])), name='framework_needs_known'),
        ]}),
        migrations.CreateModel('Offer', [
            ('id', models.BigAutoField(primary_key=True, serialize=False)),
            ('framework', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='offers', to='offers.framework')),
            ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='offers', to='fleet.node')),
            ('state', models.CharField(choices=[('standing', 'standing'), ('accepted', 'accepted'), ('declined', 'declined'), ('expired', 'expired'), ('rescinded', 'rescinded')], default=scheduler.model.lifecycle.OfferState['STANDING'], max_length=10)),
            ('gpu_ids', models.JSONField()),
            ('cpus', models.PositiveIntegerField()),
            ('memory_mib', models.PositiveBigIntegerField()),
            ('made_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
            ('expires_at', models.DateTimeField()),
            ('ended_at', models.DateTimeField(null=True)),
            ('detail', models.CharField(blank=True, default='', max_length=500)),
        ], {'constraints': [
            models.CheckConstraint(condition=models.Q(('state__in', ['accepted', 'declined', 'expired', 'rescinded', 'standing'])), name='offer_state_known'),
            models.CheckConstraint(condition=models.Q(models.Q(('ended_at__isnull', True), ('state', scheduler.model.lifecycle.OfferState['STANDING'])), models.Q(models.Q(('state', scheduler.model.lifecycle.OfferState['STANDING']), _negated=True), ('ended_at__isnull', False)), _connector='OR'), name='offer_ended_has_time'),
        ], 'indexes': [
            models.Index(condition=models.Q(('state', scheduler.model.lifecycle.OfferState['STANDING'])), fields=['framework', 'id'], name='offer_standing'),
            models.Index(condition=models.Q(('ended_at__isnull', False)), fields=['ended_at'], name='offer_age'),
        ]}),
        migrations.CreateModel('OfferedGpu', [
            ('gpu', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='offered', serialize=False, to='fleet.gpu')),
            ('offer', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='gpus', to='offers.offer')),
        ]),
        migrations.CreateModel('OfferFilter', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('framework', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='filters', to='offers.framework')),
            ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='fleet.node')),
            ('until', models.DateTimeField()),
        ], {'constraints': [
            models.UniqueConstraint(fields=('framework', 'node'), name='offer_filter_once'),
        ]}),
        migrations.CreateModel('Launch', [
            ('job', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='launch', serialize=False, to='jobs.job')),
            ('framework', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='launches', to='offers.framework')),
            ('offer', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='launches', to='offers.offer')),
        ]),
    ]
