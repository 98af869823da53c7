/** Cells nest to any depth, which the server's document does not say of what is inside of them. */
import type { components } from "./schema";

type Schemas = components["schemas"];
type Nested<T extends { children: unknown }> = Omit<T, "children"> & { children: Nested<T>[] };

export type Cell = Nested<Schemas["PhysicalCell"]>;
export type VirtualCell = Nested<Schemas["VirtualCell"]>;
export type CellState = Cell["state"];
export type PoolCells = Omit<Schemas["PoolCells"], "physical"> & { physical: Cell[] };
export type VcCells = Omit<Schemas["VcCells"], "virtual"> & { virtual: VirtualCell[] };
export type CellsWanted = Required<Schemas["CellsWantedRequest"]>;
export type CellsPreview = Schemas["CellsPreview"];
