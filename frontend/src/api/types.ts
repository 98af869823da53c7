/** The shapes of the REST API under short names; the server's own schema says what is in them. */
import type { components } from "./schema";

type Schemas = components["schemas"];

export type JobState = Schemas["JobState"];
export type Job = Schemas["JobInList"];
export type JobGroup = NonNullable<Job["group"]>;
export type GroupState = Schemas["GroupState"];
export type JobCount = Schemas["JobCount"];
export type CancelAnswer = Schemas["CancelAnswer"];
export type Efficiency = Schemas["Efficiency"];
export type JobFairness = Schemas["JobFairness"];
export type JobRate = Schemas["JobRate"];
export type RunTimeEstimate = Schemas["RunTimeEstimate"];
export type Usage = Schemas["Usage"];
export type UsageFairness = Schemas["FairnessOfPeriod"];
export type UsageRow = Schemas["UsageRow"];
export type Outcome = Schemas["OutcomeUsage"]["outcome"];
export type Waste = Schemas["Waste"];
export type LeastEfficientList = Schemas["LeastEfficientList"];
export type JobWithSpec = Schemas["Job"];
export type Hold = Schemas["Hold"];
export type Queue = Schemas["Queue"];
export type QueueEntry = Schemas["QueueEntry"];
export type JobEdit = Schemas["PatchedJobEditRequest"];
export type Why = Schemas["Why"];
export type Allocation = Schemas["Allocation"];
export type Attempt = Schemas["Attempt"];
export type JobEvent = Schemas["JobEvent"];
export type OutputFile = Schemas["OutputFile"];
export type OutputsSummary = Schemas["OutputsSummary"];
export type DryRun = Schemas["DryRun"];
export type Pool = Schemas["Pool"];
export type Gpu = Schemas["Gpu"];
export type Node = Schemas["Node"];
export type NodeDetail = Schemas["NodeDetail"];
export type GpuCheck = Schemas["GpuCheck"];
export type HealthReport = Schemas["HealthReport"];
export type NodeStrike = Schemas["NodeStrike"];
export type JobMetrics = Schemas["JobMetrics"];
export type JobTraining = Schemas["JobTraining"];
export type ReportedSeries = Schemas["ReportedSeries"];
export type NodeMetrics = Schemas["NodeMetrics"];
export type GpuOverTime = Schemas["GpuOverTime"];
export type FigureOverTime = Schemas["FigureOverTime"];
export type NodeAction = Schemas["NodeActionActionEnum"];
export type Me = Schemas["Me"];
export type Notifications = Schemas["Notifications"];
export type NoticeKind = Notifications["mail"][number];
export type NotificationChanges = Partial<Pick<Notifications, "mail" | "webhook" | "weekly_digest">>;
export type Token = Schemas["Token"];
export type TokenRequest = Schemas["NewTokenRequest"];
export type TokenScope = Schemas["TokenScope"];
export type Session = Schemas["Session"];
export type Webhook = Schemas["Webhook"];
export type Upload = Schemas["Upload"];
export type ServerSpec = Schemas["JobSpec"];

export type SweepInList = Schemas["SweepInList"];
export type Sweep = Schemas["Sweep"];
export type SweepMember = Schemas["SweepMember"];
export type Vc = Schemas["VirtualCluster"];
export type VcDetail = Schemas["VirtualClusterDetail"];
export type VcQuota = Schemas["Quota"];
export type VcChange = Schemas["PatchedVirtualClusterChangesRequest"];
export type Loan = Schemas["Loan"];
export type Tenant = Schemas["Tenant"];
export type TenantChange = Schemas["PatchedTenantChangesRequest"];
export type Cap = Schemas["Cap"];
export type Organisation = Schemas["Organisation"];
export type Delays = Schemas["Delays"];
export type PoolFairness = Schemas["PoolFairness"];
export type PolicyVerdicts = Schemas["PolicyVerdicts"];
export type RhoFigures = Omit<Schemas["TenantRho"], "tenant">;
export type PoolDecisions = Schemas["PoolDecisions"];
export type Auction = Schemas["Auction"];
export type MemberState = Schemas["MemberState"];

/** A spec as it is being written: it may have any keys, and the server says which are wrong. */
export type Spec = Record<string, unknown>;

export interface Page<T> {
  results: T[];
  next: string | null;
}
