import { describe, expect, it } from "vitest";

import type { JobMetrics } from "../../api/types";
import {
  dashOf,
  extremesOf,
  groupsOfJob,
  groupsOfNode,
  newestOf,
  sentenceOf,
  spanOf,
  summaryOf,
} from "./charts";

type Gpu = JobMetrics["gpus"][number];

const TIMES = [100, 110, 120];

const figure = (name: string, mean: (number | null)[], max = mean) => ({ name, unit: "", mean, max });

const gpu = (index: number, node: string, ...figures: Gpu["figures"]): Gpu => ({
  uuid: `GPU-${node}-${index}`,
  index,
  node,
  type: "A100",
  memory_mib: 40_960,
  rank: 0,
  figures,
});

const job = (gpus: Gpu[], ranks: JobMetrics["ranks"] = []): JobMetrics => ({
  from: "",
  to: "",
  step_s: 10,
  times: TIMES,
  attempt: 1,
  gpus,
  ranks,
  reported: [],
});

const line = (mean: (number | null)[], max = mean) => ({ label: "GPU 0", mean, max });

describe("the charts of a job", () => {
  it("are one for each figure that was measured, with a line for each GPU", () => {
    const used = figure("utilization", [10, 20, 30]);
    const [group] = groupsOfJob(job([gpu(0, "n1", used), gpu(1, "n1", used, figure("power_w", [1, 2, 3]))]));
    expect(group?.charts.map((chart) => [chart.title, chart.lines.map((each) => each.label)])).toEqual([
      ["GPU utilisation", ["GPU 0", "GPU 1"]],
      ["Power", ["GPU 1"]],
    ]);
  });

  it("begin with what the job told, the loss first, over its own steps", () => {
    const series = (name: string, values: (number | null)[], from_log = false) => ({
      name,
      from_log,
      steps: values.map((_, index) => index * 10),
      values,
      step: 10,
      value: null,
    });
    const told = [
      series("acc", [0.5, 0.75]),
      series("val_loss", [1.23456, null], true),
      series("total", [100]),
    ];
    const [group] = groupsOfJob({ ...job([gpu(0, "n1", figure("power_w", [1, 2, 3]))]), reported: told });
    expect(group?.title).toBe("Training");
    expect(group?.charts.map((chart) => [chart.title, chart.steps, newestOf(chart)])).toEqual([
      ["val_loss (from the log)", [0, 10], "1.235"],
      ["acc", [0, 10], "0.75"],
    ]);
  });

  it("name the nodes where there are several", () => {
    const used = figure("utilization", [1, 1, 1]);
    const [group] = groupsOfJob(job([gpu(0, "n1", used), gpu(0, "n2", used)]));
    expect(group?.charts[0]?.lines.map((each) => each.label)).toEqual(["n1 · GPU 0", "n2 · GPU 0"]);
  });

  it("end at what a figure can be at most", () => {
    const [group] = groupsOfJob(
      job([gpu(0, "n1", figure("utilization", [1, 1, 1]), figure("memory_used_mib", [1024, 1024, 1024]))]),
    );
    expect(group?.charts.map((chart) => chart.ceiling)).toEqual([100, 40_960]);
  });

  it("say of slow progress how slow it is", () => {
    const rank = {
      rank: 0,
      node: "n1",
      cpus: 1,
      memory_mib: 1024,
      figures: [figure("progress_s", [0.000_25, 0, 12.34])],
    };
    const [group] = groupsOfJob(job([], [rank]));
    const [chart] = group?.charts ?? [];
    expect(chart?.title).toBe("Steps per second");
    expect([0.000_25, 0, 1.5, 12.34].map((value) => chart?.format(value))).toEqual([
      "0.00025",
      "0",
      "1.5",
      "12",
    ]);
  });

  it("leave to the table what only counts", () => {
    const [group] = groupsOfJob(
      job([gpu(0, "n1", figure("utilization", [1, 1, 1]), figure("ecc_corrected", [2, 2, 2]))]),
    );
    expect(group?.charts.map((chart) => chart.name)).toEqual(["utilization"]);
    expect(group?.all.map((chart) => chart.name)).toEqual(["utilization", "ecc_corrected"]);
  });

  it("are none where nothing was measured", () => {
    expect(groupsOfJob(job([gpu(0, "n1")]))).toEqual([]);
  });

  it("have a group for the hosts", () => {
    const ranks = [
      {
        rank: 3,
        node: "n1",
        cpus: 4,
        memory_mib: 1,
        figures: [figure("disk_read_bytes_s", [0, 2048, null])],
      },
    ];
    const [group] = groupsOfJob(job([], ranks));
    expect(group?.title).toBe("Hosts");
    expect(group?.charts[0]?.lines[0]?.label).toBe("Rank 3 on n1");
    expect(group?.charts[0]?.format(2048)).toBe("2 KiB/s");
  });
});

describe("the charts of a node", () => {
  it("are of its GPUs and of itself", () => {
    const groups = groupsOfNode({
      from: "",
      to: "",
      step_s: 10,
      times: TIMES,
      gpus: [gpu(0, "n1", figure("temperature_c", [30, 31, 32]))],
      host: { cpus: 16, memory_mib: 2048, figures: [figure("load1", [1, 2, 3])] },
    });
    expect(groups.map((group) => group.title)).toEqual(["GPUs", "Host"]);
    expect(groups[1]?.charts[0]?.ceiling).toBe(16);
  });
});

describe("a line in words", () => {
  it("has smallest, mean, largest reading and newest value", () => {
    expect(summaryOf(line([10, null, 30], [15, null, 90]))).toEqual({ min: 10, mean: 20, max: 90, last: 30 });
  });

  it("is nothing without a value", () => {
    expect(summaryOf(line([null, null]))).toBeNull();
  });

  it("is said of the whole chart", () => {
    const chart = {
      name: "utilization",
      title: "GPU utilisation",
      lines: [line([10, 30], [10, 99]), line([50, 70])],
      ceiling: 100,
      format: (value: number) => `${value}%`,
      binary: false,
    };
    expect(sentenceOf(chart)).toBe(
      "GPU utilisation: 40% on average over 2 lines, at least 10%, at most 99%.",
    );
    expect(newestOf(chart)).toBe("30% – 70%");
    expect(extremesOf(chart)).toBe("smallest 10%, largest 99%");
    expect(newestOf({ ...chart, lines: [line([null])] })).toBe("–");
  });
});

describe("the time axis", () => {
  const times = [1000, 1010, 1020];

  it("ends with what it shows, also where that was short", () => {
    expect(spanOf(times, 10, 1024.5)).toEqual([1000, 1024.5]);
  });

  it("goes on by a step, and at least for a minute, while the job runs", () => {
    expect(spanOf(times, 10, null)).toEqual([1000, 1060]);
    expect(spanOf(times, 60, null)).toEqual([1000, 1080]);
  });

  it("has a length where a job ended before its first reading", () => {
    expect(spanOf(times, 10, 999)).toEqual([1000, 1060]);
  });
});

describe("lines of one course", () => {
  it("are told apart, since each has wider gaps than those below it", () => {
    const gaps = Array.from({ length: 8 }, (_, index) => dashOf(index)[1] ?? 0);
    expect(gaps).toEqual(gaps.toSorted((one, other) => one - other));
    expect(new Set(gaps).size).toBe(8);
    expect(dashOf(0)).toEqual([]);
  });
});
