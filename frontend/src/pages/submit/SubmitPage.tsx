import { Alert, Button, SegmentedControl, Skeleton } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { lazy, useState } from "react";

import { loadPart } from "../../api/parts";
import { arrayQuery, jobQuery, specSchemaQuery, sweepQuery } from "../../api/queries";
import { useMe } from "../../app/me";
import { Failed } from "../../components/Notice";
import { OnceOpened } from "../../components/OnceOpened";
import { Page, PageHeader } from "../../components/Page";
import { humanize } from "../../format/words";
import { EXAMPLE_COMMAND } from "./fields";
import classes from "./SubmitPage.module.css";
import { specToText, withoutDefaults } from "./specText";
import { FIRST_SWEEP } from "./SweepFields";
import { Workbench } from "./Workbench";

const ScriptDialog = lazy(() => loadPart(() => import("./ScriptDialog")));

const route = getRouteApi("/app/submit");

function firstText(vc: string | null): string {
  return specToText({
    name: "hello",
    ...(vc !== null && { vc }),
    gpus: 1,
    command: EXAMPLE_COMMAND,
  });
}

function firstSweep(vc: string | null): string {
  return specToText({ ...(vc !== null && { vc }), gpus: 1, sweep: FIRST_SWEEP });
}

const idFrom = (text: string | undefined): number =>
  text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : 0;

/** A new job, sweep or array, or one that starts as a copy of another. */
export function SubmitPage() {
  const { clone, sweep, array } = route.useSearch();
  const me = useMe();
  const [jobId, sweepId, arrayId] = [idFrom(clone), idFrom(sweep), idFrom(array)];
  const schema = useQuery(specSchemaQuery);
  const ofJob = useQuery({ ...jobQuery(jobId), enabled: jobId > 0, staleTime: Infinity });
  const ofSweep = useQuery({ ...sweepQuery(sweepId), enabled: sweepId > 0, staleTime: Infinity });
  const ofArray = useQuery({ ...arrayQuery(arrayId), enabled: arrayId > 0, staleTime: Infinity });
  const id = jobId || sweepId || arrayId;
  const isClone = id > 0;
  const parent = jobId > 0 ? ofJob : sweepId > 0 ? ofSweep : ofArray;
  const kind = jobId > 0 ? "job" : sweep !== undefined ? "sweep" : arrayId > 0 ? "array" : "job";
  const narrow = useMediaQuery("(max-width: 900px)");
  const [side, setSide] = useState("form");
  const [pasting, setPasting] = useState(false);
  /** The spec of a script that was pasted, and how many were before it. */
  const [fromScript, setFromScript] = useState({ text: "", count: 0 });

  const waiting = isClone && (parent.isPending || schema.isPending);
  return (
    <Page title="Submit">
      <PageHeader
        title={isClone ? "Submit a clone" : `Submit a ${kind}`}
        sub={
          isClone && parent.data !== undefined ? (
            <>
              As {kind} <span className="mono">#{id}</span> {parent.data.name} was, to be changed before it is
              sent.
            </>
          ) : (
            <>
              The form and the YAML are two views of one spec.{" "}
              <a className="link" href="/docs/reference/spec" target="_blank" rel="noreferrer">
                All keys
              </a>
            </>
          )
        }
        actions={
          <>
            {isClone ? null : (
              <Button variant="default" onClick={() => setPasting(true)}>
                From an sbatch script
              </Button>
            )}
            {narrow ? (
              <SegmentedControl
                aria-label="View"
                data={[
                  { value: "form", label: "Form" },
                  { value: "yaml", label: "YAML" },
                ]}
                value={side}
                onChange={setSide}
              />
            ) : null}
          </>
        }
      />
      {isClone && parent.isError ? (
        <Alert color="red" variant="light" mb={16}>
          {humanize(kind)} #{id} could not be read, so there is nothing to copy.
        </Alert>
      ) : null}
      <OnceOpened opened={pasting}>
        <ScriptDialog
          opened={pasting}
          onClose={() => setPasting(false)}
          onSpec={(spec) => {
            setFromScript(({ count }) => ({ text: specToText(spec), count: count + 1 }));
            setPasting(false);
          }}
        />
      </OnceOpened>
      {waiting ? (
        <div className={classes.columns}>
          <Skeleton height={420} radius={12} />
          <Skeleton height={420} radius={12} />
        </div>
      ) : schema.isError ? (
        <Failed error={schema.error} onRetry={() => void schema.refetch()} />
      ) : (
        <Workbench
          key={`${kind} ${id} ${fromScript.count}`}
          initial={
            fromScript.count > 0
              ? fromScript.text
              : parent.data === undefined || !isClone
                ? (kind === "sweep" ? firstSweep : firstText)(me.default_vc)
                : specToText(withoutDefaults(parent.data.spec, schema.data ?? {}))
          }
          cloneOfSweep={sweepId > 0 ? sweepId : undefined}
          cloneOfArray={arrayId > 0 ? arrayId : undefined}
          schema={schema.data}
          side={narrow ? (side === "yaml" ? "yaml" : "form") : "both"}
        />
      )}
    </Page>
  );
}
