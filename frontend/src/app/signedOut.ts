import { QueryCache } from "@tanstack/react-query";

import { isSignedOut } from "../api/queries";

/** A cache that tells when something that a page shows is refused because the session has ended. */
export function makeCache(onSignedOut: () => void): QueryCache {
  return new QueryCache({
    onError: (error, query) => {
      // The router's guard asks for nobody who observes, and redirects by itself: of two navigations at once each may
      // take the other for the newer one, and neither arrives.
      if (isSignedOut(error) && query.getObserversCount() > 0) onSignedOut();
    },
  });
}
