import { Button } from "@mantine/core";
import { IconCompass } from "@tabler/icons-react";
import { Link, useRouter, type ErrorComponentProps } from "@tanstack/react-router";
import { useEffect } from "react";

import { Unreachable } from "../api/problem";
import { Wordmark } from "../components/Logo";
import { Empty, Failed } from "../components/Notice";

const centre = { minHeight: "100dvh", display: "grid", placeItems: "center", padding: 24 } as const;

export function NotFound() {
  return (
    <main style={centre}>
      <Empty
        icon={<IconCompass size={20} />}
        title="There is nothing here"
        alone
        action={
          <Button renderRoot={(props) => <Link to="/" {...props} />} variant="default">
            To the overview
          </Button>
        }
      >
        The address may be wrong, or what was here is not yours to see.
      </Empty>
    </main>
  );
}

/** Shown when not even "who am I" was answered: tries again by itself until it is. */
export function CannotStart({ error }: ErrorComponentProps) {
  const router = useRouter();
  const retry = () => void router.invalidate();
  useEffect(() => {
    if (!(error instanceof Unreachable)) return undefined;
    const timer = window.setInterval(() => void router.invalidate(), 4000);
    return () => window.clearInterval(timer);
  }, [error, router]);
  return (
    <main style={centre}>
      <div>
        <div style={{ display: "flex", justifyContent: "center" }}>
          <Wordmark />
        </div>
        <Failed error={error} onRetry={retry} />
      </div>
    </main>
  );
}

/** Shown where a page failed, or its code did not come; React keeps such a failure until all is loaded anew. */
export function PageBroken({ error }: ErrorComponentProps) {
  return (
    <div style={{ padding: 32 }}>
      <Failed error={error} onRetry={() => window.location.reload()} />
    </div>
  );
}
