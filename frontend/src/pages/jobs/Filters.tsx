import { NativeSelect, TextInput } from "@mantine/core";
import { IconListTree, IconSearch, IconTag, IconUser, IconX } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";

import { vcsQuery } from "../../api/queries";
import classes from "./Filters.module.css";

const route = getRouteApi("/app/jobs");

const STATES = [
  { value: undefined, label: "All" },
  { value: "queued", label: "Queued" },
  { value: "active", label: "Running" },
  { value: "succeeded", label: "Succeeded" },
  { value: "failed", label: "Failed" },
  { value: "cancelled", label: "Cancelled" },
] as const;

/** Typing stops for this long before the search is asked for. */
const PAUSE_MS = 250;

/** The filters of the job list; each lives in the address, so a view can be sent to a colleague. */
export function Filters() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const vcs = useQuery(vcsQuery).data?.results ?? [];
  const vcValue = search.vc === undefined ? "" : `${search.tenant ?? ""}/${search.vc}`;
  const options = vcs.map((vc) => ({ value: `${vc.tenant}/${vc.name}`, label: `${vc.tenant} / ${vc.name}` }));
  if (vcValue !== "" && !options.some((option) => option.value === vcValue)) {
    options.push({ value: vcValue, label: search.vc ?? "" });
  }

  const chooseVc = (value: string) => {
    const [tenant, vc] = value === "" ? [undefined, undefined] : value.split("/");
    void navigate({ search: (old) => ({ ...old, tenant: tenant === "" ? undefined : tenant, vc }) });
  };

  return (
    <div className={classes.bar}>
      <nav className={classes.states} aria-label="State">
        {STATES.map(({ value, label }) => (
          <Link
            key={label}
            to="/jobs"
            search={(old) => ({ ...old, state: value })}
            className={classes.state}
            data-on={search.state === value || undefined}
            aria-current={search.state === value ? "true" : undefined}
            activeProps={{}}
          >
            {label}
          </Link>
        ))}
      </nav>
      <div className={classes.right}>
        {search.tag === undefined ? null : (
          <Link
            to="/jobs"
            search={(old) => ({ ...old, tag: undefined })}
            className={classes.toggle}
            data-on
            aria-label={`Remove the filter by tag ${search.tag}`}
          >
            <IconTag size={15} stroke={1.8} />
            <span className="truncate">{search.tag.replace(":", ": ")}</span>
            <IconX size={14} />
          </Link>
        )}
        {search.group === undefined ? (
          <Link
            to="/jobs"
            search={(old) => ({ ...old, members: search.members === "1" ? undefined : "1" })}
            className={classes.toggle}
            role="switch"
            aria-checked={search.members === "1"}
            data-on={search.members === "1" || undefined}
            aria-label="Each member of a group by itself"
            title="Each member of a group by itself"
          >
            <IconListTree size={15} stroke={1.8} />
            Members
          </Link>
        ) : (
          <Link
            to="/jobs"
            search={(old) => ({ ...old, group: undefined })}
            className={classes.toggle}
            data-on
            aria-label={`Remove the filter by group ${search.group}`}
          >
            <IconListTree size={15} stroke={1.8} />
            <span className="truncate">Group #{search.group}</span>
            <IconX size={14} />
          </Link>
        )}
        <Link
          to="/jobs"
          search={(old) => ({ ...old, mine: search.mine === "1" ? undefined : "1" })}
          className={classes.toggle}
          role="switch"
          aria-checked={search.mine === "1"}
          data-on={search.mine === "1" || undefined}
          aria-label="Only mine"
        >
          <IconUser size={15} stroke={1.8} />
          Mine
        </Link>
        <NativeSelect
          aria-label="Virtual cluster"
          className={classes.vc}
          data={[{ value: "", label: "All virtual clusters" }, ...options]}
          value={vcValue}
          onChange={(event) => chooseVc(event.currentTarget.value)}
        />
        <SearchBox />
      </div>
    </div>
  );
}

function SearchBox() {
  const { search } = route.useSearch();
  const navigate = route.useNavigate();
  const [text, setText] = useState(search ?? "");
  const [from, setFrom] = useState(search);
  const input = useRef<HTMLInputElement>(null);

  // Back and forward change the address under us: follow it.
  if (from !== search) {
    setFrom(search);
    if ((search ?? "") !== text.trim()) setText(search ?? "");
  }

  useEffect(() => {
    const wanted = text.trim() === "" ? undefined : text.trim();
    if (wanted === search) return undefined;
    const timer = window.setTimeout(() => {
      void navigate({ search: (old) => ({ ...old, search: wanted }), replace: true });
    }, PAUSE_MS);
    return () => window.clearTimeout(timer);
  }, [text, search, navigate]);

  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const typing =
        event.target instanceof HTMLElement && event.target.closest("input, textarea, [contenteditable]");
      if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        input.current?.focus();
      }
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);

  return (
    <TextInput
      ref={input}
      aria-label="Search jobs"
      placeholder="Search name or #7"
      className={classes.search}
      leftSection={<IconSearch size={15} />}
      rightSection={
        text === "" ? (
          <kbd className={classes.key} aria-hidden="true">
            /
          </kbd>
        ) : (
          <button
            type="button"
            className={classes.clear}
            aria-label="Clear the search"
            onClick={() => setText("")}
          >
            <IconX size={14} />
          </button>
        )
      }
      value={text}
      onChange={(event) => setText(event.currentTarget.value)}
    />
  );
}
