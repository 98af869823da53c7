/** The terms that pages explain: a few words, and the heading or row of the help that says more. */
export const TERMS = {
  auction: [
    "/docs/policies/themis",
    "GPUs whose leases ended, offered to the jobs that are furthest from their fair share.",
  ],
  cap: ["/docs/operator/tenants#caps", "A limit on a user of the tenant, over all pools."],
  cell: ["/docs/reference/glossary#cell", "GPUs that lie together: one, a pair, a socket, a node or a rack."],
  efficiency: [
    "/docs/user/usage#efficiency",
    "How much a job used the GPUs that it held, by their utilisation.",
  ],
  estimate: [
    "/docs/operator/estimates",
    "What policies expect of the run time: from the spec, from similar jobs, or the time limit.",
  ],
  coverage: [
    "/docs/user/predictions#coverage",
    "The part of jobs whose wait was as long as the forecast said: 9 of 10 within the p90, 8 of 10 in the 80 % interval.",
  ],
  failure: [
    "/docs/user/failures",
    "A failed job's class is read from its log: the root cause before what followed from it.",
  ],
  loan: [
    "/docs/reference/glossary#loan",
    "GPUs of one virtual cluster's unused quota that another one holds.",
  ],
  outcome: ["/docs/user/usage#what-it-was-for", "GPU-hours by how the work that used them ended."],
  pinball: [
    "/docs/user/predictions#pinball-loss",
    "How far quantiles were off; a miss on the side that is meant to be rare costs more.",
  ],
  quickStart: ["/docs/reference/glossary#quick-start", "A wait of at most 10 minutes."],
  quota: ["/docs/operator/tenants", "The GPUs of each type that a virtual cluster is promised in its pool."],
  rate: [
    "/docs/operator/rates",
    "How fast the job is on each GPU type: measured, claimed in the spec, or estimated.",
  ],
  rho: [
    "/docs/reference/glossary#finish-time-fairness",
    "ρ: the time from submission to end, divided by the time alone on the own share. Above 1: slower than alone.",
  ],
  rung: [
    "/docs/reference/glossary#rung",
    "A number of steps at which a sweep compares its members, to stop the worse ones.",
  ],
  screening: [
    "/docs/user/screening-runs",
    "A short run on a few GPUs that finds errors before the job takes all of its GPUs.",
  ],
  verdict: [
    "/docs/operator/fairness",
    "Whether what the policy gave out is fair by four properties, with an example where it is not.",
  ],
  virtualCluster: [
    "/docs/reference/glossary#virtual-cluster",
    "A tenant's part of a pool, with quotas by GPU type.",
  ],
  wait: [
    "/docs/user/when",
    "From the moment at which the job may start until it gets its GPUs, after its screening run if it has one.",
  ],
} as const satisfies Record<string, readonly [address: string, words: string]>;

export type TermName = keyof typeof TERMS;
