import { memo, type CSSProperties } from "react";

import { parseAnsi, type Piece } from "./ansi";
import type { LogLine } from "./buffer";
import classes from "./LogView.module.css";

function paint(color: number | string): string {
  return typeof color === "number" ? `var(--ansi-${color})` : color;
}

function styleOf(piece: Piece): CSSProperties | undefined {
  const style: CSSProperties = {};
  if (piece.color !== undefined) style.color = paint(piece.color);
  if (piece.background !== undefined) style.background = paint(piece.background);
  if (piece.bold) style.fontWeight = 650;
  if (piece.dim) style.opacity = 0.65;
  if (piece.italic) style.fontStyle = "italic";
  if (piece.underline) style.textDecoration = "underline";
  return Object.keys(style).length === 0 ? undefined : style;
}

/** The text cut at each place where the needle is found, whatever its case. */
export function splitAt(text: string, needle: string): { text: string; hit: boolean }[] {
  const parts: { text: string; hit: boolean }[] = [];
  const folded = text.toLowerCase();
  let from = 0;
  for (let at = folded.indexOf(needle); at >= 0; at = folded.indexOf(needle, from)) {
    if (at > from) parts.push({ text: text.slice(from, at), hit: false });
    parts.push({ text: text.slice(at, at + needle.length), hit: true });
    from = at + needle.length;
  }
  if (from < text.length) parts.push({ text: text.slice(from), hit: false });
  return parts;
}

interface Props {
  line: LogLine;
  needle: string;
  current: boolean;
  showRank: boolean;
}

export const LogLineView = memo(function LogLineView({ line, needle, current, showRank }: Props) {
  const hit = needle !== "" && line.text.toLowerCase().includes(needle);
  return (
    <>
      <span className={classes.number} aria-hidden="true">
        {line.number}
      </span>
      {showRank ? (
        <span
          className={classes.rank}
          style={{ color: `var(--rank-${line.rank % 6})` }}
          title={`Rank ${line.rank}`}
        >
          {line.rank}
        </span>
      ) : null}
      <span className={classes.text}>
        {hit
          ? splitAt(line.text, needle).map((part, index) =>
              part.hit ? (
                <mark key={index} className={classes.hit} data-current={current || undefined}>
                  {part.text}
                </mark>
              ) : (
                part.text
              ),
            )
          : parseAnsi(line.raw).map((piece, index) => {
              const style = styleOf(piece);
              return style === undefined ? (
                piece.text
              ) : (
                <span key={index} style={style}>
                  {piece.text}
                </span>
              );
            })}
        {line.text === "" ? "\u00a0" : null}
      </span>
    </>
  );
});
