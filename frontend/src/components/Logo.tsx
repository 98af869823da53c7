/** The mark: two columns of squares with one square between them, an M. */
export function Mark({ size = 26 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="8" fill="var(--ink)" />
      <g fill="var(--on-ink)">
        {[7, 20].flatMap((x) =>
          [7, 13.5, 20].map((y) => <rect key={`${x}-${y}`} x={x} y={y} width="5" height="5" rx="1.4" />),
        )}
      </g>
      <rect x="13.5" y="10.2" width="5" height="5" rx="1.4" fill="#5f7dff" />
    </svg>
  );
}

export function Wordmark() {
  return (
    <span style={{ display: "flex", alignItems: "center", gap: 10 }}>
      <Mark />
      <span style={{ fontWeight: 650, fontSize: 16, letterSpacing: "-0.02em" }}>Muster</span>
    </span>
  );
}
