/** What the settings read. */
import { queryOptions } from "@tanstack/react-query";

import * as api from "./account";

export const notificationsQuery = queryOptions({
  queryKey: ["notifications"],
  queryFn: api.getNotifications,
});

export const webhooksQuery = queryOptions({ queryKey: ["webhooks"], queryFn: () => api.listWebhooks() });

export const tokensQuery = queryOptions({ queryKey: ["tokens"], queryFn: () => api.listTokens() });

export const sessionsQuery = queryOptions({ queryKey: ["sessions"], queryFn: () => api.listSessions() });
