import { useSuspenseQuery } from "@tanstack/react-query";

import { meQuery } from "../api/queries";
import type { Me } from "../api/types";

/** Who is signed in; the route above every page has made sure that somebody is. */
export const useMe = (): Me => useSuspenseQuery(meQuery).data;
