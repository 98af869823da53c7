const BINARY = ["B", "KiB", "MiB", "GiB", "TiB"];

/** A number of bytes with a binary unit: `0 B`, `512 B`, `1.5 MiB`. */
export function bytes(size: number): string {
  let value = size;
  let unit = 0;
  while (value >= 1024 && unit < BINARY.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const shown = unit === 0 || value >= 100 ? String(Math.round(value)) : value.toFixed(1).replace(/\.0$/, "");
  return `${shown} ${BINARY[unit] ?? ""}`;
}

export const mebibytes = (mib: number): string => bytes(mib * 1024 * 1024);

/** `12,345`. */
export const count = (value: number): string => value.toLocaleString("en");

/** `1 GPU`, `8 GPUs`. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** A part of a whole in whole per cent, 0 when there is no whole. */
export function percent(part: number, whole: number): number {
  return whole <= 0 ? 0 : Math.round((100 * part) / whole);
}

/** `1st`, `2nd`, `3rd`, `11th`. */
export function ordinal(value: number): string {
  const tail = value % 100;
  if (tail >= 11 && tail <= 13) return `${value}th`;
  return `${value}${["th", "st", "nd", "rd"][value % 10] ?? "th"}`;
}

/** GPU-hours with as many digits as one wants to know: `0.42`, `12.5`, `1,234`; what is not nothing is not 0. */
export function gpuHours(value: number): string {
  if (value > 0 && value < 0.01) return "<0.01";
  if (value >= 100) return count(Math.round(value));
  return value.toFixed(value >= 10 ? 1 : 2);
}
