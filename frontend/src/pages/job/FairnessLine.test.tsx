import { render, screen } from "@testing-library/react";
import { expect, it } from "vitest";

import type { JobFairness } from "../../api/types";
import { FairnessWords } from "./FairnessLine";

const SLOWER: JobFairness = {
  final: true,
  sentence: "1.3× slower than with your own 8 GPUs",
  rho_quota: 1.3,
  rho_cluster: 0.9,
  taken_s: 4680,
  alone_s: 3600,
  quota_gpus: 8,
  pool_gpus: 16,
  contention: 3.25,
  vc_contention: 2,
};

it("tells how much slower a job was than alone, and of what that is made", () => {
  render(<FairnessWords fairness={SLOWER} />);
  expect(screen.getByText(/^1.3× slower/).textContent).toBe(
    "1.3× slower than with your own 8 GPUs: 1h 18m from submission to end for 1h 00m of work.",
  );
});

it("says nothing where there is no figure", () => {
  const { container } = render(
    <FairnessWords fairness={{ ...SLOWER, sentence: "it never ran", taken_s: null }} />,
  );
  expect(container.textContent).toBe("");
});
