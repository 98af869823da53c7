import { IconAlertTriangle } from "@tabler/icons-react";

import type { WaitRecord } from "../../api/types";
import { sentence } from "../../format/words";
import { NoteCard } from "../job/NoteCard";
import notes from "../job/NoteCard.module.css";

/** Warns while recent waits contradict the forecasts. */
export function DriftCard({ drift }: { drift: WaitRecord["drift"] }) {
  if (!drift.alarm) return null;
  return (
    <NoteCard icon={<IconAlertTriangle size={18} stroke={1.8} />} label="Drift" tone="failed">
      <h2 className={notes.title}>Recent waits contradict the forecasts</h2>
      <p className={notes.text}>{sentence(drift.says)}</p>
    </NoteCard>
  );
}
