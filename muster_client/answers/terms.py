"""Types for the fields of answers. A field is `Annotated[type, "sentence"]`; these types say more than Python's.

A sentence says what the value is. The OpenAPI document, and with it the help of the pages, is made of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

JsonObject = dict[str, Any]

Values = Mapping[str, Any]
"""An object whose keys depend on its kind."""


class Schema:
    """Keywords of JSON Schema that belong to a type; `ref` names a schema that stands elsewhere in the document."""

    def __init__(self, **keywords: Any) -> None:
        self.keywords = keywords


class OneOf:
    """Marks text that is one of a few values, which the platform lists under this name in the OpenAPI document.

    A later server may have more of them, so the type is text.
    """

    def __init__(self, name: str) -> None:
        self.name = name


Moment = Annotated[str, Schema(format="date-time")]
"""A time as RFC 3339 in UTC, such as 2026-11-28T09:30:00Z."""

JobSpec = Annotated[dict[str, Any], Schema(ref="JobSpec")]

FINISHED: frozenset[str] = frozenset({"succeeded", "failed", "cancelled"})
"""The states of jobs that have ended."""

# The values of each stand in the OpenAPI document under the name that is given here.
AdviceKind = Annotated[str, OneOf("AdviceGivenKindEnum")]
AttemptState = Annotated[str, OneOf("AttemptState")]
CellState = Annotated[str, OneOf("CellState")]
CheckResult = Annotated[str, OneOf("ResultEnum")]
Delay = Annotated[str, OneOf("Delay")]
DelaysBy = Annotated[str, OneOf("DelaysBy")]
DependencyKind = Annotated[str, OneOf("DependencyKind")]
DependencyState = Annotated[str, OneOf("DependencyState")]
Desired = Annotated[str, OneOf("Desired")]
EndReason = Annotated[str, OneOf("EndReason")]
EstimateSource = Annotated[str, OneOf("RunTimeEstimateSourceEnum")]
FailureCategory = Annotated[str, OneOf("FailureCategory")]
Goal = Annotated[str, OneOf("GoalEnum")]
GpuAction = Annotated[str, OneOf("GpuAction")]
GpuLevel = Annotated[str, OneOf("GpuLevel")]
Grade = Annotated[str, OneOf("Grade")]
GradeSilence = Annotated[str, OneOf("GradeSilence")]
GroupKind = Annotated[str, OneOf("GroupOfJobKindEnum")]
GroupState = Annotated[str, OneOf("GroupState")]
HoldReason = Annotated[str, OneOf("HoldReason")]
JobClass = Annotated[str, OneOf("JobClass")]
JobForm = Annotated[str, OneOf("JobForm")]
JobRuntime = Annotated[str, OneOf("RuntimeEnum")]
JobState = Annotated[str, OneOf("JobState")]
LinkState = Annotated[str, OneOf("LinkState")]
MemberState = Annotated[str, OneOf("MemberState")]
Method = Annotated[str, OneOf("MethodEnum")]
NodeAdmin = Annotated[str, OneOf("NodeAdmin")]
NodeHealth = Annotated[str, OneOf("NodeHealth")]
NoticeKind = Annotated[str, OneOf("NoticeKind")]
Observed = Annotated[str, OneOf("Observed")]
OfferState = Annotated[str, OneOf("OfferState")]
OptionFate = Annotated[str, OneOf("OptionFate")]
OptionSource = Annotated[str, OneOf("OptionSource")]
OutputFileState = Annotated[str, OneOf("OutputFileState")]
PolicyNeed = Annotated[str, OneOf("PoolDecisionsNeedsEnum")]
Priority = Annotated[str, OneOf("Priority")]
RateSource = Annotated[str, OneOf("JobRateSourceEnum")]
Retry = Annotated[str, OneOf("RetryEnum")]
Role = Annotated[str, OneOf("Role")]
RunningJobs = Annotated[str, OneOf("RunningJobsEnum")]
ScreeningVerdict = Annotated[str, OneOf("VerdictEnum")]
Stage = Annotated[str, OneOf("Stage")]
StrikeReason = Annotated[str, OneOf("StrikeReason")]
TokenScope = Annotated[str, OneOf("TokenScope")]
UpOrDown = Annotated[str, OneOf("UpOrDown")]
UsageBy = Annotated[str, OneOf("UsageBy")]
UsageOutcome = Annotated[str, OneOf("UsageOutcome")]
WebhookState = Annotated[str, OneOf("WebhookState")]
