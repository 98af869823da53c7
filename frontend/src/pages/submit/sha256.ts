/** SHA-256 for pages that are served without HTTPS, where browsers offer no `crypto.subtle` (FIPS 180-4). */

const ROUND = new Uint32Array(64);
const START = new Uint32Array(8);

/** The first 32 bits of the fractional part of a number. */
const fraction = (value: number): number => ((value - Math.floor(value)) * 2 ** 32) | 0;

// The constants are defined as digits of the roots of the first 64 primes.
for (let candidate = 2, found = 0; found < 64; candidate += 1) {
  let prime = true;
  for (let factor = 2; factor * factor <= candidate; factor += 1) {
    if (candidate % factor === 0) {
      prime = false;
      break;
    }
  }
  if (!prime) continue;
  if (found < 8) START[found] = fraction(Math.sqrt(candidate));
  ROUND[found] = fraction(Math.cbrt(candidate));
  found += 1;
}

const rotate = (value: number, by: number): number => (value >>> by) | (value << (32 - by));

function padded(data: Uint8Array): Uint8Array<ArrayBuffer> {
  const length = Math.ceil((data.length + 9) / 64) * 64;
  const result = new Uint8Array(length);
  result.set(data);
  result[data.length] = 0x80;
  const view = new DataView(result.buffer);
  view.setUint32(length - 8, Math.floor(data.length / 2 ** 29));
  view.setUint32(length - 4, (data.length << 3) >>> 0);
  return result;
}

export function sha256Plain(data: Uint8Array): string {
  const bytes = padded(data);
  const view = new DataView(bytes.buffer);
  const state = START.slice();
  const words = new Uint32Array(64);
  for (let block = 0; block < bytes.length; block += 64) {
    for (let index = 0; index < 16; index += 1) words[index] = view.getUint32(block + 4 * index);
    for (let index = 16; index < 64; index += 1) {
      const near = words[index - 2] ?? 0;
      const far = words[index - 15] ?? 0;
      const high = rotate(near, 17) ^ rotate(near, 19) ^ (near >>> 10);
      const low = rotate(far, 7) ^ rotate(far, 18) ^ (far >>> 3);
      words[index] = (words[index - 16] ?? 0) + low + (words[index - 7] ?? 0) + high;
    }
    let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state;
    for (let index = 0; index < 64; index += 1) {
      const mix = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
      const choice = (e & f) ^ (~e & g);
      const first = (h + mix + choice + (ROUND[index] ?? 0) + (words[index] ?? 0)) | 0;
      const spread = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
      const majority = (a & b) ^ (a & c) ^ (b & c);
      const second = (spread + majority) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((value, index) => {
      state[index] = (state[index] ?? 0) + value;
    });
  }
  return Array.from(state, (word) => word.toString(16).padStart(8, "0")).join("");
}

/** The SHA-256 of the data in hexadecimal. */
export async function sha256(data: Uint8Array<ArrayBuffer>): Promise<string> {
  if (!globalThis.isSecureContext) return sha256Plain(data);
  const digest = await crypto.subtle.digest("SHA-256", data);
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
