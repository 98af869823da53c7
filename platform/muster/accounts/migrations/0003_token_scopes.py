"""Scopes of tokens. What exists has all of them: a token could do all that its user could."""

import django.contrib.postgres.fields
from django.db import migrations, models

ALL = ["read", "submit", "manage", "admin"]


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_sign_in")]

    operations = [
        migrations.AddField(
            model_name="apitoken",
            name="scopes",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=10), default=ALL, size=None
            ),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="apitoken",
            name="survives_password_change",
            field=models.BooleanField(
                default=False, help_text="Whether the token stays when its user's password changes."
            ),
        ),
        migrations.AddConstraint(
            model_name="apitoken",
            constraint=models.CheckConstraint(
                condition=models.Q(scopes__contained_by=ALL, scopes__contains=["read"]), name="token_scopes"
            ),
        ),
    ]
