from django.conf import settings
from django.db import migrations, models

import muster.accounts.uids

ACTOR = "migration"


def give_uids(apps, schema_editor):
    """Give a uid to each user without one, or with that of another user, and tell the operators.

    A root agent ran the jobs of a user without a uid as root. The audit log keeps who that was.
    """
    User = apps.get_model("accounts", "User")
    AuditEntry = apps.get_model("events", "AuditEntry")
    taken = set()
    changed, without = [], []
    for user in User.objects.order_by("pk"):
        if user.uid is not None and user.uid not in taken:
            taken.add(user.uid)
        else:
            changed.append(user)
    for user in changed:
        before, user.uid = user.uid, muster.accounts.uids.next_uid(taken)
        if user.uid is None:
            raise RuntimeError("MUSTER_UID_RANGE has too few uids for the users without one: set a larger range")
        if before is None:
            without.append(user.username)
        taken.add(user.uid)
        user.save(update_fields=["uid"])
        AuditEntry.objects.create(
            actor=ACTOR,
            action="assign_uid",
            object_type="user",
            object_id=user.username,
            before={"uid": before},
            after={"uid": user.uid},
        )
    if without:
        _tell_operators(apps, sorted(without))


def _tell_operators(apps, usernames):
    data = {"users": usernames, "command": "manage.py jobs_without_uid"}
    apps.get_model("events", "Event").objects.create(kind="users.had_no_uid", actor=ACTOR, data=data)
    if settings.OPERATORS_MAIL:
        body = (
            f"These users had no uid: {', '.join(usernames)}.\n\n"
            "An agent that is root ran their jobs as root, without a container. Such a job could read all secrets of its"
            " machine. They have a uid now, and agents refuse to run a job as root.\n\n"
            "Run `manage.py jobs_without_uid`: it lists these jobs, their nodes, and what to rotate.\n"
        )
        payload = {"to": settings.OPERATORS_MAIL, "subject": "Muster: jobs may have run as root", "body": body}
        apps.get_model("events", "Outbox").objects.create(topic="mail", payload=payload)


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0003_token_scopes"),
        ("events", "0002_audit_address"),
    ]

    operations = [
        migrations.AlterModelManagers(name="user", managers=[]),
        migrations.RunPython(give_uids, migrations.RunPython.noop),
        migrations.RemoveConstraint(model_name="user", name="user_uid_not_root"),
        migrations.AlterField(
            model_name="user",
            name="gids",
            field=models.JSONField(
                blank=True,
                default=list,
                help_text="Unix group ids of this user's jobs, such as [1000, 1001]; empty: one group with the uid's number.",
                validators=[muster.accounts.uids.validate_gids],
            ),
        ),
        migrations.AlterField(
            model_name="user",
            name="uid",
            field=models.PositiveIntegerField(
                blank=True,
                error_messages={"unique": "Another user has this uid."},
                help_text="Unix uid of this user's jobs. Leave it empty to take a free one from MUSTER_UID_RANGE.",
                unique=True,
                validators=[muster.accounts.uids.validate_uid],
            ),
        ),
        migrations.AddConstraint(
            model_name="user",
            constraint=models.CheckConstraint(
                condition=models.Q(("uid__gt", 0)), name="user_uid_not_root"
            ),
        ),
    ]
