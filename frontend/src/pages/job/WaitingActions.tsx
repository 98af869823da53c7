import { Button } from "@mantine/core";
import { IconPencil, IconPlayerPause, IconPlayerPlay } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { lazy, useState } from "react";

import { loadPart } from "../../api/parts";
import type { JobWithSpec } from "../../api/types";
import { useJobActions } from "../../components/jobActions";
import { OnceOpened } from "../../components/OnceOpened";

const EditDialog = lazy(() => loadPart(() => import("./EditDialog")));

/** What can be done with a job while it waits: hold or release it, and change it. */
export function WaitingActions({ job }: { job: JobWithSpec }) {
  const client = useQueryClient();
  const { act } = useJobActions();
  const [editing, setEditing] = useState(false);
  const renew = async () => {
    await client.invalidateQueries({ queryKey: ["job", job.id] });
    await client.invalidateQueries({ queryKey: ["jobs"] });
  };
  return (
    <>
      <Button variant="default" leftSection={<IconPencil size={16} />} onClick={() => setEditing(true)}>
        Edit
      </Button>
      <Button
        variant="default"
        leftSection={job.held ? <IconPlayerPlay size={16} /> : <IconPlayerPause size={16} />}
        onClick={() => void act(job.id, job.held ? "release" : "hold")}
      >
        {job.held ? "Release" : "Hold"}
      </Button>
      <OnceOpened opened={editing}>
        <EditDialog
          key={String(editing)}
          job={job}
          opened={editing}
          onClose={() => setEditing(false)}
          onSaved={renew}
        />
      </OnceOpened>
    </>
  );
}
