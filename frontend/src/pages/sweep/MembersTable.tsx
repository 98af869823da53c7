import { IconArrowDown, IconArrowUp } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useImperativeHandle, useMemo, useRef, useState, type Ref } from "react";

import type { Sweep, SweepMember } from "../../api/types";
import { figure } from "../../components/charts/charts";
import { Chip } from "../../components/StateChip";
import { gpuHours } from "../../format/amount";
import classes from "./MembersTable.module.css";
import { columnsOf, sorted, type Order } from "./members";
import { MEMBER_STATES, valueWords } from "./words";

const ROW_HEIGHT = 41;

export interface TableHandle {
  /** Brings the row of a member into view and puts the focus on it. */
  show: (member: number) => void;
}

interface Props {
  sweep: Sweep;
  members: readonly SweepMember[];
  hot: number | null;
  onHot: (member: number | null) => void;
  ref: Ref<TableHandle>;
}

/** The members as rows, of which only those in view exist in the page. */
export function MembersTable({ sweep, members, hot, onHot, ref }: Props) {
  const columns = useMemo(() => columnsOf(sweep), [sweep]);
  const [order, setOrder] = useState<Order>({ column: "value", descending: false });
  const rows = useMemo(() => sorted(columns, members, order), [columns, members, order]);
  const body = useRef<HTMLTableSectionElement>(null);
  const [top, setTop] = useState(0);
  useEffect(() => {
    setTop((body.current?.getBoundingClientRect().top ?? 0) + window.scrollY);
  }, [rows.length]);
  const virtualizer = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => ROW_HEIGHT,
    overscan: 12,
    scrollMargin: top,
  });
  useImperativeHandle(ref, () => ({
    show: (member) => {
      virtualizer.scrollToIndex(
        rows.findIndex((row) => row.member === member),
        { align: "center" },
      );
      // The row exists once the page has scrolled there.
      window.setTimeout(() => {
        body.current
          ?.querySelector<HTMLElement>(`[data-member="${member}"] a`)
          ?.focus({ preventScroll: true });
      }, 60);
    },
  }));

  const inView = virtualizer.getVirtualItems();
  const before = (inView[0]?.start ?? top) - top;
  const after = Math.max(0, virtualizer.getTotalSize() - ((inView.at(-1)?.end ?? top) - top));
  const sort = (column: string) =>
    setOrder((old) => ({ column, descending: old.column === column && !old.descending }));

  return (
    <div className={classes.scroll} tabIndex={0} role="group" aria-label="Table of the members">
      <table className={classes.table} aria-label="Members" aria-rowcount={rows.length + 1}>
        <thead>
          <tr>
            {columns.map(({ key, label, numeric }) => (
              <th
                key={key}
                scope="col"
                className={numeric ? classes.number : undefined}
                aria-sort={order.column !== key ? undefined : order.descending ? "descending" : "ascending"}
              >
                <button type="button" className={classes.sort} onClick={() => sort(key)}>
                  {label}
                  {order.column !== key ? null : order.descending ? (
                    <IconArrowDown size={13} aria-hidden="true" />
                  ) : (
                    <IconArrowUp size={13} aria-hidden="true" />
                  )}
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={body} onPointerLeave={() => onHot(null)}>
          {before > 0 ? <Space height={before} columns={columns.length} /> : null}
          {inView.map(({ index }) => {
            const member = rows[index];
            return member === undefined ? null : (
              <MemberRow
                key={member.member}
                sweep={sweep}
                member={member}
                index={index}
                hot={hot === member.member}
                onHot={onHot}
              />
            );
          })}
          {after > 0 ? <Space height={after} columns={columns.length} /> : null}
        </tbody>
      </table>
    </div>
  );
}

const Space = ({ height, columns }: { height: number; columns: number }) => (
  <tr aria-hidden="true" className={classes.space}>
    <td colSpan={columns} style={{ height }} />
  </tr>
);

interface RowProps {
  sweep: Sweep;
  member: SweepMember;
  index: number;
  hot: boolean;
  onHot: (member: number | null) => void;
}

function MemberRow({ sweep, member, index, hot, onHot }: RowProps) {
  const state = MEMBER_STATES.find((each) => each.state === member.state);
  const best = sweep.best?.member === member.member;
  return (
    <tr
      data-member={member.member}
      data-hot={hot || undefined}
      aria-rowindex={index + 2}
      onPointerEnter={() => onHot(member.member)}
      onFocus={() => onHot(member.member)}
      onBlur={() => onHot(null)}
    >
      <td className={classes.number}>
        <Link
          to="/jobs/$jobId"
          params={{ jobId: String(member.job) }}
          className="link"
          aria-label={`Member ${member.member}, job ${member.job}`}
        >
          {member.member}
        </Link>
      </td>
      <td className={`${classes.number} ${classes.value}`} data-best={best || undefined}>
        {member.value === null ? "–" : figure(member.value)}
        {best ? <span className={classes.mark}>best</span> : null}
      </td>
      <td>
        <Chip tone={state?.tone ?? "cancelled"} pulse={member.state === "running"}>
          {state?.label ?? member.state}
        </Chip>
      </td>
      {sweep.params.map((name) => {
        const value = member.params[name];
        return (
          <td key={name} className={classes.number}>
            {value === undefined ? "–" : valueWords(value)}
          </td>
        );
      })}
      <td className={classes.number}>{member.step ?? "–"}</td>
      <td className={classes.number}>{gpuHours(member.gpu_hours)}</td>
      <td className={`${classes.why} truncate`} title={member.why}>
        {member.why}
      </td>
    </tr>
  );
}
