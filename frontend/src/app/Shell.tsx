import {
  IconArrowsShuffle,
  IconAdjustmentsHorizontal,
  IconChartHistogram,
  IconCirclePlus,
  IconGridDots,
  IconHierarchy,
  IconLayoutDashboard,
  IconListDetails,
  IconScale,
  IconShieldCog,
} from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useRouter } from "@tanstack/react-router";
import { useEffect } from "react";

import { followChanges } from "../api/live";
import { Wordmark } from "../components/Logo";
import { AwayBanner, LiveDot } from "./Connection";
import { useMe } from "./me";
import classes from "./Shell.module.css";
import { goToSignIn } from "./signedOut";
import { UserMenu } from "./UserMenu";

const PAGES = [
  { to: "/", label: "Overview", icon: IconLayoutDashboard },
  { to: "/jobs", label: "Jobs", icon: IconListDetails },
  { to: "/sweeps", label: "Sweeps", icon: IconArrowsShuffle },
  { to: "/submit", label: "Submit", icon: IconCirclePlus },
  { to: "/cluster", label: "Cluster", icon: IconGridDots },
  { to: "/vcs", label: "Virtual clusters", short: "VCs", icon: IconHierarchy },
  { to: "/insights", label: "Insights", icon: IconChartHistogram },
  { to: "/settings", label: "Settings", icon: IconAdjustmentsHorizontal },
] as const;

function Navigation({
  className,
  linkClass,
  short = false,
}: {
  className: string | undefined;
  linkClass: string | undefined;
  /** Where there is room for a short word only. */
  short?: boolean;
}) {
  return (
    <nav className={className} aria-label="Main">
      {PAGES.map(({ to, label, icon: Icon, ...words }) => (
        <Link
          key={to}
          to={to}
          className={linkClass}
          activeOptions={{ exact: to === "/", includeSearch: false }}
          activeProps={{ "data-current": true }}
        >
          <Icon size={18} stroke={1.7} aria-hidden="true" />
          {short && "short" in words ? (
            <span>
              {words.short}
              <span className="sr-only">, {label}</span>
            </span>
          ) : (
            label
          )}
        </Link>
      ))}
    </nav>
  );
}

/** The frame around every page: navigation, who is signed in, and whether what is shown is live. */
export function Shell() {
  const client = useQueryClient();
  const router = useRouter();
  const me = useMe();

  useEffect(() => followChanges(client, () => goToSignIn(router, client)), [client, router]);

  return (
    <div className={classes.shell}>
      <a href="#content" className={classes.skip}>
        Skip to the content
      </a>
      <aside className={classes.side}>
        <Link to="/" className={classes.brand} aria-label="Muster, overview">
          <Wordmark />
        </Link>
        <Navigation className={classes.nav} linkClass={classes.link} />
        <div className={classes.foot}>
          {me.is_operator ? (
            <Link to="/fairness" className={classes.link} activeProps={{ "data-current": true }}>
              <IconScale size={18} stroke={1.7} aria-hidden="true" />
              Fairness
            </Link>
          ) : null}
          {me.is_operator ? (
            <a href="/admin/" className={classes.link}>
              <IconShieldCog size={18} stroke={1.7} aria-hidden="true" />
              Admin
            </a>
          ) : null}
          <div className={classes.live}>
            <LiveDot />
          </div>
          <UserMenu wide />
        </div>
      </aside>
      <header className={classes.top}>
        <Link to="/" aria-label="Muster, overview">
          <Wordmark />
        </Link>
        <div className={classes.topRight}>
          <LiveDot short />
          <UserMenu />
        </div>
      </header>
      <main id="content" className={classes.main} tabIndex={-1}>
        <AwayBanner />
        <Outlet />
      </main>
      <Navigation className={classes.tabs} linkClass={classes.tab} short />
    </div>
  );
}
