from __future__ import annotations

from django.apps import AppConfig


class UsageConfig(AppConfig):
    name = "muster.usage"
    label = "usage"
    verbose_name = "Usage"

    def ready(self) -> None:
        """Have the grade of a job told with its end."""
        from muster.notices.grades import grade_by  # noqa: PLC0415 (models can be imported from here on)
        from muster.usage.grading import grades_for_notices  # noqa: PLC0415

        grade_by(grades_for_notices)
