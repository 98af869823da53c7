from django.conf import settings
from django.db import migrations, models
import django.core.validators
import django.db.models.deletion

from muster.common.migrations import InitialMigration
import muster.common.models
import muster.tenants.roles
import scheduler.diagnosis.idle
import scheduler.diagnosis.screening


class Migration(InitialMigration):
    dependencies = [
        ('fleet', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel('Organisation', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('weight', models.FloatField(default=1, help_text='Its shares among its siblings, for policies that divide a pool.')),
            ('version', models.IntegerField(default=1, editable=False)),
            ('changed_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow(), editable=False)),
            ('changed_by', models.CharField(blank=True, default='', editable=False, max_length=150)),
            ('name', models.CharField(max_length=63, unique=True, validators=[django.core.validators.RegexValidator('\\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\Z', "Use a-z, 0-9 and '-', at most 63 characters.")])),
            ('parent', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='organisations', to='tenants.organisation')),
            ('created_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
        ], {'constraints': [
            models.CheckConstraint(condition=models.Q(('weight__gt', 0)), name='organisation_weight_positive'),
            models.CheckConstraint(condition=models.Q(('parent', models.F('id')), _negated=True), name='organisation_not_its_own_parent'),
        ]}),
        migrations.CreateModel('Tenant', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('weight', models.FloatField(default=1, help_text='Its shares among its siblings, for policies that divide a pool.')),
            ('version', models.IntegerField(default=1, editable=False)),
            ('changed_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow(), editable=False)),
            ('changed_by', models.CharField(blank=True, default='', editable=False, max_length=150)),
            ('name', models.CharField(max_length=63, unique=True, validators=[django.core.validators.RegexValidator('\\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\Z', "Use a-z, 0-9 and '-', at most 63 characters.")])),
            ('organisation', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='tenants', to='tenants.organisation')),
            ('screening', models.CharField(choices=[('auto', 'auto'), ('always', 'always'), ('never', 'never')], default=scheduler.diagnosis.screening.Mode['AUTO'], help_text='Whether jobs first run on a few GPUs, in pools with screening; auto: as each job says.', max_length=6)),
            ('created_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
            ('idle_action', models.CharField(choices=[('off', 'off'), ('warn', 'warn'), ('stop', 'stop')], default=scheduler.diagnosis.idle.Action['WARN'], help_text='What happens to a job whose GPUs are all idle, unless its spec says something else.', max_length=4)),
            ('idle_below', models.FloatField(default=5, help_text='GPUs below this utilisation, in per cent, count as idle.')),
            ('idle_for_s', models.FloatField(default=3600, help_text='For how many seconds they must be idle: 120 to a week.')),
            ('idle_binding', models.BooleanField(default=False, help_text='Whether this rule wins over a spec that asks for less.')),
            ('wait_for_hardware', models.BooleanField(default=False, help_text='Whether jobs that no node or quota of their pool can meet today may be submitted. They wait until one can.')),
        ], {'constraints': [
            models.CheckConstraint(condition=models.Q(('weight__gt', 0)), name='tenant_weight_positive'),
            models.CheckConstraint(condition=models.Q(('screening__in', ['always', 'auto', 'never'])), name='tenant_screening_known'),
            models.CheckConstraint(condition=models.Q(('idle_action__in', ['off', 'stop', 'warn'])), name='tenant_idle_action_known'),
            models.CheckConstraint(condition=models.Q(('idle_below__gt', 0), ('idle_below__lte', 100)), name='tenant_idle_below_is_a_percentage'),
            models.CheckConstraint(condition=models.Q(('idle_for_s__gte', 120), ('idle_for_s__lte', 604800)), name='tenant_idle_for_up_to_a_week'),
        ]}),
        migrations.CreateModel('Membership', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to='tenants.tenant')),
            ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to=settings.AUTH_USER_MODEL)),
            ('role', models.CharField(choices=[('member', 'member'), ('manager', 'manager')], default=muster.tenants.roles.Role['MEMBER'], max_length=10)),
        ], {'constraints': [
            models.UniqueConstraint(fields=('tenant', 'user'), name='membership_once'),
            models.CheckConstraint(condition=models.Q(('role__in', ['manager', 'member'])), name='membership_role_known'),
        ]}),
        migrations.CreateModel('VirtualCluster', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('weight', models.FloatField(default=1, help_text='Its shares among its siblings, for policies that divide a pool.')),
            ('version', models.IntegerField(default=1, editable=False)),
            ('changed_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow(), editable=False)),
            ('changed_by', models.CharField(blank=True, default='', editable=False, max_length=150)),
            ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='virtual_clusters', to='tenants.tenant')),
            ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='virtual_clusters', to='fleet.pool')),
            ('name', models.CharField(max_length=63, unique=True, validators=[django.core.validators.RegexValidator('\\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\Z', "Use a-z, 0-9 and '-', at most 63 characters.")])),
            ('created_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
            ('closed_at', models.DateTimeField(editable=False, help_text='When it was deleted; the row stays for the jobs that ran in it.', null=True)),
        ], {'constraints': [
            models.CheckConstraint(condition=models.Q(('weight__gt', 0)), name='virtual_cluster_weight_positive'),
        ]}),
        migrations.CreateModel('PrivateRegistry', [
            ('host', models.CharField(max_length=255, primary_key=True, serialize=False)),
            ('since', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
        ], {'verbose_name_plural': 'private registries'}),
        migrations.CreateModel('RegistryCredentials', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='registries', to='tenants.tenant')),
            ('registry', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='credentials', to='tenants.privateregistry')),
            ('username', models.CharField(max_length=200)),
            ('sealed_password', models.TextField(editable=False)),
            ('changed_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
            ('changed_by', models.CharField(max_length=150)),
        ], {'verbose_name': 'registry credentials', 'verbose_name_plural': 'registry credentials', 'constraints': [
            models.UniqueConstraint(fields=('tenant', 'registry'), name='registry_once_a_tenant'),
        ]}),
        migrations.CreateModel('Volume', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='volumes', to='tenants.tenant')),
            ('vc', models.ForeignKey(blank=True, help_text='Empty: every one of the tenant.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='volumes', to='tenants.virtualcluster', verbose_name='virtual cluster')),
            ('name', models.CharField(help_text='As jobs name it.', max_length=63, validators=[django.core.validators.RegexValidator('\\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\Z', "Use a-z, 0-9 and '-', at most 63 characters.")])),
            ('path', models.CharField(help_text='The folder on the nodes, below a mount root of the pool, such as /data/seg.', max_length=500)),
            ('writable', models.BooleanField(default=False, help_text='Whether jobs may write there, as far as their user may. Else they only read.')),
            ('created_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
        ], {'constraints': [
            models.UniqueConstraint(fields=('tenant', 'name'), name='volume_once_a_tenant'),
        ]}),
        migrations.CreateModel('Quota', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('gpu_type', models.CharField(max_length=63)),
            ('gpus', models.IntegerField()),
            ('borrowing', models.IntegerField(blank=True, help_text='How many GPUs it may borrow; empty: no limit.', null=True, validators=[django.core.validators.MinValueValidator(0)], verbose_name='borrowing limit')),
            ('lending', models.IntegerField(blank=True, help_text='How many of its GPUs others may borrow; empty: all.', null=True, validators=[django.core.validators.MinValueValidator(0)], verbose_name='lending limit')),
            ('vc', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='quotas', to='tenants.virtualcluster')),
        ], {'constraints': [
            models.UniqueConstraint(fields=('vc', 'gpu_type'), name='quota_once_per_type'),
            models.CheckConstraint(condition=models.Q(('gpus__gte', 0)), name='quota_not_negative'),
            models.CheckConstraint(condition=models.Q(('borrowing__gte', 0)), name='quota_borrowing_not_negative'),
            models.CheckConstraint(condition=models.Q(('lending__gte', 0)), name='quota_lending_not_negative'),
        ]}),
        migrations.CreateModel('CommonQuota', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('gpu_type', models.CharField(max_length=63)),
            ('gpus', models.IntegerField()),
            ('borrowing', models.IntegerField(blank=True, help_text='How many GPUs it may borrow; empty: no limit.', null=True, validators=[django.core.validators.MinValueValidator(0)], verbose_name='borrowing limit')),
            ('lending', models.IntegerField(blank=True, help_text='How many of its GPUs others may borrow; empty: all.', null=True, validators=[django.core.validators.MinValueValidator(0)], verbose_name='lending limit')),
            ('organisation', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='quotas', to='tenants.organisation')),
            ('tenant', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='quotas', to='tenants.tenant')),
            ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='common_quotas', to='fleet.pool')),
        ], {'constraints': [
            models.CheckConstraint(condition=models.Q(('organisation__isnull', True), ('tenant__isnull', True), _connector='XOR'), name='common_quota_of_one_owner'),
            models.UniqueConstraint(fields=('organisation', 'tenant', 'pool', 'gpu_type'), name='common_quota_once_per_type', nulls_distinct=False),
            models.CheckConstraint(condition=models.Q(('gpus__gte', 0)), name='common_quota_not_negative'),
            models.CheckConstraint(condition=models.Q(('borrowing__gte', 0)), name='common_quota_borrowing_not_negative'),
            models.CheckConstraint(condition=models.Q(('lending__gte', 0)), name='common_quota_lending_not_negative'),
        ]}),
        migrations.CreateModel('Cap', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='caps', to='tenants.tenant')),
            ('user', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='caps', to=settings.AUTH_USER_MODEL)),
            ('role', models.CharField(blank=True, choices=[('member', 'member'), ('manager', 'manager')], default='', max_length=10)),
            ('gpus', models.IntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(0)], verbose_name='GPUs at once')),
            ('jobs', models.IntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(0)], verbose_name='jobs at once')),
            ('gpu_hours_month', models.FloatField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(0)], verbose_name='GPU-hours a month')),
            ('time_s', models.FloatField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1)], verbose_name='longest time, s')),
            ('job_gpus', models.IntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(0)], verbose_name='GPUs of one job')),
        ], {'constraints': [
            models.UniqueConstraint(fields=('tenant', 'user', 'role'), name='cap_once', nulls_distinct=False),
            models.CheckConstraint(condition=models.Q(('user__isnull', True), ('role', ''), _connector='OR'), name='cap_of_user_or_role'),
            models.CheckConstraint(condition=models.Q(('role__in', ['', 'manager', 'member'])), name='cap_role_known'),
            models.CheckConstraint(condition=models.Q(models.Q(('gpus__isnull', True), ('gpus__gte', 0), _connector='OR'), models.Q(('jobs__isnull', True), ('jobs__gte', 0), _connector='OR'), models.Q(('gpu_hours_month__isnull', True), ('gpu_hours_month__gte', 0), _connector='OR'), models.Q(('job_gpus__isnull', True), ('job_gpus__gte', 0), _connector='OR'), models.Q(('time_s__isnull', True), ('time_s__gte', 1), _connector='OR')), name='cap_not_negative'),
        ]}),
        migrations.CreateModel('Loan', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('borrower', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='borrowed', to='tenants.virtualcluster')),
            ('lender_vc', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='lent', to='tenants.virtualcluster')),
            ('lender_tenant', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='lent', to='tenants.tenant')),
            ('lender_organisation', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='lent', to='tenants.organisation')),
            ('gpu_type', models.CharField(max_length=63)),
            ('gpus', models.IntegerField()),
            ('since', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
            ('until', models.DateTimeField(null=True)),
        ], {'constraints': [
            models.CheckConstraint(condition=models.Q(('gpus__gt', 0)), name='loan_positive'),
        ], 'indexes': [
            models.Index(fields=['borrower', 'until'], name='loan_of_borrower'),
        ]}),
        migrations.AddField('tenant', 'members', models.ManyToManyField(related_name='tenants', through='tenants.Membership', to=settings.AUTH_USER_MODEL)),
    ]
