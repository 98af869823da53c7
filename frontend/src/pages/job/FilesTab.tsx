import { Button, Skeleton } from "@mantine/core";
import { IconDownload, IconFiles } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";

import { fileUrl } from "../../api/client";
import { filesQuery, useFallbackInterval } from "../../api/queries";
import type { JobWithSpec, OutputFile, OutputsSummary } from "../../api/types";
import { Empty, Failed } from "../../components/Notice";
import { Time } from "../../components/Time";
import { bytes, plural } from "../../format/amount";
import classes from "./FilesTab.module.css";

/** Why a file is not there, in words; what is kept needs none. */
const WHY: Record<OutputFile["state"], string> = {
  kept: "",
  arriving: "on its way",
  too_large: "larger than all that a job may keep",
  over_limit: "more than a job may keep",
  no_space: "larger than the platform's disk",
  changed: "it changed while it was read",
  vanished: "it vanished before it was read",
  bad_name: "its name cannot be kept",
  not_a_file: "not a regular file",
  not_owned: "it belongs to another user",
  too_deep: "too many folders down",
  unreadable: "it could not be read",
  incomplete: "it did not arrive whole",
  made_room: "gave its place to a later attempt",
  expired: "removed after its time",
};

/** The files that the job left, with what was left out and why. */
export function FilesTab({ job }: { job: JobWithSpec }) {
  const query = useInfiniteQuery({ ...filesQuery(job.id), refetchInterval: useFallbackInterval() });
  if (query.isPending) return <Skeleton height={160} radius={12} />;
  const summary = query.data?.pages[0]?.summary;
  if (summary === undefined) return <Failed error={query.error} onRetry={() => void query.refetch()} />;
  const files = query.data?.pages.flatMap((page) => page.results) ?? [];
  const notes = notesOf(summary);
  const leftOut = files.some((file) => file.state !== "kept");
  if (files.length === 0) {
    return (
      <div className="card">
        <Empty icon={<IconFiles size={20} />} title={emptyTitle(summary)}>
          {notes.length > 0 ? notes.join(" ") : emptyText(summary, job)}
        </Empty>
      </div>
    );
  }
  return (
    <section className={`card ${classes.card}`} aria-label="Files">
      <p className={classes.head}>
        {plural(summary.kept_files, "file")}, {bytes(summary.kept_bytes)} of {bytes(summary.most_bytes)}
        {summary.kept_until === null ? null : (
          <>
            , kept until <Time at={summary.kept_until} />
          </>
        )}
        {notes.map((note) => (
          <span key={note} className={classes.note}>
            {note}
          </span>
        ))}
      </p>
      <div className={classes.scroll}>
        <table className={classes.table}>
          <thead>
            <tr>
              <th>Path</th>
              <th className={classes.number}>Size</th>
              <th className={classes.number}>Attempt</th>
              <th className={classes.number}>Rank</th>
              {leftOut ? <th>Why not kept</th> : null}
            </tr>
          </thead>
          <tbody>
            {files.map((file) => (
              <FileRow key={file.id} job={job.id} file={file} leftOut={leftOut} />
            ))}
          </tbody>
        </table>
      </div>
      {query.hasNextPage ? (
        <div className={classes.more}>
          <Button
            size="xs"
            variant="default"
            loading={query.isFetchingNextPage}
            onClick={() => void query.fetchNextPage()}
          >
            More files
          </Button>
        </div>
      ) : null}
    </section>
  );
}

function FileRow({ job, file, leftOut }: { job: number; file: OutputFile; leftOut: boolean }) {
  const kept = file.state === "kept";
  return (
    <tr>
      <td className={`${classes.path} mono`}>
        {kept ? (
          <a className="link" href={fileUrl(job, file.id)} download title={`SHA-256 ${file.sha256 ?? ""}`}>
            <IconDownload size={14} aria-hidden="true" /> {file.path}
          </a>
        ) : (
          file.path
        )}
      </td>
      <td className={classes.number}>{bytes(file.size)}</td>
      <td className={classes.number}>{file.attempt}</td>
      <td className={classes.number}>{file.rank}</td>
      {leftOut ? <td className={classes.why}>{WHY[file.state]}</td> : null}
    </tr>
  );
}

/** What is to be said beside the list. */
function notesOf(summary: OutputsSummary): string[] {
  const notes = [];
  if (summary.pending > 0) notes.push(`The files of ${plural(summary.pending, "rank")} are still to come.`);
  if (summary.lost > 0) notes.push(`${plural(summary.lost, "node")} went away with what was left there.`);
  if (summary.unnamed > 0) notes.push(`${plural(summary.unnamed, "more file")} not kept.`);
  if (summary.cut_short) notes.push("Not all was looked at: a working folder held too many files.");
  return notes;
}

function emptyTitle(summary: OutputsSummary): string {
  if (summary.patterns.length === 0) return "No files are kept";
  return summary.pending > 0 ? "No files yet" : "No files";
}

function emptyText(summary: OutputsSummary, job: JobWithSpec): string {
  if (summary.patterns.length === 0) {
    const gone = job.ended_at === null ? "is removed when it ends" : "was removed when it ended";
    return `Its spec names no outputs, so its working folder ${gone}. Files that outputs names are kept.`;
  }
  const named = summary.patterns.join(", ");
  return job.state === "queued" ? `What it leaves of ${named} will be here.` : `It left nothing of ${named}.`;
}
