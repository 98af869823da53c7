import type { Attempt } from "../../api/types";
import { Fact } from "../../components/Fact";

/** What the nodes of an attempt do not keep from their neighbours, and why. */
export function NodeFacts({ attempt }: { attempt: Attempt }) {
  const unlimited = new Set(
    attempt.allocations.filter((each) => !each.memory_limited).map((each) => each.node),
  );
  const reasons = new Set(attempt.allocations.flatMap((each) => each.host_network ?? []));
  return (
    <>
      {unlimited.size === 0 ? null : (
        <Fact name="Memory limit">not enforced on {[...unlimited].join(", ")}</Fact>
      )}
      {reasons.size === 0 ? null : <Fact name="Network">the host&apos;s: {[...reasons].join("; ")}</Fact>}
    </>
  );
}
