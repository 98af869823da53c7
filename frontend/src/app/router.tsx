import type { QueryClient } from "@tanstack/react-query";
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from "@tanstack/react-router";

import { loadPart } from "../api/parts";
import { Problem } from "../api/problem";
import { meQuery } from "../api/queries";
import { Toasts } from "../components/Toasts";
import { CannotStart, NotFound, PageBroken } from "./Fallbacks";
import { parseSearch, pick, safeNext, stringifySearch } from "./search";
import { Shell } from "./Shell";

interface Context {
  client: QueryClient;
}

const root = createRootRouteWithContext<Context>()({
  component: () => (
    <>
      <Outlet />
      <Toasts />
    </>
  ),
  notFoundComponent: NotFound,
});

const signIn = createRoute({
  getParentRoute: () => root,
  path: "/signin",
  validateSearch: (search) => pick(search, "next"),
  component: lazyRouteComponent(() => loadPart(() => import("../pages/signin/SignInPage")), "SignInPage"),
});

/** Everything that needs a session; who is not signed in is sent to sign in and comes back after. */
const app = createRoute({
  getParentRoute: () => root,
  id: "app",
  beforeLoad: async ({ context, location }) => {
    try {
      return { me: await context.client.query({ ...meQuery, staleTime: "static" }) };
    } catch (error) {
      if (error instanceof Problem && (error.status === 401 || error.status === 403)) {
        const next = safeNext(location.href);
        // eslint-disable-next-line @typescript-eslint/only-throw-error -- how this router redirects
        throw redirect({ to: "/signin", search: next === "/" ? {} : { next } });
      }
      throw error;
    }
  },
  component: Shell,
  errorComponent: CannotStart,
});

const overview = createRoute({
  getParentRoute: () => app,
  path: "/",
  validateSearch: (search) => pick(search, "whose"),
  component: lazyRouteComponent(
    () => loadPart(() => import("../pages/overview/OverviewPage")),
    "OverviewPage",
  ),
});

const jobs = createRoute({
  getParentRoute: () => app,
  path: "/jobs",
  validateSearch: (search) =>
    pick(search, "state", "vc", "tenant", "owner", "mine", "search", "tag", "group", "members"),
  component: lazyRouteComponent(() => loadPart(() => import("../pages/jobs/JobsPage")), "JobsPage"),
});

const job = createRoute({
  getParentRoute: () => app,
  path: "/jobs/$jobId",
  validateSearch: (search) => pick(search, "tab", "attempt", "rank"),
  component: lazyRouteComponent(() => loadPart(() => import("../pages/job/JobPage")), "JobPage"),
});

const sweeps = createRoute({
  getParentRoute: () => app,
  path: "/sweeps",
  validateSearch: (search) => pick(search, "state", "mine"),
  component: lazyRouteComponent(() => loadPart(() => import("../pages/sweeps/SweepsPage")), "SweepsPage"),
});

const sweep = createRoute({
  getParentRoute: () => app,
  path: "/sweeps/$sweepId",
  component: lazyRouteComponent(() => loadPart(() => import("../pages/sweep/SweepPage")), "SweepPage"),
});

const array = createRoute({
  getParentRoute: () => app,
  path: "/arrays/$arrayId",
  component: lazyRouteComponent(() => loadPart(() => import("../pages/array/ArrayPage")), "ArrayPage"),
});

const queue = createRoute({
  getParentRoute: () => app,
  path: "/vcs/$name/queue",
  validateSearch: (search) => pick(search, "mine"),
  component: lazyRouteComponent(() => loadPart(() => import("../pages/queue/QueuePage")), "QueuePage"),
});

const submit = createRoute({
  getParentRoute: () => app,
  path: "/submit",
  validateSearch: (search) => pick(search, "clone", "sweep", "array"),
  component: lazyRouteComponent(() => loadPart(() => import("../pages/submit/SubmitPage")), "SubmitPage"),
});

const cluster = createRoute({
  getParentRoute: () => app,
  path: "/cluster",
  validateSearch: (search) => pick(search, "color", "pool", "node"),
  component: lazyRouteComponent(() => loadPart(() => import("../pages/cluster/ClusterPage")), "ClusterPage"),
});

const vcs = createRoute({
  getParentRoute: () => app,
  path: "/vcs",
  component: lazyRouteComponent(() => loadPart(() => import("../pages/vcs/VcsPage")), "VcsPage"),
});

const vc = createRoute({
  getParentRoute: () => app,
  path: "/vcs/$name",
  component: lazyRouteComponent(() => loadPart(() => import("../pages/vcs/VcPage")), "VcPage"),
});

const tenant = createRoute({
  getParentRoute: () => app,
  path: "/tenants/$name",
  component: lazyRouteComponent(() => loadPart(() => import("../pages/tenant/TenantPage")), "TenantPage"),
});

const insights = createRoute({
  getParentRoute: () => app,
  path: "/insights",
  validateSearch: (search) => pick(search, "since", "tenant", "user"),
  component: lazyRouteComponent(
    () => loadPart(() => import("../pages/insights/InsightsPage")),
    "InsightsPage",
  ),
});

const fairness = createRoute({
  getParentRoute: () => app,
  path: "/fairness",
  validateSearch: (search) => pick(search, "pool", "policy"),
  component: lazyRouteComponent(
    () => loadPart(() => import("../pages/fairness/FairnessPage")),
    "FairnessPage",
  ),
});

const predictions = createRoute({
  getParentRoute: () => app,
  path: "/predictions",
  validateSearch: (search) => pick(search, "pool", "weeks"),
  component: lazyRouteComponent(
    () => loadPart(() => import("../pages/predictions/PredictionsPage")),
    "PredictionsPage",
  ),
});

const settings = createRoute({
  getParentRoute: () => app,
  path: "/settings",
  component: lazyRouteComponent(
    () => loadPart(() => import("../pages/settings/SettingsPage")),
    "SettingsPage",
  ),
});

const tree = root.addChildren([
  signIn,
  app.addChildren([
    overview,
    jobs,
    job,
    sweeps,
    sweep,
    array,
    queue,
    submit,
    cluster,
    vcs,
    vc,
    tenant,
    insights,
    fairness,
    predictions,
    settings,
  ]),
]);

export function makeRouter(client: QueryClient) {
  return createRouter({
    routeTree: tree,
    context: { client },
    parseSearch,
    stringifySearch,
    defaultPreload: "intent",
    defaultErrorComponent: PageBroken,
    scrollRestoration: true,
  });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof makeRouter>;
  }
}
