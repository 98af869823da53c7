"""How close the GPUs of a node are to each other. Agents have told it all along; nodes keep what they know of it."""

from django.db import migrations, models

LEVELS = ("SYS", "NODE", "PHB", "PXB", "PIX")


def score(word):
    if word in LEVELS:
        return LEVELS.index(word) + 1
    if word.startswith("NV") and word[2:].isdigit() and len(word) < 5:
        return int(word[2:]) * 10
    raise ValueError(word)


def scores(topology):
    """The matrix of a topology, or none for one that cannot be read: nobody had looked at it when it was stored."""
    size = range(len(topology))
    if any(not isinstance(row, list) or len(row) != len(topology) for row in topology):
        return []
    try:
        told = [[0 if a == b else score(topology[a][b]) for b in size] for a in size]
        return [[min(told[a][b], told[b][a]) for b in size] for a in size]
    except (AttributeError, TypeError, ValueError):
        return []


def keep_what_is_known(apps, schema_editor):
    Node = apps.get_model("fleet", "Node")
    for node in Node.objects.exclude(inventory={}).only("inventory"):
        links = scores(node.inventory.get("topology") or [])
        if links:
            Node.objects.filter(pk=node.pk).update(links=links)


class Migration(migrations.Migration):

    dependencies = [
        ("fleet", "0003_offer_lease"),
    ]

    operations = [
        migrations.AddField(
            model_name="gpu",
            name="numa_node",
            field=models.PositiveSmallIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="node",
            name="links",
            field=models.JSONField(
                blank=True, default=list, help_text="How close each two GPUs are, by index: fleet.links."
            ),
        ),
        migrations.RunPython(keep_what_is_known, migrations.RunPython.noop, elidable=True),
    ]
