/** Calls about virtual clusters, their cells and delays, tenants and organisations. */
import type { CellsPreview, CellsWanted, PoolCells, VcCells } from "./cells";
import { http, read } from "./rest";
import type { Delays, Organisation, Page, Tenant, TenantChange, VcChange, VcDetail } from "./types";

/** The mean waits of a virtual cluster by day or week. */
export function getDelays(vc: number, since: string, by: "day" | "week"): Promise<Delays> {
  const params = { path: { vc_id: String(vc) }, query: { since, by } };
  return read(http.GET("/api/v1/vcs/{vc_id}/delays", { params }));
}
export const getVc = (id: number): Promise<VcDetail> =>
  read(http.GET("/api/v1/vcs/{vc_id}", { params: { path: { vc_id: String(id) } } }));
/** With `dryRun` all is checked and nothing is stored. */
export function changeVc(id: number, change: VcChange, dryRun = false): Promise<VcDetail> {
  const params = { path: { vc_id: String(id) }, query: { dry_run: dryRun } };
  return read(http.PATCH("/api/v1/vcs/{vc_id}", { params, body: change }));
}
const ofVc = (id: number) => ({ params: { path: { vc_id: String(id) } } });

export const getVcCells = async (id: number): Promise<VcCells> =>
  (await read(http.GET("/api/v1/vcs/{vc_id}/cells", ofVc(id)))) as VcCells;
export const getPoolCells = async (name: string): Promise<PoolCells> =>
  (await read(http.GET("/api/v1/pools/{name}/cells", { params: { path: { name } } }))) as PoolCells;
export const putVcCells = async (id: number, version: number, wanted: CellsWanted): Promise<VcCells> =>
  (await read(
    http.PUT("/api/v1/vcs/{vc_id}/cells", { ...ofVc(id), body: { version, ...wanted } }),
  )) as VcCells;
export const previewVcCells = (id: number, wanted: CellsWanted): Promise<CellsPreview> =>
  read(http.POST("/api/v1/vcs/{vc_id}/cells:preview", { ...ofVc(id), body: wanted }));

export const listTenants = (): Promise<Page<Tenant>> => read(http.GET("/api/v1/tenants"));
export function changeTenant(id: number, change: TenantChange, dryRun = false): Promise<Tenant> {
  const params = { path: { tenant_id: String(id) }, query: { dry_run: dryRun } };
  return read(http.PATCH("/api/v1/tenants/{tenant_id}", { params, body: change }));
}
export const listOrganisations = (): Promise<Page<Organisation>> => read(http.GET("/api/v1/organisations"));
