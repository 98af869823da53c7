import { Button, Group, Modal } from "@mantine/core";
import { useState } from "react";

import type { ConfirmProps } from "./Confirm";

export default function ConfirmDialog({ opened, title, children, yes, onYes, onClose }: ConfirmProps) {
  const [busy, setBusy] = useState(false);
  const act = async () => {
    setBusy(true);
    try {
      await onYes();
    } finally {
      setBusy(false);
      onClose();
    }
  };
  return (
    <Modal opened={opened} onClose={onClose} title={title} closeButtonProps={{ "aria-label": "Close" }}>
      <div style={{ fontSize: 14, color: "var(--text-2)" }}>{children}</div>
      <Group justify="flex-end" gap={8} mt={20}>
        <Button variant="default" onClick={onClose}>
          Keep
        </Button>
        <Button color="danger" loading={busy} onClick={() => void act()} data-autofocus>
          {yes}
        </Button>
      </Group>
    </Modal>
  );
}
