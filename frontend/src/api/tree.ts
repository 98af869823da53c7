/** Calls about virtual clusters, their cells and delays, tenants and organisations. */
import type { CellsWanted, PoolCells, VcCells } from "./cells";
import { http, read } from "./rest";
import type { TenantChange, VcChange } from "./types";

const ofVc = (id: number) => ({ params: { path: { vc_id: String(id) } } });

/** The mean waits of a virtual cluster by day or week. */
export function getDelays(vc: number, since: string, by: "day" | "week") {
  const params = { path: { vc_id: String(vc) }, query: { since, by } };
  return read(http.GET("/api/v1/vcs/{vc_id}/delays", { params }));
}
export const getVc = (id: number) => read(http.GET("/api/v1/vcs/{vc_id}", ofVc(id)));
/** With `dryRun` all is checked and nothing is stored. */
export function changeVc(id: number, change: VcChange, dryRun = false) {
  const params = { path: { vc_id: String(id) }, query: { dry_run: dryRun } };
  return read(http.PATCH("/api/v1/vcs/{vc_id}", { params, body: change }));
}

export const getVcCells = (id: number) =>
  read(http.GET("/api/v1/vcs/{vc_id}/cells", ofVc(id))) as Promise<VcCells>;
export const getPoolCells = (name: string) =>
  read(http.GET("/api/v1/pools/{name}/cells", { params: { path: { name } } })) as Promise<PoolCells>;
export const putVcCells = (id: number, version: number, wanted: CellsWanted) =>
  read(
    http.PUT("/api/v1/vcs/{vc_id}/cells", { ...ofVc(id), body: { version, ...wanted } }),
  ) as Promise<VcCells>;
export const previewVcCells = (id: number, wanted: CellsWanted) =>
  read(http.POST("/api/v1/vcs/{vc_id}/cells:preview", { ...ofVc(id), body: wanted }));

export const listTenants = () => read(http.GET("/api/v1/tenants"));
export function changeTenant(id: number, change: TenantChange, dryRun = false) {
  const params = { path: { tenant_id: String(id) }, query: { dry_run: dryRun } };
  return read(http.PATCH("/api/v1/tenants/{tenant_id}", { params, body: change }));
}
export const listOrganisations = () => read(http.GET("/api/v1/organisations"));
