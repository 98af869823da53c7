import { Alert, SegmentedControl, Skeleton } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";

import { jobQuery, specSchemaQuery } from "../../api/queries";
import { useMe } from "../../app/me";
import { Failed } from "../../components/Notice";
import { Page, PageHeader } from "../../components/Page";
import { EXAMPLE_COMMAND } from "./fields";
import classes from "./SubmitPage.module.css";
import { specToText, withoutDefaults } from "./specText";
import { Workbench } from "./Workbench";

const route = getRouteApi("/app/submit");

function firstText(vc: string | null): string {
  return specToText({
    name: "hello",
    ...(vc !== null && { vc }),
    gpus: 1,
    command: EXAMPLE_COMMAND,
  });
}

/** A new job, or one that starts as a copy of another. */
export function SubmitPage() {
  const { clone } = route.useSearch();
  const me = useMe();
  const id = clone !== undefined && /^\d{1,15}$/.test(clone) ? Number(clone) : 0;
  const schema = useQuery(specSchemaQuery);
  const parent = useQuery({ ...jobQuery(id), enabled: id > 0, staleTime: Infinity });
  const narrow = useMediaQuery("(max-width: 900px)");
  const [side, setSide] = useState("form");

  const waiting = id > 0 && (parent.isPending || schema.isPending);
  return (
    <Page title="Submit">
      <PageHeader
        title={id > 0 ? "Submit a clone" : "Submit a job"}
        sub={
          id > 0 && parent.data !== undefined ? (
            <>
              As <span className="mono">#{id}</span> {parent.data.name} was, to be changed before it is sent.
            </>
          ) : (
            "The form and the YAML are two views of one spec."
          )
        }
        actions={
          narrow ? (
            <SegmentedControl
              aria-label="View"
              data={[
                { value: "form", label: "Form" },
                { value: "yaml", label: "YAML" },
              ]}
              value={side}
              onChange={setSide}
            />
          ) : undefined
        }
      />
      {id > 0 && parent.isError ? (
        <Alert color="red" variant="light" mb={16}>
          Job #{id} could not be read, so there is nothing to copy.
        </Alert>
      ) : null}
      {waiting ? (
        <div className={classes.columns}>
          <Skeleton height={420} radius={12} />
          <Skeleton height={420} radius={12} />
        </div>
      ) : schema.isError ? (
        <Failed error={schema.error} onRetry={() => void schema.refetch()} />
      ) : (
        <Workbench
          key={id}
          initial={
            parent.data === undefined || id === 0
              ? firstText(me.default_vc)
              : specToText(withoutDefaults(parent.data.spec, schema.data ?? {}))
          }
          schema={schema.data}
          side={narrow ? (side === "yaml" ? "yaml" : "form") : "both"}
        />
      )}
    </Page>
  );
}
