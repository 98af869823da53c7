import { ActionIcon, Button, Progress } from "@mantine/core";
import { IconAlertTriangle, IconFileZip, IconFolderUp, IconUpload, IconX } from "@tabler/icons-react";
import { useRef, useState, type DragEvent, type InputHTMLAttributes } from "react";

import { bytes, plural } from "../../format/amount";
import { messageOf } from "../../api/problem";
import type { Code, Uploaded } from "./code/useCode";
import { givenByDrop } from "./code/given";
import classes from "./CodeDrop.module.css";

const MAX_LISTED = 8;

interface Props {
  /** The digest that the spec names now. */
  digest: string;
  code: Code;
  disabled: boolean;
  /** What the server has against the field. */
  error: string | undefined;
  onRemove: () => void;
}

/** Takes the code of a job as a folder, a zip, a script or a tar.gz, and lists what was taken. */
export function CodeDrop({ digest, code, disabled, error, onRemove }: Props) {
  const shown = code.refusal === "" ? error : code.refusal;
  return (
    <div role="group" aria-labelledby="code-label">
      <span className={classes.label} id="code-label">
        Code
      </span>
      {code.busy !== null ? (
        <div className={classes.drop} role="status">
          <span>
            {code.busy.doing}
            {code.busy.share === null ? "…" : `, ${Math.round(code.busy.share * 100)}%`}
          </span>
          <Button size="compact-xs" variant="default" onClick={code.cancel}>
            Cancel
          </Button>
          <Progress
            value={(code.busy.share ?? 1) * 100}
            animated={code.busy.share === null}
            size={3}
            className={classes.progress}
            aria-label={code.busy.doing}
          />
        </div>
      ) : digest !== "" ? (
        <Taken
          digest={digest}
          uploaded={code.uploaded?.sha256 === digest ? code.uploaded : null}
          onRemove={onRemove}
          onUseTopFolder={code.useTopFolder}
        />
      ) : (
        <DropZone code={code} disabled={disabled} />
      )}
      {shown === undefined ? null : (
        <p className={classes.refusal} role="alert">
          {shown}
        </p>
      )}
    </div>
  );
}

// React's types do not know the attribute that makes a picker one of folders.
const FOLDERS = { webkitdirectory: "" } as InputHTMLAttributes<HTMLInputElement>;

function DropZone({ code, disabled }: { code: Code; disabled: boolean }) {
  const folder = useRef<HTMLInputElement>(null);
  const file = useRef<HTMLInputElement>(null);
  const [over, setOver] = useState(false);

  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    if (disabled) return;
    try {
      code.take(givenByDrop(event.dataTransfer));
    } catch (reason) {
      code.refuse(messageOf(reason));
    }
  };

  return (
    <div
      className={classes.drop}
      data-over={over || undefined}
      data-testid="code-drop"
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={onDrop}
    >
      <span>
        Drop a folder, <span className="mono">.zip</span>, <span className="mono">.py</span> or{" "}
        <span className="mono">.tar.gz</span> here
      </span>
      <span className={classes.choices}>
        <Button
          size="xs"
          variant="default"
          leftSection={<IconFolderUp size={15} />}
          disabled={disabled}
          onClick={() => folder.current?.click()}
        >
          Choose a folder
        </Button>
        <Button
          size="xs"
          variant="default"
          leftSection={<IconUpload size={15} />}
          disabled={disabled}
          onClick={() => file.current?.click()}
        >
          Choose a file
        </Button>
      </span>
      <input
        ref={folder}
        type="file"
        {...FOLDERS}
        hidden
        aria-label="Code folder"
        onChange={(event) => {
          const files = [...(event.currentTarget.files ?? [])];
          event.currentTarget.value = "";
          if (files.length > 0) code.take({ kind: "folder", files });
          else code.refuse("The folder holds no file to run.");
        }}
      />
      <input
        ref={file}
        type="file"
        accept=".zip,.py,.gz,.tgz"
        hidden
        aria-label="Code file"
        onChange={(event) => {
          const [chosen] = event.currentTarget.files ?? [];
          event.currentTarget.value = "";
          if (chosen !== undefined) code.take({ kind: "file", file: chosen });
        }}
      />
    </div>
  );
}

interface TakenProps {
  digest: string;
  /** What this page uploaded; null for an archive that the spec named already. */
  uploaded: Uploaded | null;
  onRemove: () => void;
  onUseTopFolder: () => void;
}

function Taken({ digest, uploaded, onRemove, onUseTopFolder }: TakenProps) {
  const files = uploaded?.entries.filter((entry) => !entry.isFolder) ?? [];
  const total = files.reduce((sum, entry) => sum + entry.size, 0);
  return (
    <div className={classes.taken}>
      <div className={classes.head}>
        <IconFileZip size={20} stroke={1.6} aria-hidden="true" />
        <span className="truncate">
          {uploaded === null
            ? "Uploaded archive"
            : `${uploaded.name}${uploaded.base === "" ? "" : ` › ${uploaded.base}`}`}
          <span className={`${classes.digest} mono`}>{digest.slice(0, 12)}</span>
        </span>
        <ActionIcon aria-label="Remove the code" size={28} onClick={onRemove}>
          <IconX size={16} />
        </ActionIcon>
      </div>
      {uploaded === null ? null : (
        <>
          <ul className={classes.files} aria-label="Files of the code">
            {files.slice(0, MAX_LISTED).map((entry) => (
              <li key={entry.path}>
                <span className="mono truncate">{entry.path}</span>
                <span className="tabular">{bytes(entry.size)}</span>
              </li>
            ))}
            {files.length > MAX_LISTED ? <li>and {files.length - MAX_LISTED} more</li> : null}
          </ul>
          <p className={classes.total}>
            {plural(files.length, "file")}, {bytes(total)}; {bytes(uploaded.size)} packed
            {uploaded.ignored === 0 ? null : `; ${uploaded.ignored} left out by the ignore rules`}
            {uploaded.note === "" ? null : <span className={classes.note}>{uploaded.note}</span>}
          </p>
          {uploaded.top === null ? null : (
            <div className={classes.warning} role="status">
              <IconAlertTriangle size={16} aria-hidden="true" />
              <span>
                Everything lies in <span className="mono">{uploaded.top}/</span>. The job starts beside that
                folder, not in it.
              </span>
              <Button size="compact-sm" variant="default" onClick={onUseTopFolder}>
                Use the contents of {uploaded.top}/
              </Button>
            </div>
          )}
        </>
      )}
    </div>
  );
}
