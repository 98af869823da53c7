import django.core.validators
import django.db.models.deletion
import muster.common.models
import muster.tenants.roles
import scheduler.diagnosis.idle
import scheduler.diagnosis.screening
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('tenants', '0001_initial'), ('tenants', '0002_registries'), ('tenants', '0003_volumes'), ('tenants', '0004_screening'), ('tenants', '0005_idle')]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('fleet', '0001_squashed_0018_kept'),
    ]

    operations = [
        migrations.CreateModel(
            name='PrivateRegistry',
            fields=[
                ('host', models.CharField(max_length=255, primary_key=True, serialize=False)),
                ('since', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
            ],
            options={
                'verbose_name_plural': 'private registries',
            },
        ),
        migrations.CreateModel(
            name='Tenant',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=63, unique=True, validators=[django.core.validators.RegexValidator('\\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\Z', "Use a-z, 0-9 and '-', at most 63 characters.")])),
                ('weight', models.FloatField(default=1)),
                ('screening', models.CharField(choices=[('auto', 'auto'), ('always', 'always'), ('never', 'never')], default=scheduler.diagnosis.screening.Mode['AUTO'], help_text='Whether its jobs are first tried on few GPUs, where their pool does that; auto: as each job says.', max_length=6)),
                ('created_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
                ('idle_action', models.CharField(choices=[('off', 'off'), ('warn', 'warn'), ('stop', 'stop')], default=scheduler.diagnosis.idle.Action['WARN'], help_text='What becomes of a job whose GPUs all stand idle, unless its spec says so itself.', max_length=4)),
                ('idle_below', models.FloatField(default=5, help_text='Idle is what does less than so many per cent.')),
                ('idle_for_s', models.FloatField(default=3600, help_text='After how many seconds; from 120 to a week.')),
                ('idle_binding', models.BooleanField(default=False, help_text='Whether this holds for jobs, too, whose spec asks for less.')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('weight__gt', 0)), name='tenant_weight_positive'), models.CheckConstraint(condition=models.Q(('screening__in', ['always', 'auto', 'never'])), name='tenant_screening_known'), models.CheckConstraint(condition=models.Q(('idle_action__in', ['off', 'stop', 'warn'])), name='tenant_idle_action_known'), models.CheckConstraint(condition=models.Q(('idle_below__gt', 0), ('idle_below__lte', 100)), name='tenant_idle_below_is_a_percentage'), models.CheckConstraint(condition=models.Q(('idle_for_s__gte', 120), ('idle_for_s__lte', 604800)), name='tenant_idle_for_up_to_a_week')],
            },
        ),
        migrations.CreateModel(
            name='Membership',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('member', 'member'), ('manager', 'manager')], default=muster.tenants.roles.Role['MEMBER'], max_length=10)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to=settings.AUTH_USER_MODEL)),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to='tenants.tenant')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'user'), name='membership_once'), models.CheckConstraint(condition=models.Q(('role__in', ['manager', 'member'])), name='membership_role_known')],
            },
        ),
        migrations.CreateModel(
            name='RegistryCredentials',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('username', models.CharField(max_length=200)),
                ('sealed_password', models.TextField(editable=False)),
                ('changed_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
                ('changed_by', models.CharField(max_length=150)),
                ('registry', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='credentials', to='tenants.privateregistry')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='registries', to='tenants.tenant')),
            ],
            options={
                'verbose_name': 'registry credentials',
                'verbose_name_plural': 'registry credentials',
                'constraints': [models.UniqueConstraint(fields=('tenant', 'registry'), name='registry_once_a_tenant')],
            },
        ),
        migrations.CreateModel(
            name='VirtualCluster',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=63, unique=True, validators=[django.core.validators.RegexValidator('\\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\Z', "Use a-z, 0-9 and '-', at most 63 characters.")])),
                ('created_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='virtual_clusters', to='fleet.pool')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='virtual_clusters', to='tenants.tenant')),
            ],
        ),
        migrations.CreateModel(
            name='Quota',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('gpu_type', models.CharField(max_length=63)),
                ('gpus', models.IntegerField()),
                ('vc', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='quotas', to='tenants.virtualcluster')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('vc', 'gpu_type'), name='quota_once_per_type'), models.CheckConstraint(condition=models.Q(('gpus__gte', 0)), name='quota_not_negative')],
            },
        ),
        migrations.CreateModel(
            name='Volume',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='As jobs name it.', max_length=63, validators=[django.core.validators.RegexValidator('\\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\Z', "Use a-z, 0-9 and '-', at most 63 characters.")])),
                ('path', models.CharField(help_text='The folder on the nodes, below a mount root of the pool, such as /data/seg.', max_length=500)),
                ('writable', models.BooleanField(default=False, help_text='Whether jobs may write there, as far as their user may. Else they only read.')),
                ('created_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='volumes', to='tenants.tenant')),
                ('vc', models.ForeignKey(blank=True, help_text='Empty: every one of the tenant.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='volumes', to='tenants.virtualcluster', verbose_name='virtual cluster')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'name'), name='volume_once_a_tenant')],
            },
        ),
        migrations.AddField(
            model_name='tenant',
            name='members',
            field=models.ManyToManyField(related_name='tenants', through='tenants.Membership', to=settings.AUTH_USER_MODEL),
        ),
    ]
