import { JOB_COLOURS, type Colouring } from "./colouring";
import classes from "./Squares.module.css";

function Sample({ look, background, children }: { look?: string; background?: string; children: string }) {
  return (
    <li className={classes.sample}>
      <span
        className={classes.swatch}
        data-look={look}
        style={background === undefined ? undefined : { background }}
      />
      {children}
    </li>
  );
}

/** What the colours of the squares mean. */
export function Legend({
  colouring,
  tenants,
}: {
  colouring: Colouring;
  tenants: ReadonlyMap<string, string>;
}) {
  return (
    <ul className={classes.legend} aria-label="Legend">
      {colouring === "state" ? (
        <>
          <Sample look="free">Free</Sample>
          <Sample look="mine">My jobs</Sample>
          <Sample look="busy">Others’ jobs</Sample>
        </>
      ) : null}
      {colouring === "job" ? (
        <>
          <Sample look="free">Free</Sample>
          <li className={classes.sample}>
            {JOB_COLOURS.slice(0, 3).map((background) => (
              <span key={background} className={classes.swatch} style={{ background }} />
            ))}
            One colour a job
          </li>
          <Sample look="busy">Not visible to me</Sample>
        </>
      ) : null}
      {colouring === "tenant" ? (
        <>
          <Sample look="free">Free</Sample>
          {[...tenants].map(([name, background]) => (
            <Sample key={name} background={background}>
              {name}
            </Sample>
          ))}
          <Sample look="busy">Not visible to me</Sample>
        </>
      ) : null}
      {colouring === "utilisation" ? (
        <li className={classes.sample}>
          0%
          {[0, 1, 2, 3, 4].map((step) => (
            <span key={step} className={classes.swatch} style={{ background: `var(--ramp-${step})` }} />
          ))}
          100%
        </li>
      ) : null}
      <Sample look="closed">Not schedulable</Sample>
      <Sample look="unhealthy">Unhealthy</Sample>
    </ul>
  );
}
