import { Button, Skeleton } from "@mantine/core";
import { IconArrowsShuffle, IconPlus, IconUser } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { sweepsQuery, useFallbackInterval } from "../../api/queries";
import type { SweepInList } from "../../api/types";
import { figure } from "../../components/charts/charts";
import { Empty, Failed } from "../../components/Notice";
import { Page, PageHeader } from "../../components/Page";
import { GroupStateChip } from "../../components/StateChip";
import { Ago } from "../../components/Time";
import { count, gpuHours } from "../../format/amount";
import filters from "../jobs/Filters.module.css";
import { methodWords, paramWords } from "../sweep/words";
import classes from "./SweepsPage.module.css";

const route = getRouteApi("/app/sweeps");

const STATES = [
  { value: undefined, label: "All" },
  { value: "active", label: "Running" },
  { value: "succeeded", label: "Succeeded" },
  { value: "failed", label: "Failed" },
  { value: "cancelled", label: "Cancelled" },
] as const;

/** The sweeps that one may see, the newest first. */
export function SweepsPage() {
  const search = route.useSearch();
  const state = STATES.find(({ value }) => value !== undefined && value === search.state)?.value;
  const mine = search.mine === "1";
  const query = useInfiniteQuery({
    ...sweepsQuery({ state, mine }),
    refetchInterval: useFallbackInterval(),
  });
  const sweeps = query.data?.pages.flatMap((page) => page.results) ?? [];

  return (
    <Page title="Sweeps">
      <PageHeader
        title="Sweeps"
        sub="One command tried with many parameters; the hopeless members are stopped early."
        actions={
          <Button
            leftSection={<IconPlus size={16} />}
            renderRoot={(props) => <Link to="/submit" search={{ sweep: "new" }} {...props} />}
          >
            Submit sweep
          </Button>
        }
      />
      <div className={filters.bar}>
        <nav className={filters.states} aria-label="State">
          {STATES.map(({ value, label }) => (
            <Link
              key={label}
              to="/sweeps"
              search={(old) => ({ ...old, state: value })}
              className={filters.state}
              data-on={state === value || undefined}
              aria-current={state === value ? "true" : undefined}
              activeProps={{}}
            >
              {label}
            </Link>
          ))}
        </nav>
        <div className={filters.right}>
          <Link
            to="/sweeps"
            search={(old) => ({ ...old, mine: mine ? undefined : "1" })}
            className={filters.toggle}
            role="switch"
            aria-checked={mine}
            data-on={mine || undefined}
            aria-label="Only mine"
          >
            <IconUser size={15} stroke={1.8} />
            Mine
          </Link>
        </div>
      </div>
      {query.isPending ? (
        <Skeleton height={320} radius={12} aria-busy="true" aria-label="Loading sweeps" />
      ) : query.isError && query.data === undefined ? (
        <div className="card">
          <Failed error={query.error} onRetry={() => void query.refetch()} />
        </div>
      ) : sweeps.length === 0 ? (
        <div className="card">
          <Empty
            icon={<IconArrowsShuffle size={20} />}
            title={state !== undefined || mine ? "No sweep matches" : "No sweeps yet"}
          >
            A spec with the key <code>sweep</code> is run once for each choice of its parameters.
          </Empty>
        </div>
      ) : (
        <>
          <div className={`card ${classes.table}`} role="table" aria-label="Sweeps">
            <div role="rowgroup">
              <div role="row" className={`${classes.row} ${classes.head}`}>
                {["State", "Sweep", "Method", "Best", "Members", "GPU-hours", "Submitted"].map((name) => (
                  <span key={name} role="columnheader">
                    {name}
                  </span>
                ))}
              </div>
            </div>
            <div role="rowgroup">
              {sweeps.map((sweep) => (
                <Row key={sweep.id} sweep={sweep} />
              ))}
            </div>
          </div>
          {query.hasNextPage ? (
            <Button
              className={classes.more}
              variant="default"
              loading={query.isFetchingNextPage}
              onClick={() => void query.fetchNextPage()}
            >
              Show more
            </Button>
          ) : null}
        </>
      )}
    </Page>
  );
}

function Row({ sweep }: { sweep: SweepInList }) {
  const { best, members } = sweep;
  const ended = members.total - members.waiting - members.running - members.paused;
  return (
    <div role="row" className={classes.row}>
      <span role="cell" className={classes.state}>
        <GroupStateChip state={sweep.state} running={members.running} />
      </span>
      <span role="cell" className={classes.name}>
        <Link
          to="/sweeps/$sweepId"
          params={{ sweepId: String(sweep.id) }}
          className={`${classes.link} truncate`}
        >
          {sweep.name}
        </Link>
        <span className={`${classes.under} truncate`}>
          <span className="mono">#{sweep.id}</span> {sweep.tenant}/{sweep.vc} · {sweep.owner}
        </span>
      </span>
      <span role="cell" className={classes.method}>
        {methodWords(sweep.method)}
      </span>
      <span role="cell" className={classes.best}>
        {best === null ? (
          <span className={classes.faint}>–</span>
        ) : (
          <>
            <span className="truncate">
              {sweep.metric} <strong>{figure(best.value)}</strong>
            </span>
            <span className={`${classes.under} truncate`}>{paramWords(best.params)}</span>
          </>
        )}
      </span>
      <span role="cell" className={`${classes.members} tabular`}>
        {count(ended)} / {count(members.total)}
        <span className={classes.unit}> ended</span>
      </span>
      <span role="cell" className={`${classes.hours} tabular`}>
        {gpuHours(sweep.gpu_hours)}
        {sweep.saved_gpu_hours > 0 ? (
          <span className={classes.under}>{gpuHours(sweep.saved_gpu_hours)} saved</span>
        ) : null}
      </span>
      <span role="cell" className={classes.submitted}>
        <Ago at={sweep.submitted_at} />
      </span>
    </div>
  );
}
