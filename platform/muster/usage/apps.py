from __future__ import annotations

from django.apps import AppConfig


class UsageConfig(AppConfig):
    name = "muster.usage"

    def ready(self) -> None:
        """Have the grade of a job told with its end, and forgotten with it."""
        from muster.jobs.ports import ports  # noqa: PLC0415 (models can be imported from here on)
        from muster.notices.grades import grade_by  # noqa: PLC0415
        from muster.usage.grading import forget_grades, grades_for_notices  # noqa: PLC0415
        from muster.usage.totals import uncount  # noqa: PLC0415

        grade_by(grades_for_notices)
        ports.when_requeued += [uncount, forget_grades]
