import { useSuspenseQuery } from "@tanstack/react-query";

import { meQuery } from "../api/queries";
import type { Me } from "../api/types";

/** The signed-in user; the route above every page redirects if there is none. */
export const useMe = (): Me => useSuspenseQuery(meQuery).data;
