/** What a job gets on each node, in words. */
import type { DryRun } from "../../api/types";
import { mebibytes, plural } from "../../format/amount";

type Size = DryRun["sizes"][number];

const withSource = (text: string, source: string | null): string =>
  source === null ? text : `${text} (${source})`;

function wordsOf(size: Size): string {
  const cpus = plural(size.cpus, "CPU");
  const memory = `${mebibytes(size.memory_mib)} of memory`;
  return size.cpus_from === size.memory_from
    ? withSource(`${cpus} and ${memory}`, size.cpus_from)
    : `${withSource(cpus, size.cpus_from)} and ${withSource(memory, size.memory_from)}`;
}

/** `16 CPUs and 250 GiB of memory (share of 2 GPUs on A100 nodes)`, for each choice. */
export const sizeWords = (sizes: readonly Size[]): string => [...new Set(sizes.map(wordsOf))].join(" or ");
