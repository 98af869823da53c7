import { QueryCache, type QueryClient } from "@tanstack/react-query";
import type { AnyRouter } from "@tanstack/react-router";

import { isSignedOut } from "../api/queries";
import { safeNext } from "./search";

/** A cache that calls `onSignedOut` when a query that a page shows is refused because the session has ended. */
export function makeCache(onSignedOut: () => void): QueryCache {
  return new QueryCache({
    onError: (error, query) => {
      // The router's guard queries without an observer, and redirects by itself. Of two navigations at once each may
      // take the other for the newer one, and neither arrives.
      if (isSignedOut(error) && query.getObserversCount() > 0) onSignedOut();
    },
  });
}

/** Shows the sign-in page, which leads back to the present page. */
export function goToSignIn(router: AnyRouter, client: QueryClient): void {
  if (router.state.location.pathname === "/signin") return;
  const next = safeNext(router.state.location.href);
  client.clear();
  void router.navigate({ to: "/signin", search: next === "/" ? {} : { next } });
}
