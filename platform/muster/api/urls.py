"""The paths of REST v1. None has a trailing slash; what is done with a job is written behind a colon."""

from __future__ import annotations

from typing import Any

from django.urls import URLPattern, path, register_converter
from django.urls.converters import IntConverter, StringConverter
from drf_spectacular.views import SpectacularSwaggerSplitView

from muster.accounts.scopes import Scope
from muster.api.accounts import views as accounts
from muster.api.arrays import views as arrays
from muster.api.base import ApiView
from muster.api.cells import views as cells
from muster.api.fairness import views as fairness
from muster.api.fleet import views as fleet
from muster.api.forecast import scripts
from muster.api.forecast import views as forecast
from muster.api.jobs import parts as job_parts
from muster.api.jobs import views as jobs
from muster.api.metrics import views as metrics
from muster.api.notices import views as notices
from muster.api.offers import views as offers
from muster.api.policies import views as policies
from muster.api.predictions import views as predictions
from muster.api.queue import views as queue
from muster.api.service import views as service
from muster.api.shells import views as shells
from muster.api.slurm import views as slurm
from muster.api.slurm_table import views as slurm_table
from muster.api.sweeps import views as sweeps
from muster.api.tree import views as tree
from muster.api.usage import views as usage


class Id(IntConverter):
    """The number of an object: digits, and no more of them than the database can hold."""

    regex = "[0-9]{1,18}"


class Name(StringConverter):
    """The name of a node."""

    regex = "[a-z0-9-]{1,63}"


register_converter(Id, "id")
register_converter(Name, "name")


def _to(route: str, view: type[ApiView], write_scope: Scope | None = None, *, jobs: bool = False) -> URLPattern:
    """The path of a view, with the scope that a token needs for methods that change something; `jobs` opens it to the
    tokens of running jobs."""
    handler: Any = view.as_view(write_scope=write_scope, open_to_jobs=jobs)
    pattern: URLPattern = path(route, handler)
    return pattern


v1 = [
    _to("login", accounts.Login),
    _to("logout", accounts.Logout, Scope.SUBMIT),
    _to("me", accounts.Me, Scope.MANAGE),
    _to("me/notifications", notices.MyNotifications, Scope.SUBMIT),
    _to("webhooks", notices.Webhooks, Scope.SUBMIT),
    _to("webhooks/<id:webhook_id>", notices.OneWebhook, Scope.SUBMIT),
    _to("webhooks/<id:webhook_id>:test", notices.TestWebhook, Scope.SUBMIT),
    _to("password", accounts.Password, Scope.MANAGE),
    _to("tokens", accounts.Tokens, Scope.SUBMIT),
    _to("tokens/<id:token_id>", accounts.OneToken, Scope.SUBMIT),
    _to("sessions", accounts.Sessions, Scope.MANAGE),
    _to("sessions/<id:session_id>", accounts.OneSession, Scope.MANAGE),
    _to("registries", tree.Registries, Scope.MANAGE),
    _to("registries/<id:registry_id>", tree.OneRegistry, Scope.MANAGE),
    _to("jobs", jobs.Jobs, Scope.SUBMIT, jobs=True),
    _to("jobs:batch", jobs.JobBatch, Scope.SUBMIT, jobs=True),
    _to("jobs:count", jobs.JobCounts, jobs=True),
    _to("jobs:cancel", jobs.CancelJobs, Scope.SUBMIT, jobs=True),
    _to("jobs:dry-run", forecast.JobDryRun, Scope.SUBMIT, jobs=True),
    _to("jobs/<id:job_id>", jobs.OneJob, Scope.SUBMIT, jobs=True),
    _to("jobs/<id:job_id>:cancel", jobs.CancelJob, Scope.SUBMIT, jobs=True),
    _to("jobs/<id:job_id>:requeue", jobs.RequeueJob, Scope.SUBMIT, jobs=True),
    _to("jobs/<id:job_id>:clone", jobs.CloneJob, Scope.SUBMIT, jobs=True),
    _to("jobs/<id:job_id>:hold", queue.HoldJob, Scope.SUBMIT, jobs=True),
    _to("jobs/<id:job_id>:release", queue.ReleaseJob, Scope.SUBMIT, jobs=True),
    _to("jobs/<id:job_id>:bump", queue.BumpJob, Scope.MANAGE),
    _to("jobs/<id:job_id>:unbump", queue.UnbumpJob, Scope.MANAGE),
    _to("jobs/<id:job_id>/why", forecast.JobWhy, jobs=True),
    _to("jobs/<id:job_id>/when", predictions.JobWhen, jobs=True),
    _to("jobs/<id:job_id>/delays", usage.DelaysOfJob, jobs=True),
    _to("jobs/<id:job_id>/fairness", fairness.FairnessOfJob),
    _to("jobs/<id:job_id>/attempts", job_parts.JobAttempts, jobs=True),
    _to("jobs/<id:job_id>/dependencies", job_parts.JobDependencies, jobs=True),
    _to("jobs/<id:job_id>/events", job_parts.JobEvents, jobs=True),
    _to("jobs/<id:job_id>/files", job_parts.JobFiles, jobs=True),
    _to("jobs/<id:job_id>/shells", shells.JobShells, Scope.SUBMIT),
    _to("jobs/<id:job_id>/metrics", metrics.MetricsOfJob, jobs=True),
    _to("jobs/<id:job_id>/training", metrics.TrainingOfJob, jobs=True),
    _to("arrays", arrays.Arrays, Scope.SUBMIT, jobs=True),
    _to("arrays/<id:array_id>", arrays.OneArray, jobs=True),
    _to("arrays/<id:array_id>/members", arrays.ArrayMembers, jobs=True),
    _to("arrays/<id:array_id>:cancel", arrays.CancelArray, Scope.SUBMIT, jobs=True),
    _to("arrays/<id:array_id>:hold", queue.HoldArray, Scope.SUBMIT, jobs=True),
    _to("arrays/<id:array_id>:release", queue.ReleaseArray, Scope.SUBMIT, jobs=True),
    _to("arrays/<id:array_id>:retry", arrays.RetryArray, Scope.SUBMIT, jobs=True),
    _to("arrays/<id:array_id>:clone", arrays.CloneArray, Scope.SUBMIT, jobs=True),
    _to("sbatch:translate", scripts.TranslateScript, Scope.SUBMIT, jobs=True),
    _to("slurm/sbatch", slurm.SubmitScript, Scope.SUBMIT, jobs=True),
    _to("slurm/<name:name>", slurm.SlurmCommand, Scope.SUBMIT, jobs=True),
    _to("sweeps", sweeps.Sweeps, Scope.SUBMIT, jobs=True),
    _to("sweeps/<id:sweep_id>", sweeps.OneSweep, jobs=True),
    _to("sweeps/<id:sweep_id>/members", sweeps.SweepMembers, jobs=True),
    _to("sweeps/<id:sweep_id>:cancel", sweeps.CancelSweep, Scope.SUBMIT, jobs=True),
    _to("sweeps/<id:sweep_id>:hold", queue.HoldSweep, Scope.SUBMIT, jobs=True),
    _to("sweeps/<id:sweep_id>:release", queue.ReleaseSweep, Scope.SUBMIT, jobs=True),
    _to("sweeps/<id:sweep_id>:retry", sweeps.RetrySweep, Scope.SUBMIT, jobs=True),
    _to("sweeps/<id:sweep_id>:clone", sweeps.CloneSweep, Scope.SUBMIT, jobs=True),
    _to("frameworks", offers.Frameworks, Scope.SUBMIT),
    _to("frameworks/<id:framework_id>", offers.OneFramework, Scope.SUBMIT),
    _to("offers", offers.Offers),
    _to("offers/<id:offer_id>:accept", offers.AcceptOffer, Scope.SUBMIT),
    _to("offers/<id:offer_id>:decline", offers.DeclineOffer, Scope.SUBMIT),
    _to("organisations", tree.Organisations, Scope.ADMIN),
    _to("organisations/<id:organisation_id>", tree.OneOrganisation, Scope.ADMIN),
    _to("tenants", tree.Tenants, Scope.ADMIN),
    _to("tenants/<id:tenant_id>", tree.OneTenant, Scope.MANAGE),
    _to("vcs", tree.VirtualClusters, Scope.ADMIN),
    _to("vcs/<id:vc_id>", tree.OneVirtualCluster, Scope.MANAGE),
    _to("vcs/<id:vc_id>/cells", cells.CellsOfVirtualCluster, Scope.ADMIN),
    _to("vcs/<id:vc_id>/cells:preview", cells.PreviewOfCells, Scope.ADMIN),
    _to("vcs/<id:vc_id>/delays", usage.DelaysOfVirtualCluster),
    _to("vcs/<id:vc_id>/queue", queue.QueueOfCluster),
    _to("vcs/<id:vc_id>/queue:reorder", queue.ReorderQueue, Scope.SUBMIT),
    _to("volumes", tree.Volumes),
    _to("pools", fleet.Pools),
    _to("pools/<name:name>/policy", policies.OnePoolPolicy, Scope.ADMIN),
    _to("pools/<name:name>/decisions", policies.PoolDecisions, Scope.ADMIN),
    _to("pools/<name:name>/cells", cells.CellsOfPool),
    _to("pools/<name:name>/fairness", fairness.FairnessOfPool, Scope.ADMIN),
    _to("policies", policies.Policies),
    _to("slurm-table", slurm_table.Words, Scope.ADMIN),
    _to("nodes", fleet.Nodes),
    _to("nodes/<name:name>", fleet.OneNode, Scope.ADMIN),
    _to("nodes/<name:name>:check", fleet.NodeCheck, Scope.ADMIN),
    _to("nodes/<name:name>:declare-gone", fleet.NodeGone, Scope.ADMIN),
    _to("nodes/<name:name>/metrics", metrics.MetricsOfNode),
    _to("maintenance", fleet.MaintenanceTimes, Scope.ADMIN),
    _to("maintenance/<id:maintenance_id>", fleet.OneMaintenance, Scope.ADMIN),
    _to("gpus", fleet.Gpus),
    _to("usage", usage.UsageOfGpus),
    _to("usage/delays", usage.DelayUsageOfJobs),
    _to("usage/fairness", fairness.FairnessOfUsage),
    _to("usage/waste", usage.WasteOfGpus),
    _to("usage/least-efficient", usage.LeastEfficientJobs),
    _to("predictions/waits", predictions.WaitsOfPool),
    _to("predictions/run-times", predictions.RunTimes),
    _to("spec/schema", service.SpecSchema),
]
documentation: Any = SpectacularSwaggerSplitView.as_view(
    url="/api/v1/openapi.json", title="Muster REST API", authentication_classes=[], permission_classes=[]
)
