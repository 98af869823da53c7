/** A word that ends a here-document and is not a line of the text itself. */
function delimiter(text: string): string {
  let word = "EOF";
  while (text.split("\n").includes(word)) word += "_";
  return word;
}

/** The command that opens a shell in a job, in this rank of it. */
export const shellCommand = (jobId: number, rank?: number): string =>
  `muster shell ${jobId}${rank === undefined ? "" : ` --rank ${rank}`}`;

/** The command that submits the same spec. */
export function cliCommand(yaml: string): string {
  const end = delimiter(yaml);
  return `muster submit - <<'${end}'\n${yaml.trimEnd()}\n${end}\n`;
}

/** The request that submits the same spec; the token comes from the environment. */
export function curlCommand(
  yaml: string,
  origin: string,
  what: "jobs" | "sweeps" | "arrays" = "jobs",
): string {
  const end = delimiter(yaml);
  return [
    `curl --fail-with-body ${origin}/api/v1/${what} \\`,
    `  -H "Authorization: Bearer $MUSTER_TOKEN" \\`,
    `  -H "Content-Type: application/yaml" \\`,
    `  --data-binary @- <<'${end}'`,
    yaml.trimEnd(),
    end,
    "",
  ].join("\n");
}
