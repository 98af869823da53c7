"""Separate from the initial migration: tenants have virtual clusters in pools, and a node may belong to a tenant."""

from django.db import migrations, models
import django.db.models.deletion


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ('fleet', '0001_initial'),
        ('tenants', '0001_initial'),
    ]

    operations = [
        migrations.AddField('node', 'single_user_tenant', models.ForeignKey(blank=True, help_text='Whose jobs a single-user node takes. Empty: those of the only tenant with a virtual cluster in its pool; of no tenant if there are several.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='tenants.tenant')),
    ]
