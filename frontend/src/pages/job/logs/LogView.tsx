import { ActionIcon, Button, NativeSelect, TextInput, Tooltip } from "@mantine/core";
import {
  IconArrowDown,
  IconChevronDown,
  IconChevronUp,
  IconDownload,
  IconSearch,
  IconTextWrap,
} from "@tabler/icons-react";
import { useVirtualizer } from "@tanstack/react-virtual";
import {
  useDeferredValue,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  type KeyboardEvent,
} from "react";

import { logUrl } from "../../../api/client";
import { bytes, count, plural } from "../../../format/amount";
import { LogLineView } from "./LogLineView";
import classes from "./LogView.module.css";
import { useLogStream, type LogStatus } from "./useLogStream";

const LINE_HEIGHT = 20;

const STATUS: Record<LogStatus, string> = {
  connecting: "Opening",
  streaming: "Streaming",
  reconnecting: "Reconnecting",
  ended: "Complete",
  refused: "Not available",
};

const TERMINAL = new Set(["succeeded", "failed", "cancelled"]);

interface Props {
  jobId: number;
  attempt: number;
  attempts: number;
  ranks: number;
  /** How much output there is already, in bytes. */
  size: number;
  rank: number | undefined;
  onAttempt: (attempt: number) => void;
  onRank: (rank: number | undefined) => void;
}

/** The output of an attempt, live, as a terminal would show it. */
export function LogView({ jobId, attempt, attempts, ranks, size, rank, onAttempt, onRank }: Props) {
  const { buffer, version, status, end, skipped, readAll } = useLogStream(jobId, attempt, rank, size);
  const lines = buffer.lines;
  const scroller = useRef<HTMLDivElement>(null);
  const lastTop = useRef(0);
  const [wrap, setWrap] = useState(true);
  const [tail, setTail] = useState(true);
  const [query, setQuery] = useState("");
  // None of the matches was gone to yet.
  const [hit, setHit] = useState(-1);
  const needle = useDeferredValue(query.trim().toLowerCase());

  const virtualizer = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE_HEIGHT,
    overscan: 30,
    getItemKey: (index) => lines[index]?.number ?? index,
  });
  const height = virtualizer.getTotalSize();
  const ended = end !== null;

  useEffect(() => virtualizer.measure(), [virtualizer, wrap]);

  useLayoutEffect(() => {
    // The virtualiser must do it: it would write its own idea of the position over one that we set.
    if (tail) virtualizer.scrollToEnd();
  }, [virtualizer, tail, height, version, ended]);

  const onScroll = () => {
    const element = scroller.current;
    if (element === null) return;
    const atEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 2 * LINE_HEIGHT;
    // Only a move towards the start is a wish to stay; text that arrives moves the end away by itself.
    if (element.scrollTop < lastTop.current - 1 && !atEnd) setTail(false);
    else if (atEnd) setTail(true);
    lastTop.current = element.scrollTop;
  };

  const hits = useMemo(
    () =>
      needle === ""
        ? []
        : lines.flatMap((line, index) => (line.text.toLowerCase().includes(needle) ? [index] : [])),
    [lines, needle],
  );
  const current = hit < 0 || hits.length === 0 ? -1 : (hits[hit % hits.length] ?? -1);
  const go = (step: number) => {
    if (hits.length === 0) return;
    const next = hit < 0 && step < 0 ? hits.length - 1 : (hit + step + hits.length) % hits.length;
    setHit(next);
    setTail(false);
    virtualizer.scrollToIndex(hits[next] ?? 0, { align: "center" });
  };
  const onSearchKey = (event: KeyboardEvent) => {
    if (event.key === "Enter") {
      event.preventDefault();
      go(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      setQuery("");
    }
  };

  return (
    <section className={classes.frame} aria-label="Log">
      <div className={classes.bar}>
        <span className={classes.status} data-status={status} role="status">
          <span className={classes.dot} aria-hidden="true" />
          {STATUS[status]}
          <span className={classes.count}>{plural(lines.length + buffer.dropped, "line")}</span>
        </span>
        <div className={classes.tools}>
          <TextInput
            aria-label="Search in the log"
            placeholder="Search"
            size="xs"
            className={classes.search}
            leftSection={<IconSearch size={14} />}
            value={query}
            onChange={(event) => {
              setQuery(event.currentTarget.value);
              setHit(-1);
            }}
            onKeyDown={onSearchKey}
          />
          {needle === "" ? null : (
            <span className={classes.hits}>
              <span className="tabular" role="status">
                {current < 0
                  ? plural(hits.length, "match", "matches")
                  : `${count((hit % hits.length) + 1)} of ${count(hits.length)}`}
              </span>
              <ActionIcon
                size={26}
                aria-label="Previous match"
                disabled={hits.length === 0}
                onClick={() => go(-1)}
              >
                <IconChevronUp size={16} />
              </ActionIcon>
              <ActionIcon
                size={26}
                aria-label="Next match"
                disabled={hits.length === 0}
                onClick={() => go(1)}
              >
                <IconChevronDown size={16} />
              </ActionIcon>
            </span>
          )}
          {attempts > 1 ? (
            <NativeSelect
              aria-label="Attempt"
              size="xs"
              className={classes.choice}
              data={Array.from({ length: attempts }, (_, index) => ({
                value: String(index + 1),
                label: `Attempt ${index + 1}`,
              }))}
              value={String(attempt)}
              onChange={(event) => onAttempt(Number(event.currentTarget.value))}
            />
          ) : null}
          {ranks > 1 ? (
            <NativeSelect
              aria-label="Rank"
              size="xs"
              className={classes.choice}
              data={[
                { value: "", label: "All ranks" },
                ...Array.from({ length: ranks }, (_, index) => ({
                  value: String(index),
                  label: `Rank ${index}`,
                })),
              ]}
              value={rank === undefined ? "" : String(rank)}
              onChange={({ currentTarget: { value } }) => onRank(value === "" ? undefined : Number(value))}
            />
          ) : null}
          <Tooltip label={wrap ? "Do not wrap long lines" : "Wrap long lines"}>
            <ActionIcon
              size={28}
              aria-label="Wrap long lines"
              aria-pressed={wrap}
              onClick={() => setWrap(!wrap)}
            >
              <IconTextWrap size={16} />
            </ActionIcon>
          </Tooltip>
          <Tooltip label={tail ? "Stop following the end" : "Follow the end"}>
            <ActionIcon
              size={28}
              aria-label="Follow the end"
              aria-pressed={tail}
              onClick={() => setTail(!tail)}
            >
              <IconArrowDown size={16} />
            </ActionIcon>
          </Tooltip>
          <Tooltip label="Download the whole log">
            <ActionIcon
              size={28}
              component="a"
              href={logUrl(jobId, { attempt, rank, download: 1 })}
              download
              aria-label="Download the log"
            >
              <IconDownload size={16} />
            </ActionIcon>
          </Tooltip>
        </div>
      </div>
      <div
        ref={scroller}
        className={classes.scroller}
        data-testid="log-view"
        data-wrap={wrap || undefined}
        data-inside={skipped > 0 || undefined}
        tabIndex={0}
        role="region"
        aria-label="Output"
        onScroll={onScroll}
      >
        {skipped > 0 ? (
          <p className={classes.note}>
            The first {bytes(skipped)} are not shown.{" "}
            <button type="button" className={classes.all} onClick={readAll}>
              Read from the beginning
            </button>
          </p>
        ) : null}
        {buffer.dropped > 0 ? (
          <p className={classes.note}>
            The first {plural(buffer.dropped, "line")} are not shown. The download has all of them.
          </p>
        ) : null}
        {lines.length === 0 ? (
          <p className={classes.note}>
            {status === "ended"
              ? "The job wrote nothing."
              : status === "refused"
                ? "This log cannot be read."
                : "Waiting for the first line…"}
          </p>
        ) : null}
        <div className={classes.lines} style={{ height }}>
          {virtualizer.getVirtualItems().map((item) => {
            const line = lines[item.index];
            if (line === undefined) return null;
            return (
              <div
                key={item.key}
                ref={wrap ? virtualizer.measureElement : undefined}
                data-index={item.index}
                className={classes.line}
                style={{ transform: `translateY(${item.start}px)` }}
              >
                <LogLineView
                  line={line}
                  needle={needle}
                  current={item.index === current}
                  showRank={ranks > 1 && rank === undefined}
                />
              </div>
            );
          })}
        </div>
        {end === null ? null : (
          <p className={classes.end}>
            {TERMINAL.has(end.state)
              ? `Job ${end.state}${end.exitCode === null ? "" : `, exit code ${end.exitCode}`}`
              : "This attempt has ended"}
          </p>
        )}
      </div>
      {tail || lines.length === 0 ? null : (
        <Button
          size="xs"
          className={classes.jump}
          leftSection={<IconArrowDown size={14} />}
          onClick={() => setTail(true)}
        >
          To the end
        </Button>
      )}
    </section>
  );
}
