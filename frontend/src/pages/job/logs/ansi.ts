/** Terminal colours of a log line as styled pieces of text. Everything else that a terminal would obey is dropped. */

export interface Piece {
  text: string;
  /** 0 to 15 of the palette, or a CSS colour of the 256 and true-colour spaces. */
  color?: number | string;
  background?: number | string;
  bold?: boolean;
  dim?: boolean;
  italic?: boolean;
  underline?: boolean;
}

type Style = Omit<Piece, "text">;

// Colour sequences, other control sequences, operating system commands, and lone escapes, in this order.
/* eslint-disable no-control-regex */
const SEQUENCE =
  /\u001b\[([0-9;:]*)m|\u001b\[[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[@-_]?/g;
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001a\u001c-\u001f\u007f]/g;
/* eslint-enable no-control-regex */

// Characters that change the direction of text, and so the order in which a line is read.
const DIRECTION = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

function withoutControls(text: string): string {
  return text
    .replaceAll(CONTROL, "")
    .replaceAll(DIRECTION, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** The text of a line without any escape sequence; characters that change its direction are written as escapes. */
export function plainText(line: string): string {
  const text = line.includes("\u001b") ? line.replaceAll(SEQUENCE, "") : line;
  return withoutControls(text);
}

export function parseAnsi(line: string): Piece[] {
  if (!line.includes("\u001b")) return [{ text: plainText(line) }];
  const pieces: Piece[] = [];
  let style: Style = {};
  let from = 0;
  const push = (to: number) => {
    const text = withoutControls(line.slice(from, to));
    if (text !== "") pieces.push({ text, ...style });
  };
  for (const match of line.matchAll(SEQUENCE)) {
    push(match.index);
    from = match.index + match[0].length;
    if (match[1] !== undefined) style = apply(style, match[1]);
  }
  push(line.length);
  return pieces;
}

function apply(before: Style, parameters: string): Style {
  const codes = parameters.split(/[;:]/).map((code) => (code === "" ? 0 : Number(code)));
  let style = { ...before };
  for (let index = 0; index < codes.length; index += 1) {
    const code = codes[index] ?? 0;
    if (code === 0) style = {};
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.underline = true;
    else if (code === 22) style = without(style, "bold", "dim");
    else if (code === 23) style = without(style, "italic");
    else if (code === 24) style = without(style, "underline");
    else if (code >= 30 && code <= 37) style.color = code - 30;
    else if (code >= 90 && code <= 97) style.color = code - 82;
    else if (code === 39) style = without(style, "color");
    else if (code >= 40 && code <= 47) style.background = code - 40;
    else if (code >= 100 && code <= 107) style.background = code - 92;
    else if (code === 49) style = without(style, "background");
    else if (code === 38 || code === 48) {
      const [color, used] = extended(codes.slice(index + 1));
      if (color !== null) style[code === 38 ? "color" : "background"] = color;
      index += used;
    }
  }
  return style;
}

function without(style: Style, ...keys: (keyof Style)[]): Style {
  return Object.fromEntries(Object.entries(style).filter(([key]) => !keys.includes(key as keyof Style)));
}

/** The colour after a 38 or 48, and how many codes it took. */
function extended(codes: readonly number[]): [number | string | null, number] {
  const [kind, first = 0, second = 0, third = 0] = codes;
  if (kind === 5) return [paletteColor(first), 2];
  if (kind === 2) return [`rgb(${first} ${second} ${third})`, 4];
  return [null, codes.length];
}

function paletteColor(index: number): number | string {
  if (index < 16) return index;
  if (index >= 232) {
    const grey = 8 + 10 * (index - 232);
    return `rgb(${grey} ${grey} ${grey})`;
  }
  const level = (value: number) => (value === 0 ? 0 : 55 + 40 * value);
  const cube = index - 16;
  return `rgb(${level(Math.floor(cube / 36))} ${level(Math.floor(cube / 6) % 6)} ${level(cube % 6)})`;
}
