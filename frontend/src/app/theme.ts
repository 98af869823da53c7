import {
  createTheme,
  type ButtonProps,
  type CSSVariablesResolver,
  type MantineColorsTuple,
} from "@mantine/core";

const cobalt: MantineColorsTuple = [
  "#ebefff",
  "#d3dcff",
  "#a9b9fb",
  "#7d95f6",
  "#5875f0",
  "#3f61ea",
  "#2a52e0",
  "#2447c6",
  "#1d3aa3",
  "#162c7c",
];

const BUTTON_SIZES: Record<string, Record<string, string>> = {
  xs: { "--button-height": "28px", "--button-padding-x": "10px", "--button-fz": "12.5px" },
  sm: { "--button-height": "34px", "--button-padding-x": "14px", "--button-fz": "13.5px" },
  md: { "--button-height": "40px", "--button-padding-x": "16px", "--button-fz": "14.5px" },
};

const BUTTON_KINDS: Record<string, Record<string, string>> = {
  ink: {
    "--button-bg": "var(--ink)",
    "--button-hover": "var(--ink-hover)",
    "--button-color": "var(--on-ink)",
  },
  danger: {
    "--button-bg": "var(--danger)",
    "--button-hover": "var(--danger-hover)",
    "--button-color": "#fff",
  },
  default: {
    "--button-bg": "var(--surface)",
    "--button-hover": "var(--hover)",
    "--button-color": "var(--text)",
    "--button-bd": "1px solid var(--line-strong)",
  },
};

function buttonVars({ size = "sm", variant = "filled", color = "ink" }: ButtonProps): Record<string, string> {
  const kind = variant === "filled" ? color : variant;
  return { ...BUTTON_SIZES[size], ...BUTTON_KINDS[kind] };
}

/** The look of the component library; colours come from styles/tokens.css. */
export const theme = createTheme({
  fontFamily: "var(--font-sans)",
  fontFamilyMonospace: "var(--font-mono)",
  primaryColor: "cobalt",
  primaryShade: { light: 6, dark: 4 },
  colors: { cobalt },
  defaultRadius: "7px",
  cursorType: "pointer",
  respectReducedMotion: true,
  // Plain objects, not `Button.extend(…)`: naming a component here would load it before any page asks for it.
  components: {
    Button: {
      defaultProps: { size: "sm" },
      vars: (_: unknown, props: ButtonProps) => ({ root: buttonVars(props) }),
    },
    ActionIcon: { defaultProps: { variant: "subtle", color: "gray" } },
    TextInput: { defaultProps: { size: "sm" } },
    PasswordInput: { defaultProps: { size: "sm" } },
    NumberInput: { defaultProps: { size: "sm" } },
    Textarea: { defaultProps: { size: "sm" } },
    Select: {
      defaultProps: { size: "sm", allowDeselect: false, checkIconPosition: "right" },
    },
    SegmentedControl: { defaultProps: { withItemsBorders: false } },
    Tooltip: { defaultProps: { openDelay: 250, withArrow: false } },
    Menu: { defaultProps: { shadow: "md", position: "bottom-end" } },
    Modal: {
      defaultProps: { centered: true, radius: "12px", overlayProps: { backgroundOpacity: 0.45, blur: 2 } },
    },
    Drawer: {
      defaultProps: { position: "right", overlayProps: { backgroundOpacity: 0.35 } },
    },
  },
});

/** Mantine's own variables, pointed at our tokens, so both follow one colour scheme switch. */
export const cssVariables: CSSVariablesResolver = () => {
  const shared = {
    "--mantine-color-body": "var(--bg)",
    "--mantine-color-text": "var(--text)",
    "--mantine-color-dimmed": "var(--text-2)",
    "--mantine-color-default": "var(--surface)",
    "--mantine-color-default-hover": "var(--hover)",
    "--mantine-color-default-color": "var(--text)",
    "--mantine-color-default-border": "var(--line-strong)",
    "--mantine-color-error": "var(--failed-text)",
    "--mantine-color-placeholder": "var(--text-3)",
    "--mantine-color-anchor": "var(--accent-text)",
    "--input-height-sm": "34px",
  };
  return { variables: {}, light: shared, dark: shared };
};
