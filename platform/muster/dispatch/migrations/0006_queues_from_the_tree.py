"""The policies capacity and fair read the tree of tenants: drop their parameter `queues`, and keep the weights of leaves."""

from django.db import migrations


def drop_queues(apps, schema_editor):
    VirtualCluster = apps.get_model("tenants", "VirtualCluster")
    for model in (apps.get_model("fleet", "Pool"), apps.get_model("dispatch", "Planner")):
        for holder in model.objects.filter(policy__in=["capacity", "fair"], policy_params__has_key="queues"):
            rows = holder.policy_params.pop("queues")
            holder.save(update_fields=["policy_params"])
            pool_id = getattr(holder, "pool_id", holder.pk)
            for row in rows:
                if "weight" in row:
                    VirtualCluster.objects.filter(pool_id=pool_id, name=row["name"]).update(weight=row["weight"])


class Migration(migrations.Migration):

    dependencies = [
        ("dispatch", "0005_planners"),
        ("fleet", "0028_admission"),
        ("tenants", "0007_tree"),
    ]

    operations = [migrations.RunPython(drop_queues, migrations.RunPython.noop)]
