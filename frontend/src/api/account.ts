/** Calls of the settings: password, sessions, tokens, webhooks, notifications, and programs for download. */
import { send } from "./http";
import { problemFrom } from "./problem";
import { http, read } from "./rest";
import type { NotificationChanges, TokenRequest } from "./types";

/** A program that the platform offers for download, below `/downloads/`. */
export interface Download {
  name: string;
  sha256: string;
}

/** The programs for download, as SHA256SUMS lists them: on each line a digest, two spaces and a file name. */
export async function listDownloads(): Promise<Download[]> {
  const response = await send(new Request(new URL("/downloads/SHA256SUMS", window.location.origin)));
  if (!response.ok) throw problemFrom(response.status, response.statusText, undefined);
  const lines = (await response.text()).trim().split("\n");
  return lines.map((line) => ({ sha256: line.slice(0, 64), name: line.slice(66) }));
}

export const changeEmail = (email: string, current: string) =>
  read(http.PATCH("/api/v1/me", { body: { email, current } }));

export const changePassword = (current: string, wanted: string) =>
  read(http.POST("/api/v1/password", { body: { current, new: wanted } }));

export const listTokens = () => read(http.GET("/api/v1/tokens"));

export const createToken = (token: TokenRequest) => read(http.POST("/api/v1/tokens", { body: token }));

export function setTokenSurvival(id: number, survives: boolean) {
  const params = { path: { token_id: String(id) } };
  return read(
    http.PATCH("/api/v1/tokens/{token_id}", { params, body: { survives_password_change: survives } }),
  );
}

export const revokeToken = (id: number) =>
  read(http.DELETE("/api/v1/tokens/{token_id}", { params: { path: { token_id: String(id) } } }));

export const listSessions = () => read(http.GET("/api/v1/sessions"));

export const endSession = (id: number) =>
  read(http.DELETE("/api/v1/sessions/{session_id}", { params: { path: { session_id: String(id) } } }));

/** Ends all sessions but that of this browser. */
export const endOtherSessions = () => read(http.DELETE("/api/v1/sessions"));

export const listWebhooks = () => read(http.GET("/api/v1/webhooks"));

export const createWebhook = (url: string) => read(http.POST("/api/v1/webhooks", { body: { url } }));

const webhook = (id: number) => ({ params: { path: { webhook_id: String(id) } } });

/** Has a ping sent, which arrives a moment later. */
export const testWebhook = (id: number) => read(http.POST("/api/v1/webhooks/{webhook_id}:test", webhook(id)));

export const removeWebhook = (id: number) => read(http.DELETE("/api/v1/webhooks/{webhook_id}", webhook(id)));

export const getNotifications = () => read(http.GET("/api/v1/me/notifications"));

export const changeNotifications = (changes: NotificationChanges) =>
  read(http.PATCH("/api/v1/me/notifications", { body: changes }));
