import { Button } from "@mantine/core";
import { IconBoxMultiple, IconTable } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useMemo, useState, type CSSProperties } from "react";

import { boxesWords, boxWords, depthOf, rowsOf, stateWords, type Box } from "./boxes";
import classes from "./CellBoxes.module.css";

const LEGEND = [
  { look: "used", label: "Guaranteed jobs" },
  { look: "lent", label: "Opportunistic jobs" },
  { look: "reserved", label: "Reserved" },
  { look: "free", label: "Free" },
  { look: "ill", label: "Bad or doomed" },
] as const;

/** The width of a GPU where there are few boxes and where there are many, and of the widest cell. */
const UNIT_PX = { few: 18, many: 11 };
const WIDEST_PX = 280;
/** Up to this number of boxes each has its name. */
const FEW = 120;

interface Props {
  boxes: readonly Box[];
  /** What the boxes are, for the table. */
  label: string;
  /** True where each box may be bound to another virtual cluster. */
  ofPool?: boolean;
}

/** Cells as nested boxes, or the same as a table. */
export function CellBoxes({ boxes, label, ofPool = false }: Props) {
  const [asTable, setAsTable] = useState(false);
  const levels = useMemo(() => depthOf(boxes), [boxes]);
  const few = useMemo(() => rowsOf(boxes, levels).length <= FEW, [boxes, levels]);
  return (
    <div>
      <div className={classes.bar}>
        <ul className={classes.legend} aria-hidden="true">
          {LEGEND.map(({ look, label }) => (
            <li key={look}>
              <span className={classes.swatch} data-look={look} />
              {label}
            </li>
          ))}
        </ul>
        <Button
          variant="default"
          size="xs"
          aria-pressed={asTable}
          leftSection={asTable ? <IconBoxMultiple size={15} /> : <IconTable size={15} />}
          onClick={() => setAsTable(!asTable)}
        >
          {asTable ? "Boxes" : "Table"}
        </Button>
      </div>
      {asTable ? (
        <CellTable boxes={boxes} levels={levels} label={label} ofPool={ofPool} />
      ) : (
        <figure className={classes.figure}>
          <figcaption className="sr-only">{boxesWords(boxes)}</figcaption>
          <div className={classes.boxes} aria-hidden="true">
            {boxes.map((box) => (
              <Nested key={box.key} box={box} levels={levels} few={few} />
            ))}
          </div>
        </figure>
      )}
    </div>
  );
}

function Nested({ box, levels, few }: { box: Box; levels: number; few: boolean }) {
  const reserved = box.state === "reserved" || box.state === "reserving";
  const look = box.trouble !== "" ? "ill" : reserved ? "reserved" : "free";
  const alike = box.children.length === 0 || levels <= 1;
  const gpus = alike ? <Gpus box={box} look={look} few={few} /> : null;
  if (gpus !== null && !few) return gpus;
  return (
    <div className={classes.box} data-look={look} title={boxWords(box)}>
      <span className={classes.type}>{few ? `${box.type} ${box.label}` : box.type}</span>
      <div className={classes.inner}>
        {gpus ??
          box.children.map((child) => <Nested key={child.key} box={child} levels={levels - 1} few={few} />)}
      </div>
    </div>
  );
}

/** A cell that is not shown in parts: one square a GPU. */
function Gpus({ box, look, few }: { box: Box; look: string; few: boolean }) {
  const share = {
    "--unit": `${Math.min(few ? UNIT_PX.few : UNIT_PX.many, WIDEST_PX / box.gpus)}px`,
    "--gpus": box.gpus,
    "--used": box.used,
    "--lent": box.lent,
  } as CSSProperties;
  return <span className={classes.leaf} data-look={look} title={boxWords(box)} style={share} />;
}

function CellTable({
  boxes,
  levels,
  label,
  ofPool,
}: Required<Omit<Props, "boxes">> & { boxes: readonly Box[]; levels: number }) {
  return (
    <div className={classes.scroll} tabIndex={0} role="region" aria-label={`${label} as a table`}>
      <table className={classes.table}>
        <thead>
          <tr>
            <th scope="col">Cell</th>
            <th scope="col" className={classes.number}>
              GPUs
            </th>
            <th scope="col">State</th>
            <th scope="col" className={classes.number}>
              Guaranteed
            </th>
            <th scope="col" className={classes.number}>
              Opportunistic
            </th>
            <th scope="col">{ofPool ? "Virtual cluster" : "Physical cell"}</th>
            {ofPool ? null : <th scope="col">Jobs</th>}
          </tr>
        </thead>
        <tbody>
          {rowsOf(boxes, levels).map(({ box, depth }) => (
            <tr key={box.key}>
              <th scope="row" style={{ paddingLeft: 18 + 16 * depth }}>
                {box.type} <span className="mono">{box.name}</span>
              </th>
              <td className={classes.number}>{box.gpus}</td>
              <td>{stateWords(box)}</td>
              <td className={classes.number}>{box.used}</td>
              <td className={classes.number}>{box.lent}</td>
              <td>{(ofPool ? box.vc : box.physical) ?? "–"}</td>
              {ofPool ? null : (
                <td>
                  {box.jobs.length === 0 || box.children.length > 0
                    ? "–"
                    : box.jobs.map((id, index) => (
                        <span key={id}>
                          {index === 0 ? "" : ", "}
                          <Link to="/jobs/$jobId" params={{ jobId: String(id) }} className="link">
                            {id}
                          </Link>
                        </span>
                      ))}
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
