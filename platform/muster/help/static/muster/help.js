/* The theme that was chosen in the pages, set before anything is drawn. */
"use strict";

(() => {
  const chosen = localStorage.getItem("mantine-color-scheme-value") ?? "auto";
  const dark = chosen === "dark" || (chosen === "auto" && window.matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.mantineColorScheme = dark ? "dark" : "light";
})();
