import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";

import { signOut } from "../api/client";
import { messageOf } from "../api/problem";
import { toast } from "../components/toast";

/** Ends the session of this browser and shows the sign-in page. */
export function useSignOut(): () => Promise<void> {
  const client = useQueryClient();
  const navigate = useNavigate();
  return async () => {
    try {
      await signOut();
    } catch (error) {
      toast("failed", messageOf(error));
      return;
    }
    client.clear();
    await navigate({ to: "/signin" });
  };
}
