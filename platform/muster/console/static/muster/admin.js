/* The admin follows the theme that was chosen in the pages, and shows times on the reader's clock. */
"use strict";

(() => {
  const PAGES_THEME = "mantine-color-scheme-value";
  const ADMIN_THEME = "adminTheme";
  const root = document.documentElement;
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");

  function theme() {
    return JSON.parse(localStorage.getItem(ADMIN_THEME) ?? '"auto"');
  }

  function applyTheme() {
    localStorage.setItem(PAGES_THEME, theme());
    const dark = theme() === "dark" || (theme() === "auto" && prefersDark.matches);
    root.dataset.mantineColorScheme = dark ? "dark" : "light";
    if (root.classList.contains("dark") !== dark) root.classList.toggle("dark", dark);
  }

  localStorage.setItem(ADMIN_THEME, JSON.stringify(localStorage.getItem(PAGES_THEME) ?? "auto"));
  applyTheme();
  new MutationObserver(applyTheme).observe(root, { attributeFilter: ["class"] });
  prefersDark.addEventListener("change", applyTheme);

  const UTC_TIME = /(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC/g;
  const clock = new Intl.DateTimeFormat(undefined, {
    year: "numeric",
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hourCycle: "h23",
    timeZoneName: "short",
  });

  function localise(text) {
    const parts = [];
    let end = 0;
    for (const match of text.data.matchAll(UTC_TIME)) {
      const element = document.createElement("time");
      element.dateTime = `${match[1]}T${match[2]}Z`;
      element.title = match[0];
      element.textContent = clock.format(new Date(element.dateTime));
      parts.push(text.data.slice(end, match.index), element);
      end = match.index + match[0].length;
    }
    if (end > 0) text.replaceWith(...parts, text.data.slice(end));
  }

  /* The rows of a table have no labels of their own: the heading of the column names their fields. */
  function nameFields() {
    for (const field of document.querySelectorAll("td[data-label] :is(input, select, textarea)")) {
      const label = field.closest("td").dataset.label;
      const row = /-(\d+)-/.exec(field.name ?? "");
      const name = label && row ? `${label} of row ${Number(row[1]) + 1}` : label;
      if (name && !field.labels?.length) field.setAttribute("aria-label", name);
      // A search field of the skin refers to an empty element for its name.
      for (const part of field.nextElementSibling?.querySelectorAll("[role=combobox], [role=textbox]") ?? []) {
        part.removeAttribute("aria-labelledby");
        part.setAttribute("aria-label", name);
      }
    }
  }

  window.addEventListener("load", () => setTimeout(nameFields));
  document.addEventListener("formset:added", () => setTimeout(nameFields));

  document.addEventListener("DOMContentLoaded", () => {
    const content = document.querySelector("#content");
    if (!content) return;
    const walker = document.createTreeWalker(content, NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walker.nextNode())
      if (!walker.currentNode.parentElement.closest("script, style, textarea, pre")) texts.push(walker.currentNode);
    texts.forEach(localise);
  });
})();
