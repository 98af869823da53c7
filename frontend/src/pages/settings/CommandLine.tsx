import { Skeleton } from "@mantine/core";
import { queryOptions, useQuery } from "@tanstack/react-query";

import { listDownloads } from "../../api/account";
import { CopyButton } from "../../components/CopyButton";
import { Failed } from "../../components/Notice";
import { SectionHead } from "../../components/Page";
import classes from "./SettingsPage.module.css";

const downloadsQuery = queryOptions({ queryKey: ["downloads"], queryFn: listDownloads, staleTime: Infinity });

/** How to install the command line and the Python SDK that this platform serves. */
export function CommandLine() {
  const query = useQuery(downloadsQuery);
  const wheel = query.data?.find((file) => file.name.endsWith(".whl"));
  const origin = window.location.origin;
  const commands = wheel && `pip install ${origin}/downloads/${wheel.name}\nmuster login ${origin}`;
  return (
    <section className={`card ${classes.card}`} aria-label="Command line">
      <SectionHead title="Command line" />
      <p className={classes.sub}>
        The command <code>muster</code> and the Python package <code>muster_client</code>. Python 3.11 or
        newer, in a virtual environment; or <code>pipx install</code> with the same address.
      </p>
      {query.isPending ? <Skeleton height={60} /> : null}
      {query.isError ? <Failed error={query.error} onRetry={() => void query.refetch()} /> : null}
      {wheel && commands !== undefined ? (
        <>
          <div className={classes.secret}>
            <code className={classes.commands}>{commands}</code>
            <CopyButton text={commands} label="Copy the commands" />
          </div>
          <p className={classes.checksum}>
            <a className="link" href={`/downloads/${wheel.name}`}>
              Download the wheel
            </a>{" "}
            · SHA-256 <code>{wheel.sha256}</code>
          </p>
        </>
      ) : null}
    </section>
  );
}
