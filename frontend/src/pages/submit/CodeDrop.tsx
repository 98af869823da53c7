import { ActionIcon, Progress } from "@mantine/core";
import { IconFileZip, IconUpload, IconX } from "@tabler/icons-react";
import { useRef, useState, type DragEvent } from "react";

import { isUploaded, upload } from "../../api/client";
import { csrfToken } from "../../api/http";
import { messageOf } from "../../api/problem";
import { bytes } from "../../format/amount";
import classes from "./CodeDrop.module.css";
import { sha256 } from "./sha256";

const MOST_BYTES = 100 * 1024 * 1024;

interface Archive {
  name: string;
  size: number;
  sha256: string;
}

interface Props {
  /** The digest that the spec names now. */
  digest: string;
  disabled: boolean;
  error: string | undefined;
  onChange: (digest: string | undefined) => void;
}

function isGzip(data: Uint8Array): boolean {
  return data[0] === 0x1f && data[1] === 0x8b;
}

/** Takes a code archive: the same archive is sent only once, whoever sent it. */
export function CodeDrop({ digest, disabled, error, onChange }: Props) {
  const input = useRef<HTMLInputElement>(null);
  const [over, setOver] = useState(false);
  const [share, setShare] = useState<number | null>(null);
  const [refusal, setRefusal] = useState("");
  const [archive, setArchive] = useState<Archive | null>(null);

  const take = async (file: File) => {
    setRefusal("");
    if (file.size > MOST_BYTES) {
      setRefusal(`${file.name} has ${bytes(file.size)}; at most ${bytes(MOST_BYTES)} can be sent.`);
      return;
    }
    setShare(0);
    try {
      const data = new Uint8Array(await file.arrayBuffer());
      if (!isGzip(data)) {
        setRefusal(`${file.name} is not a gzip archive. Make one with: tar czf code.tar.gz FOLDER`);
        return;
      }
      const digestOfFile = await sha256(data);
      if (!(await isUploaded(digestOfFile))) await upload(file, digestOfFile, csrfToken(), setShare);
      setArchive({ name: file.name, size: file.size, sha256: digestOfFile });
      onChange(digestOfFile);
    } catch (reason) {
      setRefusal(messageOf(reason));
    } finally {
      setShare(null);
    }
  };

  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    const [file] = event.dataTransfer.files;
    if (file !== undefined && !disabled) void take(file);
  };

  const shown = refusal === "" ? error : refusal;
  return (
    <div>
      <span className={classes.label} id="code-label">
        Code archive
      </span>
      {digest !== "" ? (
        <div className={classes.taken}>
          <IconFileZip size={20} stroke={1.6} aria-hidden="true" />
          <span className="truncate">
            {archive?.sha256 === digest ? `${archive.name}, ${bytes(archive.size)}` : "Uploaded archive"}
            <span className={`${classes.digest} mono`}>{digest.slice(0, 12)}</span>
          </span>
          <ActionIcon aria-label="Remove the code archive" size={28} onClick={() => onChange(undefined)}>
            <IconX size={16} />
          </ActionIcon>
        </div>
      ) : (
        <button
          type="button"
          className={classes.drop}
          data-over={over || undefined}
          disabled={disabled || share !== null}
          aria-labelledby="code-label code-hint"
          onClick={() => input.current?.click()}
          onDragOver={(event) => {
            event.preventDefault();
            setOver(true);
          }}
          onDragLeave={() => setOver(false)}
          onDrop={onDrop}
        >
          <IconUpload size={18} stroke={1.7} aria-hidden="true" />
          <span id="code-hint">
            {share === null ? (
              <>
                Drop a <span className="mono">.tar.gz</span> here or choose one
              </>
            ) : (
              `Uploading, ${Math.round(share * 100)}%`
            )}
          </span>
          {share === null ? null : (
            <Progress value={share * 100} size={3} className={classes.progress} aria-label="Upload" />
          )}
        </button>
      )}
      <input
        ref={input}
        type="file"
        accept=".gz,.tgz,application/gzip"
        hidden
        aria-label="Code archive file"
        onChange={(event) => {
          const [file] = event.currentTarget.files ?? [];
          if (file !== undefined) void take(file);
          event.currentTarget.value = "";
        }}
      />
      {shown === undefined ? null : (
        <p className={classes.refusal} role="alert">
          {shown}
        </p>
      )}
    </div>
  );
}
