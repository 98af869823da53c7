import { Menu, UnstyledButton, useMantineColorScheme, type MantineColorScheme } from "@mantine/core";
import {
  IconCheck,
  IconDeviceDesktop,
  IconLogout,
  IconMoon,
  IconSelector,
  IconSettings,
  IconShieldCog,
  IconSun,
} from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";

import { useMe } from "./me";
import { useSignOut } from "./signOut";
import classes from "./UserMenu.module.css";

const SCHEMES: { value: MantineColorScheme; label: string; icon: typeof IconSun }[] = [
  { value: "auto", label: "System theme", icon: IconDeviceDesktop },
  { value: "light", label: "Light theme", icon: IconSun },
  { value: "dark", label: "Dark theme", icon: IconMoon },
];

export function UserMenu({ wide = false }: { wide?: boolean }) {
  const me = useMe();
  const leave = useSignOut();
  const { colorScheme, setColorScheme } = useMantineColorScheme();

  return (
    <Menu position={wide ? "top-start" : "bottom-end"} width={204}>
      <Menu.Target>
        <UnstyledButton className={wide ? classes.wide : classes.small}>
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
      </Menu.Target>
      <Menu.Dropdown>
        {SCHEMES.map(({ value, label, icon: Icon }) => (
          <Menu.Item
            key={value}
            leftSection={<Icon size={16} stroke={1.7} />}
            rightSection={colorScheme === value ? <IconCheck size={15} /> : null}
            onClick={() => setColorScheme(value)}
          >
            {label}
          </Menu.Item>
        ))}
        <Menu.Divider />
        <Menu.Item
          leftSection={<IconSettings size={16} stroke={1.7} />}
          renderRoot={(props) => <Link to="/settings" {...props} />}
        >
          Settings
        </Menu.Item>
        {me.is_operator ? (
          <Menu.Item component="a" href="/admin/" leftSection={<IconShieldCog size={16} stroke={1.7} />}>
            Admin
          </Menu.Item>
        ) : null}
        <Menu.Item leftSection={<IconLogout size={16} stroke={1.7} />} onClick={() => void leave()}>
          Sign out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
