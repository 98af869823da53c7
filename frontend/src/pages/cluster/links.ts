import type { Gpu } from "../../api/types";

const FOR_EACH_NVLINK = 10;

/** How close two GPUs are, the closest first: as `nvidia-smi topo -m` writes it, in words, and in shades from 0 to 3. */
const PCIE = [
  { score: 5, short: "PIX", words: "One PCIe switch", shade: 2 },
  { score: 4, short: "PXB", words: "Several PCIe switches", shade: 2 },
  { score: 3, short: "PHB", words: "PCIe host bridge", shade: 1 },
  { score: 2, short: "NODE", words: "Same NUMA node", shade: 1 },
  { score: 1, short: "SYS", words: "Across sockets", shade: 0 },
] as const;

export interface LinkKind {
  score: number;
  short: string;
  words: string;
  shade: 0 | 1 | 2 | 3;
}

/** What a score of the server's says of two GPUs. */
export function linkKind(score: number): LinkKind {
  if (score >= FOR_EACH_NVLINK) {
    const links = Math.floor(score / FOR_EACH_NVLINK);
    return { score, short: `NV${links}`, words: links === 1 ? "1 NVLink" : `${links} NVLinks`, shade: 3 };
  }
  return PCIE.find((kind) => kind.score === score) ?? { score, short: "?", words: "Not known", shade: 0 };
}

/** Every kind of link between two different GPUs, the closest first. */
export function kindsIn(links: readonly (readonly number[])[]): LinkKind[] {
  const scores = new Set(links.flatMap((row, one) => row.filter((_, other) => other !== one)));
  return [...scores].sort((one, other) => other - one).map(linkKind);
}

/** `GPUs 0 to 3 on NUMA node 0, GPUs 4 to 7 on NUMA node 1`; nothing where it is not known of all. */
export function numaWords(gpus: readonly Gpu[]): string {
  const groups = new Map<number, number[]>();
  for (const gpu of gpus) {
    if (gpu.numa_node === null) return "";
    groups.set(gpu.numa_node, [...(groups.get(gpu.numa_node) ?? []), gpu.index]);
  }
  return [...groups].map(([numa, indexes]) => `${gpusWords(indexes)} on NUMA node ${numa}`).join(", ");
}

function gpusWords(indexes: readonly number[]): string {
  const sorted = [...indexes].sort((one, other) => one - other);
  const [first, last] = [sorted[0] ?? 0, sorted[sorted.length - 1] ?? 0];
  if (sorted.length === 1) return `GPU ${first}`;
  if (sorted.length > 2 && last - first === sorted.length - 1) return `GPUs ${first} to ${last}`;
  return `GPUs ${sorted.slice(0, -1).join(", ")} and ${last}`;
}
