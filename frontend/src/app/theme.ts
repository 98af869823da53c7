import {
  ActionIcon,
  Button,
  createTheme,
  Drawer,
  Menu,
  Modal,
  NumberInput,
  PasswordInput,
  SegmentedControl,
  Select,
  Textarea,
  TextInput,
  Tooltip,
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
  components: {
    Button: Button.extend({
      defaultProps: { size: "sm" },
      vars: (_, props) => {
        const size = props.size ?? "sm";
        const heights: Record<string, string> = { xs: "28px", sm: "34px", md: "40px" };
        const filled = props.variant === undefined || props.variant === "filled";
        const plain = filled && props.color === undefined;
        const isDefault = props.variant === "default";
        return {
          root: {
            "--button-height": heights[String(size)],
            "--button-padding-x": size === "xs" ? "10px" : "14px",
            "--button-fz": size === "xs" ? "12.5px" : size === "md" ? "14.5px" : "13.5px",
            ...(plain
              ? {
                  "--button-bg": "var(--ink)",
                  "--button-hover": "var(--ink-hover)",
                  "--button-color": "var(--on-ink)",
                }
              : {}),
            ...(props.color === "danger"
              ? {
                  "--button-bg": "var(--danger)",
                  "--button-hover": "var(--danger-hover)",
                  "--button-color": "#fff",
                }
              : {}),
            ...(isDefault
              ? {
                  "--button-bg": "var(--surface)",
                  "--button-hover": "var(--hover)",
                  "--button-color": "var(--text)",
                  "--button-bd": "1px solid var(--line-strong)",
                }
              : {}),
          },
        };
      },
    }),
    ActionIcon: ActionIcon.extend({ defaultProps: { variant: "subtle", color: "gray" } }),
    TextInput: TextInput.extend({ defaultProps: { size: "sm" } }),
    PasswordInput: PasswordInput.extend({ defaultProps: { size: "sm" } }),
    NumberInput: NumberInput.extend({ defaultProps: { size: "sm" } }),
    Textarea: Textarea.extend({ defaultProps: { size: "sm" } }),
    Select: Select.extend({
      defaultProps: { size: "sm", allowDeselect: false, checkIconPosition: "right" },
    }),
    SegmentedControl: SegmentedControl.extend({ defaultProps: { withItemsBorders: false } }),
    Tooltip: Tooltip.extend({ defaultProps: { openDelay: 250, withArrow: false } }),
    Menu: Menu.extend({ defaultProps: { shadow: "md", position: "bottom-end" } }),
    Modal: Modal.extend({
      defaultProps: { centered: true, radius: "12px", overlayProps: { backgroundOpacity: 0.45, blur: 2 } },
    }),
    Drawer: Drawer.extend({
      defaultProps: { position: "right", overlayProps: { backgroundOpacity: 0.35 } },
    }),
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
