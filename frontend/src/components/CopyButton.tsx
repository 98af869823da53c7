import { ActionIcon, Button, Tooltip } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";
import { useState } from "react";

/** Puts text on the clipboard; the old way where the page is not served over HTTPS and has no clipboard interface. */
export async function copyText(text: string): Promise<boolean> {
  if (window.isSecureContext) {
    await navigator.clipboard.writeText(text);
    return true;
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.style.position = "fixed";
  area.style.opacity = "0";
  document.body.append(area);
  area.select();
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- the only way left without HTTPS
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

interface Props {
  text: string;
  label: string;
  /** With words beside the icon. */
  wide?: boolean;
}

export function CopyButton({ text, label, wide = false }: Props) {
  const [copied, setCopied] = useState(false);
  const copy = () => {
    void copyText(text).then((done) => {
      setCopied(done);
      window.setTimeout(() => setCopied(false), 1600);
    });
  };
  const icon = copied ? <IconCheck size={15} /> : <IconCopy size={15} />;
  if (wide) {
    return (
      <Button variant="default" leftSection={icon} onClick={copy}>
        {copied ? "Copied" : label}
      </Button>
    );
  }
  return (
    <Tooltip label={copied ? "Copied" : label}>
      <ActionIcon aria-label={label} onClick={copy} size={28}>
        {icon}
      </ActionIcon>
    </Tooltip>
  );
}
