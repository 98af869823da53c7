/** Calls about the queue of a virtual cluster. */
import { http, read } from "./rest";

/** A page of what waits in a virtual cluster. */
export function getQueue(vc: number, mine: boolean, cursor?: string) {
  const query = { ...(mine && { mine }), ...(cursor !== undefined && { cursor }) };
  return read(http.GET("/api/v1/vcs/{vc_id}/queue", { params: { path: { vc_id: String(vc) }, query } }));
}

/** Lets waiting jobs of one owner share out the places that they hold, in this order. */
export function reorderQueue(vc: number, jobs: readonly number[]) {
  const params = { path: { vc_id: String(vc) } };
  return read(http.POST("/api/v1/vcs/{vc_id}/queue:reorder", { params, body: { jobs: [...jobs] } }));
}
