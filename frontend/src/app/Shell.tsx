import {
  IconArrowsShuffle,
  IconAdjustmentsHorizontal,
  IconChartHistogram,
  IconCirclePlus,
  IconDots,
  IconGridDots,
  IconHelp,
  IconHierarchy,
  IconLayoutDashboard,
  IconListDetails,
  IconScale,
  IconShieldCog,
  IconTargetArrow,
} from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useRouter } from "@tanstack/react-router";
import { useEffect, useRef } from "react";

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
  { to: "/vcs", label: "Virtual clusters", icon: IconHierarchy },
  { to: "/insights", label: "Insights", icon: IconChartHistogram },
  { to: "/predictions", label: "Predictions", icon: IconTargetArrow },
  { to: "/settings", label: "Settings", icon: IconAdjustmentsHorizontal },
] as const;
/** The bar at the bottom of a narrow screen has room for these; the others are behind its last button. */
const IN_THE_BAR: readonly string[] = ["/", "/jobs", "/submit", "/cluster"];

function PageLinks({
  pages,
  className,
}: {
  pages: readonly (typeof PAGES)[number][];
  className: string | undefined;
}) {
  return pages.map(({ to, label, icon: Icon }) => (
    <Link
      key={to}
      to={to}
      className={className}
      activeOptions={{ exact: to === "/", includeSearch: false }}
      activeProps={{ "data-current": true }}
    >
      <Icon size={18} stroke={1.7} aria-hidden="true" />
      {label}
    </Link>
  ));
}

/** What only operators have, and the help. */
function OtherLinks() {
  const me = useMe();
  return (
    <>
      {me.is_operator ? (
        <>
          <Link to="/fairness" className={classes.link} activeProps={{ "data-current": true }}>
            <IconScale size={18} stroke={1.7} aria-hidden="true" />
            Fairness
          </Link>
          <a href="/admin/" className={classes.link}>
            <IconShieldCog size={18} stroke={1.7} aria-hidden="true" />
            Admin
          </a>
        </>
      ) : null}
      <a href="/docs" className={classes.link}>
        <IconHelp size={18} stroke={1.7} aria-hidden="true" />
        Help
      </a>
    </>
  );
}

/** The navigation of a narrow screen: a bar at the bottom, and a sheet above it with all that the bar leaves out. */
function Tabs() {
  const sheet = useRef<HTMLDivElement>(null);
  return (
    <nav className={classes.tabs} aria-label="Main">
      <PageLinks pages={PAGES.filter(({ to }) => IN_THE_BAR.includes(to))} className={classes.tab} />
      <button type="button" className={classes.tab} popoverTarget="more-pages">
        <IconDots size={18} stroke={1.7} aria-hidden="true" />
        More
      </button>
      <div
        ref={sheet}
        id="more-pages"
        popover="auto"
        className={classes.more}
        onClick={() => sheet.current?.hidePopover()}
      >
        <PageLinks pages={PAGES.filter(({ to }) => !IN_THE_BAR.includes(to))} className={classes.link} />
        <OtherLinks />
      </div>
    </nav>
  );
}

/** Says to a user who has just been added why there is nothing to do yet. */
function NoTenant() {
  const me = useMe();
  if (me.is_operator || me.tenants.length > 0) return null;
  return (
    <p className={classes.notice} role="status">
      <strong>You belong to no tenant yet,</strong> so you can submit no jobs. Ask an operator of this cluster
      to add you to one, with your user name: {me.username}.
    </p>
  );
}

/** The frame around every page: navigation, who is signed in, and whether what is shown is live. */
export function Shell() {
  const client = useQueryClient();
  const router = useRouter();

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
        <nav className={classes.nav} aria-label="Main">
          <PageLinks pages={PAGES} className={classes.link} />
        </nav>
        <div className={classes.foot}>
          <OtherLinks />
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
        <NoTenant />
        <Outlet />
      </main>
      <Tabs />
    </div>
  );
}
