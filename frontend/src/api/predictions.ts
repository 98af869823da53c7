/** Calls about what was predicted of jobs, and how right that was. */
import { http, read } from "./rest";

/** The start of a job: what is forecast of it now, what was at its submission, and its wait. */
export const getWhen = (id: number) =>
  read(http.GET("/api/v1/jobs/{job_id}/when", { params: { path: { job_id: String(id) } } }));

/** Forecasts of waits in a pool, held against the waits of its last weeks. */
export const getWaitRecord = (pool: string, weeks: number) =>
  read(http.GET("/api/v1/predictions/waits", { params: { query: { pool, weeks } } }));

/** Expected run times, held against the run times of the jobs that ended in the last weeks. */
export const getRunTimeRecord = (weeks: number) =>
  read(http.GET("/api/v1/predictions/run-times", { params: { query: { weeks } } }));
