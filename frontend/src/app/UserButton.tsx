import { UnstyledButton } from "@mantine/core";
import { IconSelector } from "@tabler/icons-react";
import type { ComponentProps } from "react";

import { useMe } from "./me";
import classes from "./UserMenu.module.css";

interface Props extends ComponentProps<"button"> {
  wide: boolean;
}

/** What opens the menu of the account. */
export function UserButton({ wide, ...props }: Props) {
  const me = useMe();
  return (
    <UnstyledButton aria-haspopup="menu" {...props} className={wide ? classes.wide : classes.small}>
      <span className="sr-only">Account of {wide ? null : me.username}</span>
      <span className={classes.face} aria-hidden="true">
        {me.username.slice(0, 1).toUpperCase()}
      </span>
      {wide ? (
        <>
          <span className={classes.who}>
            <span className="truncate">{me.username}</span>
            <span className={`${classes.tenants} truncate`}>
              {me.tenants.map((tenant) => tenant.name).join(", ") || "no tenant"}
            </span>
          </span>
          <IconSelector size={15} color="var(--text-3)" aria-hidden="true" />
        </>
      ) : null}
    </UnstyledButton>
  );
}
