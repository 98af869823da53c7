"""`manage.py spec_reference`: write docs/reference/spec.md from the schema of specs."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand

from muster.help.reference import spec_page


class Command(BaseCommand):
    """Writes the page of all keys of a spec."""

    help = "Writes docs/reference/spec.md, the page of all keys of a spec, from the schema by which specs are checked."
    requires_system_checks = ()

    def handle(self, *args: object, **options: object) -> None:
        """Write the page."""
        path = Path(settings.DOCS) / "reference" / "spec.md"
        path.write_text(spec_page(), encoding="utf-8")
        self.stdout.write(f"{path} is written.")
