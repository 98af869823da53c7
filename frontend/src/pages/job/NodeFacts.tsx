import type { Attempt } from "../../api/types";
import { Fact } from "../../components/Fact";

/** What the nodes of an attempt do not keep from its neighbours. */
export function NodeFacts({ attempt }: { attempt: Attempt }) {
  const unlimited = new Set(
    attempt.allocations.filter((each) => !each.memory_limited).map((each) => each.node),
  );
  return unlimited.size === 0 ? null : (
    <Fact name="Memory limit">not enforced on {[...unlimited].join(", ")}</Fact>
  );
}
