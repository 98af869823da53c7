"""What sharing a pool cost."""

from __future__ import annotations

from muster.api.shapes.common import Flag, Integer, Number, Shape, Text


class JobFairness(Shape):
    """The finish-time fairness of a job: its time from submission to end, divided by its time alone on its share.

    Figures are null where `sentence` says why there are none.
    """

    final = Flag(help_text="Whether the job has ended; otherwise the figures are as it stands now.")
    sentence = Text(help_text="How much slower or faster the job is than alone, or why that is not known.")
    rho_quota = Number(allow_null=True, help_text="Against the quota of its own virtual cluster alone.")
    rho_cluster = Number(allow_null=True, help_text="Against an equal part of the pool.")
    taken_s = Number(allow_null=True, help_text="Seconds from submission to end, or to the expected end.")
    alone_s = Number(allow_null=True, help_text="The run time of its work on the GPUs that it asks for, s.")
    quota_gpus = Integer(help_text="GPUs of the quota of its virtual cluster, as far as the pool has them.")
    pool_gpus = Integer(help_text="GPUs of the pool.")
    contention = Number(
        allow_null=True, help_text="Mean number of applications in the pool since its submission, itself included."
    )
    vc_contention = Number(allow_null=True, help_text="The same of its virtual cluster.")
