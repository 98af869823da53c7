"""`manage.py spec_reference`: write the pages of docs/reference that are made of tables in the code."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand

from muster.help.reference import spec_page
from muster.help.sbatch import sbatch_page


class Command(BaseCommand):
    """Writes the pages of all keys of a spec and of all options of sbatch."""

    help = "Writes docs/reference/spec.md, the keys of a spec, and sbatch.md, the options of sbatch."
    requires_system_checks = ()

    def handle(self, *args: object, **options: object) -> None:
        """Write the pages."""
        for name, text in (("spec", spec_page()), ("sbatch", sbatch_page())):
            path = Path(settings.DOCS) / "reference" / f"{name}.md"
            path.write_text(text, encoding="utf-8")
            self.stdout.write(f"{path} is written.")
