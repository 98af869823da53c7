import { Button, Skeleton } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { memo, useState, type CSSProperties, type MouseEvent, type ReactNode } from "react";

import { arrayMembersQuery, useFallbackInterval } from "../../api/queries";
import type { Array, ArrayMember, ArrayMemberState } from "../../api/types";
import { Failed } from "../../components/Notice";
import { MEMBER_STATES, paramWords } from "../sweep/words";
import classes from "./ArrayPage.module.css";

/** The members as cells in the order of their indices, each coloured by its state: all, or those in one state. */
export function MemberGrid({ array }: { array: Array }) {
  const [state, setState] = useState<ArrayMemberState | undefined>();
  const navigate = useNavigate();
  const pages = useInfiniteQuery({
    ...arrayMembersQuery(array.id, state),
    refetchInterval: useFallbackInterval(),
  });
  const states = MEMBER_STATES.filter(isOfArray).filter(
    (each) => array.members[each.state] > 0 || each.state === state,
  );

  // A thousand links of the router take longer to draw than the rest of the page, so these are plain ones.
  const follow = (event: MouseEvent) => {
    const job = (event.target as Element).closest("a")?.dataset.job;
    if (job === undefined || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    void navigate({ to: "/jobs/$jobId", params: { jobId: job } });
  };

  return (
    <>
      <div className={classes.filters} role="group" aria-label="Which members">
        <Filter pressed={state === undefined} onClick={() => setState(undefined)}>
          All {array.members.total}
        </Filter>
        {states.map((each) => (
          <Filter key={each.state} pressed={state === each.state} onClick={() => setState(each.state)}>
            {each.label} {array.members[each.state]}
          </Filter>
        ))}
      </div>
      {pages.data !== undefined ? (
        <nav className={classes.grid} aria-label="Members by index" onClick={follow}>
          {pages.data.pages.flatMap(({ results }) =>
            results.map((member) => <Cell key={member.index} member={member} />),
          )}
        </nav>
      ) : pages.isError ? (
        <Failed error={pages.error} onRetry={() => void pages.refetch()} />
      ) : (
        <Skeleton height={160} radius={8} />
      )}
      {pages.hasNextPage ? (
        <Button
          variant="default"
          className={classes.more ?? ""}
          loading={pages.isFetchingNextPage}
          onClick={() => void pages.fetchNextPage()}
        >
          More members
        </Button>
      ) : null}
    </>
  );
}

type Look = (typeof MEMBER_STATES)[number];

const isOfArray = (look: Look): look is Look & { state: ArrayMemberState } =>
  look.state !== "paused" && look.state !== "stopped";

function Filter({ pressed, ...rest }: { pressed: boolean; onClick: () => void; children: ReactNode }) {
  return <button type="button" className={classes.filter} aria-pressed={pressed} {...rest} />;
}

const Cell = memo(
  function Cell({ member }: { member: ArrayMember }) {
    const found = MEMBER_STATES.find(({ state }) => state === member.state);
    const state = found?.label ?? member.state;
    const words = [state, paramWords(member.params), member.why].filter((part) => part !== "").join(", ");
    return (
      <a
        href={`/jobs/${member.job}`}
        data-job={member.job}
        className={classes.cell}
        style={{ "--cell": found?.colour } as CSSProperties}
        title={words}
        aria-label={`Index ${member.index}: ${words}`}
      >
        {member.index}
      </a>
    );
  },
  ({ member: one }, { member: other }) =>
    one.index === other.index && one.state === other.state && one.why === other.why,
);
