import { IconGauge } from "@tabler/icons-react";

import type { Efficiency } from "../../api/types";
import { gpuHours, mebibytes, plural } from "../../format/amount";
import { gradeWords } from "../../format/words";
import classes from "./NoteCard.module.css";
import { NoteCard, type Tone } from "./NoteCard";

const TONES: Record<string, Tone> = { good: "succeeded", fair: "queued", poor: "queued", idle: "failed" };

/** How well a job that has ended used what it had. Where there is nothing to say it is not there. */
export function EfficiencyCard({ efficiency }: { efficiency: Efficiency }) {
  const { grade, utilization, advice } = efficiency;
  if (grade === null && advice.length === 0) return null;
  return (
    <NoteCard
      icon={<IconGauge size={18} stroke={1.8} />}
      label="Efficiency"
      tone={TONES[grade ?? ""] ?? "plain"}
    >
      <h2 className={classes.title}>
        {grade === null ? "Asked for more than it used" : gradeWords(grade)}
        {utilization === null ? "" : `: ${Math.round(utilization)} % of the time`}
      </h2>
      {advice.map((sentence) => (
        <p key={sentence} className={classes.text}>
          {sentence}
        </p>
      ))}
      <p className={`${classes.small} ${classes.sentence}`}>{factsOf(efficiency).join(" · ")}</p>
    </NoteCard>
  );
}

function factsOf(efficiency: Efficiency): string[] {
  const peaks = efficiency.gpus.flatMap((gpu) => (gpu.memory_used_mib === null ? [] : [gpu.memory_used_mib]));
  const size = Math.max(0, ...efficiency.gpus.map((gpu) => gpu.memory_mib));
  return [
    ...(efficiency.idle_gpus > 0 ? [`${plural(efficiency.idle_gpus, "GPU")} idle`] : []),
    ...(efficiency.grade === null
      ? []
      : [`${gpuHours(efficiency.idle_gpu_hours)} of ${gpuHours(efficiency.gpu_hours)} GPU-hours idle`]),
    ...(peaks.length > 0
      ? [`GPU memory ${mebibytes(Math.max(...peaks))} of ${mebibytes(size)} at most`]
      : []),
    ...(efficiency.memory_used_mib === null
      ? []
      : [`memory ${mebibytes(efficiency.memory_used_mib)} of ${mebibytes(efficiency.memory_mib)} at most`]),
    ...(efficiency.cpu_cores === null
      ? []
      : [`${efficiency.cpu_cores.toFixed(1)} of ${plural(efficiency.cpus, "processor")} busy`]),
    `attempt ${efficiency.attempt}`,
  ];
}
