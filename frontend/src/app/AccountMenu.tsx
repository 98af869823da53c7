import { Menu, useMantineColorScheme, type MantineColorScheme } from "@mantine/core";
import {
  IconCheck,
  IconDeviceDesktop,
  IconLogout,
  IconMoon,
  IconSettings,
  IconShieldCog,
  IconSun,
} from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";

import { useMe } from "./me";
import { useSignOut } from "./signOut";
import { UserButton } from "./UserButton";

const SCHEMES: { value: MantineColorScheme; label: string; icon: typeof IconSun }[] = [
  { value: "auto", label: "System theme", icon: IconDeviceDesktop },
  { value: "light", label: "Light theme", icon: IconSun },
  { value: "dark", label: "Dark theme", icon: IconMoon },
];

/** The menu of the account, which opens once it is loaded. */
export default function AccountMenu({ wide }: { wide: boolean }) {
  const me = useMe();
  const leave = useSignOut();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const button = useRef<HTMLButtonElement>(null);
  const [opened, setOpened] = useState(false);

  useEffect(() => {
    const frame = requestAnimationFrame(() => {
      button.current?.focus(); // it replaces the button that was pressed, and gets the focus back from the menu
      setOpened(true);
    });
    return () => cancelAnimationFrame(frame);
  }, []);

  return (
    <Menu opened={opened} onChange={setOpened} position={wide ? "top-start" : "bottom-end"} width={204}>
      <Menu.Target>
        <UserButton ref={button} wide={wide} />
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
