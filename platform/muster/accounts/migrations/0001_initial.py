from django.conf import settings
from django.db import migrations, models
import django.contrib.auth.validators
import django.contrib.postgres.fields
import django.db.models.deletion
import django.utils.timezone

from muster.common.migrations import InitialMigration
import muster.accounts.uids
import muster.common.models


class Migration(InitialMigration):
    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
    ]

    operations = [
        migrations.CreateModel('User', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('password', models.CharField(max_length=128, verbose_name='password')),
            ('last_login', models.DateTimeField(blank=True, null=True, verbose_name='last login')),
            ('is_superuser', models.BooleanField(default=False, help_text='Designates that this user has all permissions without explicitly assigning them.', verbose_name='superuser status')),
            ('username', models.CharField(error_messages={'unique': 'A user with that username already exists.'}, help_text='Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.', max_length=150, unique=True, validators=[django.contrib.auth.validators.UnicodeUsernameValidator()], verbose_name='username')),
            ('first_name', models.CharField(blank=True, max_length=150, verbose_name='first name')),
            ('last_name', models.CharField(blank=True, max_length=150, verbose_name='last name')),
            ('email', models.EmailField(blank=True, max_length=254, verbose_name='email address')),
            ('is_staff', models.BooleanField(default=False, help_text='Designates whether the user can log into this admin site.', verbose_name='staff status')),
            ('is_active', models.BooleanField(default=True, help_text='Designates whether this user should be treated as active. Unselect this instead of deleting accounts.', verbose_name='active')),
            ('date_joined', models.DateTimeField(default=django.utils.timezone.now, verbose_name='date joined')),
            ('uid', models.PositiveIntegerField(blank=True, error_messages={'unique': 'Another user has this uid.'}, help_text="Unix uid of this user's jobs. Leave it empty to take a free one from MUSTER_UID_RANGE.", unique=True, validators=[muster.accounts.uids.validate_uid])),
            ('gids', models.JSONField(blank=True, default=list, help_text="Unix group ids of this user's jobs, such as [1000, 1001]; empty: one group with the uid's number.", validators=[muster.accounts.uids.validate_gids])),
            ('groups', models.ManyToManyField(blank=True, help_text='The groups this user belongs to. A user will get all permissions granted to each of their groups.', related_name='user_set', related_query_name='user', to='auth.group', verbose_name='groups')),
            ('user_permissions', models.ManyToManyField(blank=True, help_text='Specific permissions for this user.', related_name='user_set', related_query_name='user', to='auth.permission', verbose_name='user permissions')),
        ], {'verbose_name': 'user', 'verbose_name_plural': 'users', 'constraints': [
            models.CheckConstraint(condition=models.Q(('uid__gt', 0)), name='user_uid_not_root'),
        ]}),
        migrations.CreateModel('ApiToken', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tokens', to=settings.AUTH_USER_MODEL)),
            ('name', models.CharField(max_length=100)),
            ('prefix', models.CharField(max_length=12)),
            ('digest', models.CharField(max_length=64, unique=True)),
            ('created_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
            ('expires_at', models.DateTimeField()),
            ('last_used_at', models.DateTimeField(blank=True, null=True)),
            ('revoked_at', models.DateTimeField(blank=True, null=True)),
            ('scopes', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=10), size=None)),
            ('survives_password_change', models.BooleanField(default=False, help_text="Whether the token stays when its user's password changes.")),
        ], {'constraints': [
            models.UniqueConstraint(condition=models.Q(('revoked_at__isnull', True)), fields=('user', 'name'), name='token_name'),
            models.CheckConstraint(condition=models.Q(('scopes__contained_by', ['read', 'submit', 'manage', 'admin']), ('scopes__contains', ['read'])), name='token_scopes'),
        ]}),
        migrations.CreateModel('Session', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('key_digest', models.CharField(max_length=64, unique=True)),
            ('user', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='sessions', to=settings.AUTH_USER_MODEL)),
            ('data', models.TextField()),
            ('created_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
            ('last_used_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
            ('expires_at', models.DateTimeField()),
            ('address', models.GenericIPAddressField(help_text='Where the user signed in from.', null=True)),
            ('user_agent', models.CharField(default='', help_text="The browser's own name for itself.", max_length=200)),
        ]),
        migrations.CreateModel('RateLimit', [
            ('key', models.CharField(max_length=64, primary_key=True, serialize=False)),
            ('drained_at', models.DateTimeField()),
        ]),
        migrations.CreateModel('KnownAddress', [
            ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='known_addresses', to=settings.AUTH_USER_MODEL)),
            ('address', models.GenericIPAddressField()),
            ('last_used_at', models.DateTimeField(db_default=muster.common.models.DatabaseNow())),
        ], {'verbose_name_plural': 'known addresses', 'constraints': [
            models.UniqueConstraint(fields=('user', 'address'), name='known_address_once'),
        ]}),
    ]
