import { Drawer } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Fragment, lazy, Suspense, useState } from "react";

import { loadPart } from "../../api/parts";
import { nodeQuery } from "../../api/queries";
import type { Gpu, Node } from "../../api/types";
import { useMe } from "../../app/me";
import { Fact, Facts } from "../../components/Fact";
import { Meter } from "../../components/Meter";
import { Label } from "../../components/StateChip";
import { MetricsLoading } from "../../components/charts/MetricsPanel";
import { Ago } from "../../components/Time";
import { mebibytes } from "../../format/amount";
import { GpuChecks } from "./GpuChecks";
import { HealthReports } from "./HealthReports";
import { LinkMatrix } from "./LinkMatrix";
import { NodeActions } from "./NodeActions";
import { gpuWords, NodeChips } from "./NodeCard";
import classes from "./NodeDrawer.module.css";
import { Maintenance } from "./Maintenance";
import { Strikes } from "./Strikes";

const NodeMetrics = lazy(() => loadPart(() => import("./NodeMetrics")));

/** Everything there is to know of one node, and for operators what can be done with it. */
export function NodeDrawer({ node, onClose }: { node: Node | undefined; onClose: () => void }) {
  const { is_operator: isOperator } = useMe();
  // While the drawer slides away it still shows the node it was opened for.
  const [last, setLast] = useState(node);
  if (node !== undefined && node !== last) setLast(node);
  const shown = node ?? last;
  return (
    <Drawer
      opened={node !== undefined}
      onClose={onClose}
      title={<span className="mono">{shown?.name}</span>}
      size={460}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      {shown === undefined ? null : (
        <div className={classes.body}>
          <div className={classes.chips}>
            <NodeChips node={shown} always />
            {Object.entries(shown.labels)
              .filter(([, value]) => value !== "")
              .map(([key, value]) => (
                <Label key={key}>
                  {key}={value}
                </Label>
              ))}
          </div>
          {isOperator ? <NodeActions key={shown.name} node={shown} /> : null}
          {shown.reason === null || shown.reason === "" ? null : (
            <p className={classes.reason}>{shown.reason}</p>
          )}
          {shown.barred === null ? null : (
            <p className={classes.reason}>Nothing starts here: {shown.barred}</p>
          )}
          {shown.single_user ? (
            <p className={classes.reason}>
              All jobs here run as one account.{" "}
              {shown.single_user_shared
                ? "Tenants share it, and are not protected from each other."
                : "It takes jobs of one tenant."}
            </p>
          ) : null}
          {shown.labels.limits === "advisory" ? (
            <p className={classes.reason}>
              {offersBoth(shown)
                ? "The memory limit of jobs is enforced in containers only."
                : "The memory limit of jobs is not enforced here."}
            </p>
          ) : null}
          {shown.no_containers === null ? null : (
            <p className={classes.reason}>No containers here: {shown.no_containers}.</p>
          )}
          {shown.agent_in_container ? (
            <p className={classes.reason}>
              This node is for trying out: its agent runs in a container, and jobs run as processes in it.
            </p>
          ) : null}
          {shown.host_network === null ? null : (
            <p className={classes.reason}>
              Gangs in containers have the host&apos;s network here: {shown.host_network}.
            </p>
          )}
          {shown.link?.reason ? <p className={classes.reason}>{shown.link.reason}</p> : null}
          <Facts>
            <Fact name="GPUs">{gpuWords(shown)}</Fact>
            <Fact name="Pool">{shown.pool}</Fact>
            {shown.runtimes.length === 0 ? null : <Fact name="Jobs run">{runtimeWords(shown.runtimes)}</Fact>}
            {shown.rack === "" ? null : <Fact name="Rack">{shown.rack}</Fact>}
            {shown.address === "" ? null : (
              <Fact name="Address">
                <span className="mono">{shown.address}</span>
              </Fact>
            )}
            <Fact name="Last heard of">
              {shown.last_seen_at === null ? "never" : <Ago at={shown.last_seen_at} />}
            </Fact>
            {shown.link === null ? null : (
              <Fact name="SSH link">
                {shown.link.state.replaceAll("_", " ")}, since <Ago at={shown.link.since} />
              </Fact>
            )}
          </Facts>
          <div className={classes.meters}>
            <Meter label="CPUs" name="CPUs in use" used={shown.cpus_used} total={shown.cpus} />
            <Meter
              label="Memory"
              name="Memory in use"
              used={shown.memory_used_mib}
              total={shown.memory_mib}
              figures={`${mebibytes(shown.memory_used_mib)} / ${mebibytes(shown.memory_mib)}`}
            />
          </div>
          <ul className={classes.gpus}>
            {shown.gpus.map((gpu) => (
              <GpuRow key={gpu.uuid} gpu={gpu} />
            ))}
          </ul>
          <MoreOfNode key={`more of ${shown.name}`} name={shown.name} isOperator={isOperator} />
          <Suspense fallback={<MetricsLoading charts={3} narrow />}>
            <NodeMetrics key={`metrics of ${shown.name}`} name={shown.name} />
          </Suspense>
        </div>
      )}
    </Drawer>
  );
}

/** What the list of nodes leaves out. Until it has come, or where it cannot be had, the rest is shown without it. */
function MoreOfNode({ name, isOperator }: { name: string; isOperator: boolean }) {
  const { data } = useQuery(nodeQuery(name));
  if (data === undefined) return null;
  return (
    <>
      {data.disk_mib === null || data.disk_free_mib === null ? null : (
        <Meter
          label="Disk"
          name="Disk in use"
          used={data.disk_mib - data.disk_free_mib}
          total={data.disk_mib}
          figures={`${mebibytes(data.disk_mib - data.disk_free_mib)} / ${mebibytes(data.disk_mib)}`}
        />
      )}
      {data.driver_version === null && data.toolkit_version === null ? null : (
        <Facts>
          {data.driver_version === null ? null : <Fact name="GPU driver">{data.driver_version}</Fact>}
          {data.toolkit_version === null ? null : (
            <Fact name="Container Toolkit">{data.toolkit_version}</Fact>
          )}
        </Facts>
      )}
      {data.install === null ? null : (
        <>
          <p className={classes.reason}>
            On a real server, as root, these two lines install the agent for a new node; its jobs then run in
            containers too:
          </p>
          <pre className={classes.install}>{data.install}</pre>
        </>
      )}
      <LinkMatrix node={data} />
      <Maintenance node={data} />
      <HealthReports node={data} isOperator={isOperator} />
      <GpuChecks node={data} isOperator={isOperator} />
      <Strikes node={data} isOperator={isOperator} />
    </>
  );
}

const offersBoth = (node: Node): boolean => node.runtimes.includes("process") && node.runtimes.length > 1;

/** `in docker with an image, else as processes`. */
function runtimeWords(runtimes: readonly string[]): string {
  const engines = runtimes.filter((name) => name !== "process").join(", ");
  if (engines === "") return "as processes";
  return engines === runtimes.join(", ") ? `in ${engines}` : `in ${engines} with an image, else as processes`;
}

function GpuRow({ gpu }: { gpu: Gpu }) {
  return (
    <li className={classes.gpu}>
      <span className="mono">{gpu.index}</span>
      <span className="truncate">
        {gpu.jobs.length > 0 ? (
          gpu.jobs.map((job, index) => (
            <Fragment key={job.id}>
              {index > 0 ? ", " : null}
              <Link to="/jobs/$jobId" params={{ jobId: String(job.id) }} className="link">
                {job.name}
              </Link>
            </Fragment>
          ))
        ) : (
          <span className={classes.faint}>{gpu.healthy ? (gpu.busy ? "In use" : "Free") : "Unhealthy"}</span>
        )}
      </span>
      <span className={`${classes.faint} tabular`}>
        {[
          gpu.utilization === null ? null : `${Math.round(gpu.utilization)}%`,
          gpu.memory_used_mib === null ? null : mebibytes(gpu.memory_used_mib),
          gpu.temperature_c === null ? null : `${Math.round(gpu.temperature_c)} °C`,
        ]
          .filter((part) => part !== null)
          .join(" · ")}
      </span>
    </li>
  );
}
