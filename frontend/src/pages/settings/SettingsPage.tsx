import { SegmentedControl, useMantineColorScheme, type MantineColorScheme } from "@mantine/core";

import { useMe } from "../../app/me";
import { Fact, Facts } from "../../components/Fact";
import { Page, PageHeader, SectionHead } from "../../components/Page";
import { Label } from "../../components/StateChip";
import { humanize } from "../../format/words";
import classes from "./SettingsPage.module.css";
import { CommandLine } from "./CommandLine";
import { Email } from "./Email";
import { Notifications } from "./Notifications";
import { Password } from "./Password";
import { Sessions } from "./Sessions";
import { Tokens } from "./Tokens";
import { Webhooks } from "./Webhooks";

const SCHEMES: MantineColorScheme[] = ["auto", "light", "dark"];

export function SettingsPage() {
  const me = useMe();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  return (
    <Page title="Settings">
      <PageHeader title="Settings" />
      <div className={classes.sections}>
        <section className={`card ${classes.card}`} aria-label="Account">
          <SectionHead title="Account" />
          <Facts>
            <Fact name="User name">{me.username}</Fact>
            <Fact name="E-mail">{me.email === "" ? "–" : me.email}</Fact>
            <Fact name="Default virtual cluster">{me.default_vc ?? "–"}</Fact>
            <Fact name="Tenants">
              <span className={classes.labels}>
                {me.tenants.length === 0 ? "none" : null}
                {me.tenants.map((tenant) => (
                  <Label key={tenant.name}>
                    {tenant.name} · {humanize(tenant.role).toLowerCase()}
                  </Label>
                ))}
                {me.is_operator ? <Label>operator</Label> : null}
              </span>
            </Fact>
          </Facts>
        </section>
        <section className={`card ${classes.card} ${classes.row}`} aria-label="Theme">
          <SectionHead title="Theme" />
          <SegmentedControl
            aria-label="Theme"
            data={SCHEMES.map((value) => ({ value, label: value === "auto" ? "System" : humanize(value) }))}
            value={colorScheme}
            onChange={(value) => setColorScheme(SCHEMES.find((each) => each === value) ?? "auto")}
          />
        </section>
        <Email />
        <Password />
        <Sessions />
        <Notifications />
        <Webhooks />
        <Tokens />
        <CommandLine />
      </div>
    </Page>
  );
}
