import { type QueryClient, QueryObserver } from "@tanstack/react-query";
import { createMemoryHistory, createRootRoute, createRoute, createRouter } from "@tanstack/react-router";
import { beforeEach, expect, test, vi } from "vitest";

import { Problem } from "../api/problem";
import { makeQueryClient } from "../api/queries";
import { goToSignIn, makeCache } from "./signedOut";

const onSignedOut = vi.fn();
let client: QueryClient;

beforeEach(() => {
  onSignedOut.mockReset();
  client = makeQueryClient(makeCache(onSignedOut));
});

const refused = (status: number) => ({
  queryKey: ["something"],
  queryFn: () => Promise.reject(new Problem(status, "No", "", "", [])),
});

/** Shows the query on a page until it is refused. */
async function show(status: number) {
  const observer = new QueryObserver(client, refused(status));
  const leave = observer.subscribe(() => undefined);
  await vi.waitFor(() => {
    expect(observer.getCurrentResult().isError).toBe(true);
  });
  leave();
}

test("what a page shows and may no longer is told", async () => {
  await show(401);
  expect(onSignedOut).toHaveBeenCalledOnce();
});

test("another refusal is the page's own", async () => {
  await show(404);
  expect(onSignedOut).not.toHaveBeenCalled();
});

test("a query without an observer is left to the guard, which redirects by itself", async () => {
  await expect(client.query(refused(401))).rejects.toThrow(Problem);
  expect(onSignedOut).not.toHaveBeenCalled();
});

test.each([
  ["/jobs?mine=1", [[{ to: "/signin", search: { next: "/jobs?mine=1" } }]]],
  ["/", [[{ to: "/signin", search: {} }]]],
  ["/signin?next=%2Fjobs", []],
])("the sign-in page leads back from %s", async (from, navigations) => {
  const root = createRootRoute();
  const pages = ["/", "/jobs", "/signin"].map((path) => createRoute({ getParentRoute: () => root, path }));
  const history = createMemoryHistory({ initialEntries: [from] });
  const router = createRouter({ routeTree: root.addChildren(pages), history });
  await router.load();
  const navigate = vi.spyOn(router, "navigate").mockResolvedValue();
  goToSignIn(router, client);
  expect(navigate.mock.calls).toEqual(navigations);
});
