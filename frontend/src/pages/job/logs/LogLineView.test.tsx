import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";

import { LogLineView, splitAt } from "./LogLineView";

const line = (raw: string, text = raw) => ({ number: 1, rank: 0, raw, text });

test("markup in a log is shown and not obeyed", () => {
  const { container } = render(
    <LogLineView line={line("<img src=x onerror=alert(1)>")} needle="" current={false} showRank={false} />,
  );
  expect(container.querySelector("img")).toBeNull();
  expect(screen.getByText("<img src=x onerror=alert(1)>")).toBeTruthy();
});

test("what is searched for is marked, whatever its case", () => {
  const { container } = render(
    <LogLineView line={line("Loss is lossy")} needle="loss" current={false} showRank={false} />,
  );
  expect([...container.querySelectorAll("mark")].map((mark) => mark.textContent)).toEqual(["Loss", "loss"]);
});

test("a text without the needle is one part", () => {
  expect(splitAt("abc", "x")).toEqual([{ text: "abc", hit: false }]);
});
